"""Own validators, with stand-in checkouts: a small `prime_rl` package that this very interpreter runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rltui.core.config_report import Problem
from rltui.frameworks.base import Checkout, Framework, OwnValidation
from rltui.frameworks.generic import GENERIC
from rltui.services import own_validation, toml_source, trust
from rltui.services.config_files import LoadedFiles
from rltui.services.own_problems import OwnValidators
from rltui.services.own_validation import NotAsked, ask

MODEL = """
from typing import Annotated, Literal
from pydantic import BaseModel, ConfigDict, Field, model_validator

print("noise on stdout")

class Base(BaseModel):
    model_config = ConfigDict(extra="forbid")

class AdamW(Base):
    type: Literal["adamw"] = "adamw"
    lr: float = Field(1e-6, ge=0)

class Muon(Base):
    type: Literal["muon"] = "muon"

class Env(Base):
    id: str

class Orchestrator(Base):
    batch_size: int = 128
    group_size: int = 1
    env: list[Env] = []

    @model_validator(mode="after")
    def divides(self):
        if self.batch_size % self.group_size:
            raise ValueError("Batch size must be divisible by the number of samples per problem")
        return self

class RLConfig(Base):
    max_steps: int
    optim: Annotated[AdamW | Muon, Field(discriminator="type")] = AdamW()
    orchestrator: Orchestrator = Field(default_factory=Orchestrator)
