"""Detects the generation of prime-rl that a file is for, and its program: by the schema that it fits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from rltui.core import hints
from rltui.frameworks.base import Checkout
from rltui.frameworks.inputs import Parsed
from rltui.frameworks.prime_rl.configs import (
    CURRENT,
    MERGED,
    PARTS,
    SPLIT,
    Fit,
    best,
    best_alone,
    fit,
    snapshots,
)
from rltui.frameworks.verifiers.files import is_vf_rl

_OF_OVERLAYS = frozenset(
    {"output_dir", "slurm", "deployment", "run", "log", "max_steps", "wandb", "monitors"}
)
"""Keys about place and manner of a run only."""
_NAMES = {"orch": "orchestrator", "infer": "inference", "train": "trainer"}
"""Part of a file name → role: only used if the keys do not tell."""


def role_in(generation: str, path: str, data: Mapping[str, Any]) -> str | None:
    """A file's role in this generation; `None` for one that none of its programs reads alone."""
    return (_part_or_sft if generation == SPLIT else _rl_or_sft)(path, data)


def fit_in(generation: str, parsed: Parsed) -> int | None:
    """Number of keys of some files that this generation does not know; `None` if its programs do not read
    them together. A file that is only recognised by its keys must have more known than strange ones.
    """
    roles = [role_in(generation, path, data) for path, data in parsed]
    if None in roles or len(set(roles)) < len(roles):
        return None
    is_alone = generation == SPLIT and len(parsed) == 1 and roles[0] in PARTS
    judge = best_alone if is_alone else partial(best, generation)
    fits: list[Fit] = [judge(str(role), data)[1] for role, (_, data) in zip(roles, parsed, strict=True)]
    is_told = [role == "rl" or not data for role, (_, data) in zip(roles, parsed, strict=True)]
    if all(is_certain or fit_.known > fit_.strange for is_certain, fit_ in zip(is_told, fits, strict=True)):
        return sum(fit_.strange for fit_ in fits)
    return None


def is_of_summer(data: Mapping[str, Any]) -> bool:
    """Whether a file is from May 2026 on, by keys that came then."""
    role = _rl_or_sft("", data)
    if role is None:
        return False
    old_misfit = min(fit(schema, data).strange for schema in snapshots(MERGED, role, until="2026-05"))
    return old_misfit > min(best(generation_, role, data)[1].strange for generation_ in (MERGED, CURRENT))


def not_alone(path: str, data: Mapping[str, Any]) -> str:
    """Description of a file that no generation accepts by itself; empty if nothing tells."""
    if data and data.keys() <= _OF_OVERLAYS:
        return f"has only {', '.join(data)}: an overlay; name its base before it: @ BASE.toml @ {path}"
    evals = {"source", "env", "taskset"} & data.keys()
    if evals and {"model", "sampling", "client", "select", "num_examples"} & data.keys():
        return f"is an evaluation config; to evaluate a run: {hints.EVAL_ENV(model='NAME')}"
    return ""


def _rl_or_sft(path: str, data: Mapping[str, Any]) -> str | None:
    del path
    if is_vf_rl(data):
        return None
    if any(isinstance(data.get(part), Mapping) for part in ("orchestrator", "trainer")):
        return "rl"
    return "sft" if _is_sft(data) else None


def _is_sft(data: Mapping[str, Any]) -> bool:
    """It trains on rows: the trainers of RL only know `[data.fake]`."""
    table = data.get("data")
    return isinstance(table, Mapping) and bool(table.keys() - {"fake"})


def _part_or_sft(path: str, data: Mapping[str, Any]) -> str | None:
    if any(part in data for part in ("orchestrator", "trainer")) or is_vf_rl(data):
        return None
    if _is_sft(data):
        return "sft"
    eras = (SPLIT,) if data.keys() <= _OF_OVERLAYS else (SPLIT, MERGED, CURRENT)
    return next((part for era in eras if (part := _part(path, data, era))), None)


def _part(path: str, data: Mapping[str, Any], generation: str) -> str | None:
    """The program that a separate file is for; decided by its name if several fit."""
    stem = PurePath(path).stem.lower()
    named_role = next((role for name_part, role in _NAMES.items() if name_part in stem), None)
    fits = {part: best(generation, part, data)[1] for part in PARTS}
    least = min(fit_.strange for fit_ in fits.values())
    likely = [part for part, fit_ in fits.items() if fit_.strange == least and fit_.known > fit_.strange]
    if not data:
        return named_role
    if named_role in likely or not likely:
        return named_role if named_role in likely else None
    return max(likely, key=lambda part: _AMONG_EQUALS.index(part))


_AMONG_EQUALS = ("orchestrator", "trainer", "inference")
"""Order of preference if keys and name tell nothing, the last first: a model alone is for inference."""


CHECKOUT = Checkout(
    project="prime-rl",
    variable="RLTUI_PRIME_RL",
    programs=("rl", "inference", "orchestrator", "trainer", "sft", "torchrun"),
    generations=(
        ("packages/prime-rl-configs/src/prime_rl/configs/monitors.py", CURRENT),
        ("packages/prime-rl-configs/src/prime_rl/configs/eval.py", CURRENT),
        ("src/prime_rl/entrypoints/dashboard.py", CURRENT),
        ("src/prime_rl/entrypoints", MERGED),
        ("src/prime_rl/configs", MERGED),
        ("src/prime_rl", SPLIT),
    ),
    merges_tables="src/prime_rl/utils/pydantic_config.py",
)
"""All three generations call themselves the same; what lies in the tree tells them apart. Today's has
run folders, which came two days before `monitors.py` (2026-08-15, 9975d8868); the other two are of autumn."""

SOURCES = (
    "packages/prime-rl-configs/src/**/*.py",
    "src/prime_rl/configs/**/*.py",
    "src/prime_rl/**/config*.py",
)
"""Locations of the config classes of all generations in the tree."""
PACKAGES = ("prime-rl", "prime-rl-configs", "verifiers", "vllm")
STAND_INS = str(Path(__file__).parents[1] / "verifiers" / "stand_ins.py")
"""Packages whose versions decide about the keys, and their meaning."""
