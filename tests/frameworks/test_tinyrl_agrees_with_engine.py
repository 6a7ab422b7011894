"""The framework's readings and rules against the engine's own models, which really read the file.

Keys, types, bounds, rules and what follows from other values are asked of those models; what can still differ
is how their schema is read, and on which values the rules are asked.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from rltui.base.toml import edit
from rltui.core.config.data import value_at
from rltui.core.config.knobs import Knob
from rltui.core.experiment.layout import Layout
from rltui.core.runs.evals import COMPONENT, SERVER, EvalRequest
from rltui.frameworks.evaluation import EvalCall
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launcher, ManualArguments
from rltui.services.experiment.layout_files import parts
from rltui.tinyrl.config import EVAL_OPTIONS, EvalConfig, RlConfig, SftConfig
from rltui.tinyrl.config_file import load_config, parse_arguments

MODELS: dict[str, type[BaseModel]] = {"rl": RlConfig, "sft": SftConfig}
BASE = {
    "rl": "[orchestrator]\nrollouts_per_example = 8\n\n[ckpt]\n\n[[orchestrator.env]]\n",
    "sft": "[data]\nbatch_size = 64\n",
}


def files(role: str, text: str) -> ConfigFiles:
    """A sound one of each kind, but for this one."""
    texts = {"rl": "", role: text}
    return {name: ConfigFile(name, f"/{name}.toml", tomllib.loads(lines)) for name, lines in texts.items()}


KNOBS = [
    knob
    for role, text in BASE.items()
    for knob in TINYRL.config.knobs(files(role, text))
    if knob.file == role
]


def dumped(role: str, text: str) -> dict[str, Any]:
    return MODELS[role].model_validate(tomllib.loads(text)).model_dump(mode="json")


@pytest.mark.parametrize(
    "lines",
    ["", "seq_len = 300", "[orchestrator]\nbatch_size = 64", "[ckpt]", "[orchestrator]\nseq_len = 200",
     "[orchestrator]\ntoken_batch_size = 999\nmax_inflight_rollouts = 5", "[ckpt]\ninterval = 3"],
)  # fmt: skip
def test_values_are_what_the_engine_resolves(lines: str) -> None:
    engine = RlConfig.model_validate(tomllib.loads(lines))
    resolved = {name: value_at(engine.model_dump(mode="json"), name) for name in (knob.key for knob in KNOBS)}
    configs = files("rl", lines)
    knobs = TINYRL.config.knobs(configs)
    ours, names = TINYRL.config.values_of(knobs, configs), {knob.name for knob in knobs}
    assert len(names) > 30
    assert {name: ours[name] for name in names} == {name: resolved[name] for name in names}


@pytest.mark.parametrize("role", MODELS)
def test_every_value_of_the_engine_is_a_knob(role: str) -> None:
    keys = {knob.key for knob in KNOBS if knob.file == role}

    def leaves(table: Any, at: str) -> set[str]:
        items = (
            table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
        )
        return {leaf for key, value in items for leaf in leaves(value, f"{at}.{key}")} or {at[1:]}

    assert keys == leaves(dumped(role, BASE[role]), "")


def engine_accepts(role: str, text: str) -> bool:
    try:
        MODELS[role].model_validate(tomllib.loads(text))
    except ValidationError:
        return False
    return True


def framework_accepts(role: str, text: str) -> bool:
    return not any(problem.severity == "error" for problem in TINYRL.config.check(files(role, text)))


ODD = [
    -2, -1, 0, 1, 2, 3, 7, 8, 16, 100, 128, 256, 65535, 65536, -1.0, 0.0, 0.5, 1.0, 1.5, 10.0, float("nan"),
    float("inf"), True, False, "8", "x", "None", "true", "0.5", "1.5", "http://localhost:8000/v1",
    "http://localhost:9000/v1", [], [1], {}, {"a": 1},
]  # fmt: skip


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_one_edit_gets_the_same_verdict(knob: Knob) -> None:
    for value in ODD:
        if isinstance(value, float) and value - value != 0 and knob.kind == "float":
            continue  # the engine takes them
        text = edit.edit(BASE[knob.file], {knob.key: value})
        assert framework_accepts(knob.file, text) == engine_accepts(knob.file, text), text


def test_an_output_folder_must_have_a_name() -> None:
    """For the engine, it is the working directory."""
    assert not framework_accepts("rl", edit.edit(BASE["rl"], {"output_dir": ""}))


@pytest.mark.parametrize(
    "text",
    ["inference = 5", "ckpt = true", "ckpt = false", "[ckpt]\nstep = 1", "[orchestrator]\nenv = []",
     "nope = 1", "[orchestrator]\nenv = [{}, {}]", "[orchestrator]\nenv = [5]", "[orchestrator]\nenv = 5",
     "[[orchestrator.env]]\nargs = 5", "[[orchestrator.env]]\nargs = { chars = 5 }", "[nope.deep]\nx = 1"],
)  # fmt: skip
def test_tables_get_the_same_verdict(text: str) -> None:
    assert not engine_accepts("rl", text)
    assert not framework_accepts("rl", text)


BATCHING = [
    knob for knob in KNOBS
    if knob.name.startswith(("orchestrator.", "seq_len", "trainer.model", "inference.model", "max_async"))
    and knob.kind in ("int", "float")
]  # fmt: skip


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(BATCHING), st.sampled_from([1, 2, 8, 12, 16, 64, 128, 256]), max_size=5)
)
def test_several_edits_get_the_same_verdict(edits: dict[Knob, int]) -> None:
    text = edit.edit(BASE["rl"], {knob.key: value for knob, value in edits.items()})
    assert framework_accepts("rl", text) == engine_accepts("rl", text), text


def of_the_engine() -> list[Path]:
    """Shipped configs, but for the workspaces of other frameworks, whose files have the same names."""
    examples = Path(__file__).parents[2] / "examples"
    return sorted(path for path in examples.glob("**/*.toml") if examples / "workspaces" not in path.parents)


@pytest.mark.parametrize("path", of_the_engine(), ids=lambda path: path.name)
def test_shipped_examples_are_sound(path: Path) -> None:
    data = tomllib.loads(path.read_text())
    role = TINYRL.config.role(str(path), data)
    if role is None:
        pytest.skip("of another framework")
    problems = TINYRL.config.check(
        {"rl": ConfigFile("rl", "/rl.toml", {}), role: ConfigFile(role, str(path), data)}
    )
    assert [problem for problem in problems if problem.file == str(path)] == []


def words_of(argv: Sequence[str]) -> list[str]:
    """What the program gets: all behind its name."""
    return [*argv[argv.index("rltui.tinyrl") + 2 :]]


def test_the_engine_takes_the_commands_of_an_evaluation(tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text(
        f'{BASE["rl"]}[orchestrator.client]\nbase_url = "http://127.0.0.1:8000"\n'
    )
    record = ExperimentRecord("one", str(tmp_path), str(tmp_path), (), "tinyrl.toml", "tinyrl", 1.0)
    layout = Layout(component=parts("tinyrl"))
    launcher = Launcher(record, layout, TINYRL, choose=lambda _: ())
    data = tomllib.loads((tmp_path / "rl.toml").read_text())
    configs = {"rl": ConfigFile("rl", str(tmp_path / "rl.toml"), data)}
    for memory, utilization in (("", 0.9), ("0.30", 0.3)):
        arguments: ManualArguments = {
            "model": "/w/base",
            "port": "4711",
            "gpus": "",
            "gpu_memory": memory,
            "options": ("--seed", "5"),
        }
        launcher.assign(SERVER, arguments)
        launch = launcher.context(configs).launch(SERVER)
        server = load_config(RlConfig, parse_arguments(words_of(launch.argv)))
        assert (server.model.name, server.inference.server.port, server.seed) == ("/w/base", 4711, 5)
        assert server.inference.gpu_memory_utilization == utilization
        assert launch.port == 4711
    request = EvalRequest(env="reverse-text", num_examples=7, max_tokens=99, arguments=("--seed", "6"))
    call = EvalCall(request, "http://127.0.0.1:4711/v1", "/w/base", "/results")
    command = TINYRL.evaluation.command(configs, launcher.context(configs).run_context, call)
    assert command is not None
    argv = command.argv
    launcher.assign(COMPONENT, {"command": argv})
    assert launcher.context(configs).launch(COMPONENT).argv == argv
    parsed = load_config(EvalConfig, parse_arguments(words_of(argv), EVAL_OPTIONS))
    assert (parsed.base_url, parsed.model.name, parsed.results_dir) == (
        "http://127.0.0.1:4711", "/w/base", Path("/results"),
    )  # fmt: skip
    assert (parsed.num_examples, parsed.rollouts_per_example, parsed.max_tokens, parsed.seed) == (7, 3, 99, 6)