"""

MODELS = OwnValidation(models={"rl": ("prime_rl.newer:RLConfig", "prime_rl.configs.rl:RLConfig")})
FRAMEWORK = replace(
    GENERIC,
    own_validation=MODELS,
    checkout=Checkout(project="prime-rl", variable="RLTUI_NO_SUCH_VARIABLE", programs=("no-such-program",)),
)

Checkouts = Callable[[str], tuple[str, ...]]


@pytest.fixture
def checkout(tmp_path: Path, own_user: Path) -> Checkouts:
    """Makes a checkout in `tmp_path/box` with these config classes, which is trusted, and returns its
    interpreter.
    """
    assert own_user.is_dir()

    def make(source: str) -> tuple[str, ...]:
        root = tmp_path / "box"
        trust.grant([root])
        package = root / "src/prime_rl/configs"
        package.mkdir(parents=True)
        (root / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
        (package / "rl.py").write_text(source)
        python = root / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nPYTHONPATH={root}/src exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return (str(python),)

    return make


def loaded(tmp_path: Path, text: str) -> LoadedFiles:
    path = tmp_path / "box/rl.toml"
    path.write_text(text)
    return LoadedFiles({"rl": toml_source.read(path)})


def problems(
    tmp_path: Path, text: str, ours: tuple[Problem, ...] = (), own: Framework = FRAMEWORK
) -> list[Problem]:
    return list(OwnValidators(own, tmp_path / "box").problems(loaded(tmp_path, text), ours))


def test_an_untrusted_checkout_is_not_run(tmp_path: Path, checkout: Checkouts) -> None:
    """Finding H2."""
    checkout(f"open({str(tmp_path / 'run')!r}, 'w')\n{MODEL}")
    trust.revoke(tmp_path)
    (problem,) = problems(tmp_path, "x = 1\n")
    assert (problem.severity, f"rltui trust {tmp_path / 'box'}" in problem.message) == ("hint", True)
    assert not OwnValidators(FRAMEWORK, tmp_path / "box").accepts(loaded(tmp_path, "x = 1\n"))
    assert not (tmp_path / "run").exists()


def test_a_valid_file_says_nothing_and_leaves_nothing(tmp_path: Path, checkout: Checkouts) -> None:
    checkout(MODEL)
    before = sorted(tmp_path.rglob("*"))
    assert problems(tmp_path, "max_steps = 3\n") == []
    after = sorted(tmp_path.rglob("*"))
    assert [path.name for path in after if path not in before] == ["rl.toml"], "no bytecode either"


def test_errors_have_key_and_line(tmp_path: Path, checkout: Checkouts) -> None:
    checkout(MODEL)
    text = (
        '# a comment\n[optim]\ntype = "adamw"\nlr = -1.0\n\n[orchestrator]\nbatch_size = 10\ngroup_size = 4\n'
        '\n[[orchestrator.env]]\nid = "a"\n[[orchestrator.env]]\nid = 5\nextra = 1\n'
    )
    found = {(problem.key, problem.line): problem.message for problem in problems(tmp_path, text)}
    assert found == {
        ("max_steps", None): "prime-rl says: Field required",
        ("optim.lr", 4): "prime-rl says: Input should be greater than or equal to 0",
        ("orchestrator.env.1.id", 13): "prime-rl says: Input should be a valid string",
        ("orchestrator.env.1.extra", 14): "prime-rl says: Extra inputs are not permitted",
    }
    rule = problems(tmp_path, "max_steps = 1\n[orchestrator]\nbatch_size = 10\ngroup_size = 4\n")
    assert [(item.key, item.line, item.severity) for item in rule] == [("orchestrator", 2, "error")]
    assert "must be divisible" in rule[0].message


def test_what_we_told_is_not_told_again(tmp_path: Path, checkout: Checkouts) -> None:
    checkout(MODEL)
    text = 'max_steps = 1\n[optim]\ntype = "adamw"\nlr = -1.0\n'
    text += "[orchestrator]\nbatch_size = 10\ngroup_size = 4\n"
    file = str(tmp_path / "box/rl.toml")

    def ours(key: str, severity: str = "error") -> Problem:
        return Problem.model_validate({"severity": severity, "key": key, "message": "x", "file": file})

    keys = {item.key for item in problems(tmp_path, text)}
    assert keys == {"optim.lr", "orchestrator"}
    assert {item.key for item in problems(tmp_path, text, (ours("optim.lr"),))} == keys - {"optim.lr"}
    assert {item.key for item in problems(tmp_path, text, (ours("optim.lr", "warning"),))} == keys


def test_a_missing_package_of_an_environment_is_a_warning(tmp_path: Path, checkout: Checkouts) -> None:
    missing = "raise ModuleNotFoundError(\"taskset 'reverse-text' not found\")"
    checkout(MODEL.replace("        return self\n", f"        {missing}\n"))
    [found] = problems(tmp_path, "max_steps = 1\n[orchestrator]\ngroup_size = 1\n")
    assert found.severity == "warning"
    assert "taskset 'reverse-text' not found" in found.message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_package_at_all", "No module named 'no_such_package_at_all'"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import os; os._exit(7)", "exited 7"),
        ("import os; os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
        ("import os; os.write(3, b'x'); os._exit(0)", "it answered something else"),
        (MODEL + "\nRLConfig.model_validate = None\n", "TypeError"),
    ],
    ids=["import", "exit", "hard exit", "crash", "garbage", "odd class"],
)
def test_who_cannot_answer_is_one_hint(tmp_path: Path, checkout: Checkouts, source: str, reason: str) -> None:
    checkout(source)
    [found] = problems(tmp_path, "max_steps = 1\n")
    assert found.severity == "hint"
    assert found.message.startswith("prime-rl itself could not be asked: ")
    assert reason in found.message


def test_who_hangs_is_ended_with_all_it_started(tmp_path: Path, checkout: Checkouts) -> None:
    pids = tmp_path / "pids"
    interpreter = checkout(
        "import os, subprocess, time\n"
        f"child = subprocess.Popen(['sleep', '100'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(100)\n"
    )
    answer = ask(interpreter, MODELS, {"rl": "max_steps = 1\n"}, folder=tmp_path, timeout_s=1.0)
    assert answer == NotAsked("no answer within 1 s")
    for pid in map(int, pids.read_text().split()):
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_one_who_computes_for_ever_is_ended(tmp_path: Path, checkout: Checkouts) -> None:
    interpreter = checkout("while True:\n    pass\n")
    answer = ask(interpreter, MODELS, {"rl": "max_steps = 1\n"}, folder=tmp_path, cpu_s=1)
    assert answer == NotAsked("no answer within 1 s of processor time")


def test_they_accept_what_they_find_valid_and_nothing_else(tmp_path: Path, checkout: Checkouts) -> None:
    (tmp_path / "box").mkdir()
    own = OwnValidators(FRAMEWORK, tmp_path / "box")
    assert not own.accepts(loaded(tmp_path, "max_steps = 3\n")), "there is nobody to ask"
    (tmp_path / "box/rl.toml").unlink()
    (tmp_path / "box").rmdir()
    checkout(MODEL)
    assert own.accepts(loaded(tmp_path, "max_steps = 3\n"))
    assert not own.accepts(loaded(tmp_path, "no_such_key = 3\n"))


def test_it_sees_no_gpu_and_no_hub(tmp_path: Path, checkout: Checkouts) -> None:
    seen = tmp_path / "seen.json"
    checkout(f"import json, os\njson.dump(dict(os.environ), open({str(seen)!r}, 'w'))\n" + MODEL)
    assert problems(tmp_path, "max_steps = 1\n") == []
    environment = json.loads(seen.read_text())
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["HF_HUB_OFFLINE"]) == ("", "1")


def test_a_verdict_is_kept_and_anything_else_asked_again(
    tmp_path: Path, checkout: Checkouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout(MODEL)
    asked: list[own_validation.Answers | NotAsked] = []

    def counted(*args: object, **options: object) -> own_validation.Answers | NotAsked:
        asked.append(NotAsked("hung") if not asked else {"rl": {"valid": True}})
        return asked[-1]

    monkeypatch.setattr(own_validation, "ask", counted)
    validators = OwnValidators(FRAMEWORK, tmp_path / "box")
    files = loaded(tmp_path, "max_steps = 1\n")
    assert [problem.severity for problem in validators.problems(files)] == ["hint"]
    assert [validators.problems(files) for _ in range(3)] == [(), (), ()]
    assert len(asked) == 2
    validators.problems(loaded(tmp_path, "max_steps = 2\n"))
    assert len(asked) == 3


def test_without_checkout_or_models_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    assert problems(tmp_path, "max_steps = 1\n") == []
    assert problems(tmp_path, "max_steps = 1\n", own=GENERIC) == []
    assert ask((sys.executable,), MODELS, {"sft": ""}, folder=tmp_path) == {}


def test_an_interpreter_that_cannot_run(tmp_path: Path) -> None:
    answer = ask((str(tmp_path / "none"),), MODELS, {"rl": ""}, folder=tmp_path)
    assert isinstance(answer, NotAsked)
    assert os.strerror(2) in answer.reason
