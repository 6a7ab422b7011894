"""prime-rl goes on without us: what its config classes say today is what rltui shows, edits and checks."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.prime_rl_configs.conftest import HOW_TO, VARIABLE
from tests.services.config.models.checkouts import make

from rltui.client import checking
from rltui.core.config.report import KnobInfo, Problem
from rltui.errors import ConfigError
from rltui.services.config.document import ConfigDocument
from rltui.services.config.files import detect
from rltui.services.config.models import FrameworkModels

MODEL = """
from typing import Annotated, Literal
from pydantic import BaseModel, ConfigDict, Field

class Base(BaseModel):
    model_config = ConfigDict(extra="forbid")

class GRPO(Base):
    type: Literal["grpo"] = "grpo"

class RLOO(Base):
    type: Literal["rloo"] = "rloo"
    leave_out: int = 1

class Orchestrator(Base):
    batch_size: int = Field(128, ge=1)
    max_off_policy_steps: int = Field(8, ge=0)
    algo: Annotated[GRPO, Field(discriminator=None)] = GRPO()

class Trainer(Base):
    max_steps: int | None = None

class RLConfig(Base):
    orchestrator: Orchestrator
    trainer: Trainer
    max_steps: int | None = None
"""
BATCH = "    batch_size: int = Field(128, ge=1{})\n"
PATIENCE = '''    patience: int = Field(3, ge=1)
    """Steps without a better reward. Then it stops."""
'''
TODAY = {
    BATCH.format(""): BATCH.format(", le=256") + PATIENCE,
    "max_off_policy_steps": "max_staleness",
    "Annotated[GRPO, Field(discriminator=None)]": 'Annotated[GRPO | RLOO, Field(discriminator="type")]',
}
"""What upstream did this morning: a tighter bound, a new key, a new name, a new member of a union."""
RL = "[trainer]\n[orchestrator]\nbatch_size = 64\n"


@dataclass(frozen=True)
class Upstream:
    """A checkout with a config file in it."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "rl.toml"

    def knobs(self) -> dict[str, KnobInfo]:
        return {knob.key: knob for knob in checking.knobs((self.config,), None).knobs}

    def problems(self, text: str) -> list[Problem]:
        self.config.write_text(text)
        problems = checking.check((self.config,), None, workspace=self.root, ask_models=True).problems
        return [problem for problem in problems if problem.severity == "error"]

    def store(self) -> ConfigDocument:
        framework = detect((self.config,), workspace=self.root)
        with closing(FrameworkModels(framework, self.root)) as own:
            return ConfigDocument([self.config], own.informed([self.config]))


@pytest.fixture
def upstream(tmp_path: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> Upstream:
    root = tmp_path / "prime-rl"
    make(root, MODEL)
    sign = root / "packages/prime-rl-configs/src/prime_rl/configs/monitors.py"
    sign.parent.mkdir(parents=True)
    sign.touch()
    monkeypatch.chdir(root)
    (root / "rl.toml").write_text(RL)
    return Upstream(root)


def test_what_upstream_changes_is_shown_edited_and_checked(upstream: Upstream) -> None:
    before = upstream.knobs()
    assert "orchestrator.patience" not in before
    assert upstream.problems(RL + "max_off_policy_steps = 4\n") == []
    (problem,) = upstream.problems(RL + "patience = 4\n")
    assert problem.message == "unknown key orchestrator.patience: prime-rl has no such key"

    source = upstream.root / "src/prime_rl/configs/rl.py"
    text = source.read_text()
    for was, now in TODAY.items():
        assert was in text
        text = text.replace(was, now)
    source.write_text(text)
    upstream.config.write_text(RL)

    patience = upstream.knobs()["orchestrator.patience"]
    assert (patience.kind, patience.value, patience.bounds) == ("int", 3, (1, None))
    assert patience.help == "Steps without a better reward."
    assert patience.readers == ("orchestrator",)
    edited = upstream.store().with_edits({"orchestrator.patience": 5, "orchestrator.algo.type": "rloo"})
    assert edited.requested is not None
    assert edited.requested["rl"] == {"orchestrator.patience": 5, "orchestrator.algo.type": "rloo"}
    assert not edited.blocked
    with pytest.raises(ConfigError, match="batch_size must be a whole number ≥ 1 and ≤ 256, not 512"):
        upstream.store().with_edits({"orchestrator.batch_size": 512})
    assert upstream.problems(RL + 'algo = { type = "rloo", leave_out = 2 }\n') == []
    (problem,) = upstream.problems(RL + "max_off_policy_steps = 4\n")
    assert problem.key == "orchestrator.max_off_policy_steps"


@pytest.mark.primerl
@pytest.mark.timeout(180)
def test_the_real_package_is_asked_likewise(upstream: Upstream) -> None:
    if not (python := os.environ.get(VARIABLE)):
        pytest.skip(HOW_TO)
    where = "import prime_rl.configs.rl as rl; print(rl.__file__)"
    file = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    copy = upstream.root / "packages/prime-rl-configs/src"
    shutil.copytree(Path(file).parents[2], copy, dirs_exist_ok=True)
    shutil.rmtree(upstream.root / "src")
    interpreter = upstream.root / ".venv/bin/python"
    interpreter.write_text(f'#!/bin/sh\nPYTHONPATH={copy} exec "$(cat {upstream.root}/real)" "$@"\n')
    inner = subprocess.run(
        [python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=True
    )
    (upstream.root / "real").write_text(inner.stdout.strip())
    source = copy / "prime_rl/configs/orchestrator.py"
    was = "    max_off_policy_steps: int = Field(8, ge=0)"
    text = source.read_text()
    assert was in text
    assert "orchestrator.max_off_policy_steps" in upstream.knobs()
    source.write_text(text.replace(was, '    max_staleness: int = Field(8, ge=0)\n    """New."""\n\n' + was))
    assert upstream.knobs()["orchestrator.max_staleness"].help == "New."
    assert upstream.problems("[trainer]\n[orchestrator]\nmax_staleness = 4\n") == []
    (problem,) = upstream.problems("[trainer]\n[orchestrator]\nmax_staleness = -1\n")
    assert "must be a whole number ≥ 0" in problem.message
