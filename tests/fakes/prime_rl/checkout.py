"""A folder that looks like somebody's checkout of prime-rl, with the stand-ins as its programs."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fakes.prime_rl.generation import GENERATIONS, Name
from tests.fakes.prime_rl.main import CURRENT_PROGRAMS, PROGRAMS

TOOLS = "tools"
"""Folder of the checkout that holds `uv`: put it first on the path."""

_REPOSITORY = Path(__file__).parents[3]
_MARKS: dict[Name, tuple[str, ...]] = {
    "A1": ("src/prime_rl/rl.py", "src/prime_rl/inference/server.py", "src/prime_rl/trainer/rl/train.py"),
    "B0": (
        "src/prime_rl/entrypoints/rl.py",
        "src/prime_rl/configs/rl.py",
        "src/prime_rl/utils/pydantic_config.py",
    ),
    "B1": (
        "src/prime_rl/entrypoints/inference.py",
        "src/prime_rl/configs/rl.py",
        "src/prime_rl/utils/config.py",
    ),
    "C": (
        "src/prime_rl/entrypoints/rl.py",
        "packages/prime-rl-configs/pyproject.toml",
        "packages/prime-rl-configs/src/prime_rl/configs/monitors.py",
        "packages/prime-rl-configs/src/prime_rl/configs/rl.py",
    ),
    "D": (
        "src/prime_rl/entrypoints/rl.py",
        "src/prime_rl/entrypoints/dashboard.py",
        "packages/prime-rl-configs/pyproject.toml",
        "packages/prime-rl-configs/src/prime_rl/configs/monitors.py",
        "packages/prime-rl-configs/src/prime_rl/configs/eval.py",
        "packages/prime-rl-configs/src/prime_rl/configs/rl.py",
    ),
}
"""Files by which one can tell the generation, empty here."""


def checkout(tmp_path: Path, generation: Name) -> Path:
    """Make it below `tmp_path`; the programs lie in `.venv/bin`, `uv` in `tools`."""
    root = tmp_path / f"prime-rl-{generation.lower()}"
    for mark in _MARKS[generation]:
        (root / mark).parent.mkdir(parents=True, exist_ok=True)
        (root / mark).touch()
    (root / "pyproject.toml").write_text('[project]\nname = "prime-rl"\nversion = "0.0.0"\n')
    programs = root / ".venv" / "bin"
    programs.mkdir(parents=True)
    _python(programs / "python")
    names = {*PROGRAMS, *(CURRENT_PROGRAMS if GENERATIONS[generation].is_late else ())}
    for name in names:
        _program(programs / name, "main", "run", f"run({name!r}, {generation!r})")
    if GENERATIONS[generation].is_late:
        _program(programs / "vllm-router", "router", "vllm_router", "sys.exit(vllm_router(sys.argv[1:]))")
    if GENERATIONS[generation].has_attempts:
        _program(programs / "dashboard", "dashboard", "dashboard", "sys.exit(dashboard(sys.argv[1:]))")
    _program(root / TOOLS / "uv", "uv", "uv", "sys.exit(uv(sys.argv[1:]))")
    return root


def _python(path: Path) -> None:
    """The interpreter, which has one module of the checkout: the evaluations of autumn."""
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$1 $2" = "-m prime_rl.eval.online" ]; then shift 2; exec "${0%/*}/evals" "$@"; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    path.chmod(0o755)


def _program(path: Path, module: str, function: str, call: str) -> None:
    """A script that runs without site-packages: it starts in a few hundredths of a second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable} -S\n"
        "import sys\n"
        f"sys.path.insert(0, {str(_REPOSITORY)!r})\n"
        f"from tests.fakes.prime_rl.{module} import {function}\n"
        f"{call}\n"
    )
    path.chmod(0o755)
