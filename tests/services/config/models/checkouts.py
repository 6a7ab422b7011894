"""Stand-in checkouts of prime-rl: real config classes, in a small package that this very interpreter runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.frameworks import answering

from rltui.frameworks.base import Checkout
from rltui.frameworks.config import ConfigModels
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl import generation
from rltui.services.config.config_file import read_file
from rltui.services.config.models import FrameworkModels
from rltui.services.config.models.worker import Limits
from rltui.services.experiment import trust

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

MODELS = ConfigModels(
    models={"rl": ("prime_rl.newer:RLConfig", "prime_rl.configs.rl:RLConfig")},
    sources=("src/**/*.py",),
    packages=("prime-rl", "orjson"),
    stand_ins=generation.CURRENT.models.stand_ins,
)
FRAMEWORK = answering(
    GENERIC,
    models=MODELS,
    checkout=Checkout(project="prime-rl", variable="RLTUI_NO_SUCH_VARIABLE", programs=("no-such-program",)),
)


@dataclass(frozen=True)
class Box:
    """A trusted checkout, which is the workspace too."""

    root: Path

    @property
    def interpreter(self) -> tuple[str, ...]:
        return (str(self.root / ".venv/bin/python"),)

    @property
    def starts(self) -> int:
        """How often processes imported the classes."""
        seen = self.root / "starts"
        return len(seen.read_text()) if seen.exists() else 0

    def write(self, source: str, module: str = "prime_rl/configs/rl.py") -> None:
        """A module of the checkout's."""
        path = self.root / "src" / module
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "rl.py":
            source = f"open({str(self.root / 'starts')!r}, 'a').write('x')\n{source}"
        path.write_text(source)

    def own(self, **limits: float) -> FrameworkModels:
        return FrameworkModels(FRAMEWORK, self.root, limits=Limits(**limits))

    def loaded(self, text: str) -> ConfigFiles:
        path = self.root / "rl.toml"
        path.write_text(text)
        return {"rl": read_file(path, "rl")}


def make(root: Path, source: str = MODEL) -> Box:
    """A checkout with these config classes."""
    trust.trust(root)
    python = root / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={root}/src exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (root / "pyproject.toml").write_text('[project]\nname = "prime-rl"\nrequires-python = ">=3.10"\n')
    box = Box(root)
    box.write(source)
    return box


def is_alive(pid: int) -> bool:
    """Not even a zombie counts."""
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
