"""The real `RLConfig`: what rltui asks of it, and what the snapshot of it says.

`RLTUI_VERIFIERS_PYTHONS=A/bin/python pytest -m verifiers -n 0 tests/verifiers`
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.verifiers.conftest import interpreter

from rltui.core.config.data import apply_edits
from rltui.frameworks.inputs import ConfigFile, RunContext
from rltui.frameworks.verifiers import VF_RL
from rltui.services.config.files import load_files
from rltui.services.config.models import FrameworkModels
from rltui.services.experiment import trust
from rltui.services.experiment.checkout import installed_packages

pytestmark = pytest.mark.verifiers
SEED = (Path(__file__).parents[1] / "data/verifiers/reverse-text.toml").read_text()
SNAPSHOT = Path(__file__).parents[2] / "tui/rltui/frameworks/verifiers/data/rlconfig.json"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose environment has `RLConfig`."""
    environment = interpreter("0.1.9").parents[1]
    for name in ("STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "lab"\ndependencies = ["verifiers[rl]"]\n')
    (tmp_path / ".venv").symlink_to(environment)
    for folder in (tmp_path, environment):
        trust.trust(folder)
    return tmp_path


def test_the_snapshot_is_what_the_last_release_says(project: Path) -> None:
    config = project / "vf.toml"
    config.write_text(SEED)
    models = FrameworkModels(VF_RL, project)
    try:
        schema = models.schemas([config])["rl"]
        assert models.versions([config])["verifiers"] == installed_packages(project)["verifiers"]
    finally:
        models.close()
    for property_ in schema["properties"].values():
        property_.pop("description", None)
    assert json.loads(SNAPSHOT.read_text())["properties"] == schema["properties"]


@pytest.mark.parametrize(
    ("edit", "ours", "theirs"),
    [
        ("batch_size = 128", [], []),
        ("batch_size = 100", ["nearest valid"], ["batch_size must be divisible by"]),
        ("rollouts_per_example = 1", ["a whole number ≥ 2"], ["2 or more rollouts per example"]),
        ("wandb = { project = 'x' }", ["unknown key"], ["RLConfig has no such argument"]),
        ("lr_scheduler_type = 'cosin'", ["must be one of"], ["is not a valid SchedulerType"]),
    ],
)  # fmt: skip
def test_rules_of_ours_agree_with_it(project: Path, edit: str, ours: list[str], theirs: list[str]) -> None:
    config = project / "vf.toml"
    key = edit.partition(" ")[0]
    lines = [line for line in SEED.splitlines() if not line.startswith(f"{key} ")]
    config.write_text("\n".join([*lines, edit]))
    problems = VF_RL.config.check({"rl": ConfigFile("rl", str(config), tomllib.loads(config.read_text()))})
    assert all(any(words in problem.message for problem in problems) for words in ours)
    assert bool(ours) is bool(problems)
    models = FrameworkModels(VF_RL, project)
    try:
        refusals = [problem.message for problem in models.problems(load_files([config], VF_RL))]
    finally:
        models.close()
    assert all(any(words in message for message in refusals) for words in theirs), refusals
    assert bool(theirs) is bool(refusals)


OPTIONS = [
    {},
    {"inference__args__port": 8123, "inference__args__enforce_eager": False},
    {"inference__gpus": 4, "inference__args__tensor_parallel_size": 2},
    {"inference__gpus": 2, "inference__args__tool_call_parser": "hermes"},
]


@pytest.mark.parametrize("edits", OPTIONS)
def test_vf_vllm_is_called_as_vf_rl_calls_it(edits: dict[str, Any]) -> None:
    data = apply_edits(tomllib.loads(SEED), {key.replace("__", "."): value for key, value in edits.items()})
    script = (
        "import json, sys; from verifiers.scripts.rl import build_vllm_command as build; "
        "data = json.loads(sys.argv[1]); print(build(data['model'], data['inference'], 'DEVICES=0'))"
    )
    output = subprocess.run(
        [interpreter("0.1.9"), "-c", script, json.dumps(data)], capture_output=True, text=True, check=True
    ).stdout.split()
    configs = {"rl": ConfigFile("rl", "/w/vf.toml", data)}
    values = VF_RL.launch.template_values(configs, RunContext("/w", "/o", "python", run=("uv", "run")))
    options = values["vllm_arguments"]
    assert isinstance(options, tuple)
    ours = ("uv", "run", "vf-vllm", "--model", str(values["model"]), *options)
    assert output[0] == "DEVICES=0"
    port = ("--port", str(values["port.inference"]))
    assert sorted(ours) == sorted((*output[1:], *(() if "--port" in output else port)))
