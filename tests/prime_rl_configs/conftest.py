"""prime-rl's own config package, asked in its own interpreter: only where somebody has installed it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "RLTUI_PRIME_RL_CONFIGS_PYTHON"
HOW_TO = f"""\
set {VARIABLE} to a Python 3.12 that imports `prime_rl.configs`: in a virtual environment,
`pip install prime-pydantic-config==0.4.3 verifiers==0.3.1.dev59 renderers==0.1.12`, and the folder
packages/prime-rl-configs/src of a checkout of prime-rl at 559b44772 on its path: a .pth file will do.
The checkout's `examples` and `configs` are then found too."""
WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Real:
    """The package. One process answers all questions, since it takes seconds to import."""

    process: subprocess.Popen[str]

    def _ask(self, question: Mapping[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def errors(self, model: str, config: Mapping[str, Any]) -> list[dict[str, str]]:
        """What it refuses, each with `at`, `type` and `message`; empty: it takes the config."""
        answer: list[dict[str, str]] = self._ask({"model": model, "config": config})["errors"]
        return answer

    def fields(self, model: str) -> dict[str, dict[str, Any]]:
        """Every key by its path; `[]` for entries of arrays, `<tag>` for members of unions."""
        answer: dict[str, dict[str, Any]] = self._ask({"model": model, "fields": True})
        return answer

    def examples(self) -> list[Path]:
        """TOML files of the checkout that it comes from."""
        return [Path(path) for path in self._ask({"model": "rl", "examples": True})]


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    """Needs the interpreter that the variable names."""
    if not (python := os.environ.get(VARIABLE)):
        pytest.skip(HOW_TO)
    process = subprocess.Popen(
        [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Real(process)
    finally:
        process.communicate(timeout=20)
