"""Which generation of prime-rl a file is for, and which of its programs: by the schema that it fits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

from rltui.core import hints
from rltui.frameworks.base import Checkout, Parsed
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
"""Keys that say how and where, and not what."""
_NAMES = {"orch": "orchestrator", "infer": "inference", "train": "trainer"}
"""What file names contain: only asked where the keys do not tell."""


def role_in(generation: str, path: str, data: Mapping[str, Any]) -> str | None:
    """A file's role in this generation; `None` for one that none of its programs reads alone."""
    return (_part_or_sft if generation == SPLIT else _rl_or_sft)(path, data)


def fit_in(generation: str, parsed: Parsed) -> int | None:
    """How many keys of some files this generation does not know; `None` where they are none that its programs
    read together. A file that only its keys tell must have more known than strange ones.
    """
    roles = [role_in(generation, path, data) for path, data in parsed]
    if None in roles or len(set(roles)) < len(roles):
        return None
    is_alone = generation == SPLIT and len(parsed) == 1 and roles[0] in PARTS
    judged = best_alone if is_alone else partial(best, generation)
    fits: list[Fit] = [judged(str(role), data)[1] for role, (_, data) in zip(roles, parsed, strict=True)]
    is_told = [role == "rl" or not data for role, (_, data) in zip(roles, parsed, strict=True)]
    if all(told or each.known > each.strange for told, each in zip(is_told, fits, strict=True)):
        return sum(each.strange for each in fits)
    return None


def is_of_summer(data: Mapping[str, Any]) -> bool:
    """A file from May 2026 on, by keys that came then."""
    role = _rl_or_sft("", data)
    if role is None:
        return False
    before = min(fit(schema, data).strange for schema in snapshots(MERGED, role, until="2026-05"))
    return before > min(best(each, role, data)[1].strange for each in (MERGED, CURRENT))


def not_alone(path: str, data: Mapping[str, Any]) -> str:
    """What a file is that no generation takes by itself, in words; empty where nothing tells."""
    if data and data.keys() <= _OF_OVERLAYS:
        return f"has only {', '.join(data)}: an overlay; name its base before it: @ BASE.toml @ {path}"
    evals = {"source", "env", "taskset"} & data.keys()
    if evals and {"model", "sampling", "client", "select", "num_examples"} & data.keys():
        return f"is the config of an evaluation; beside a run: {hints.EVAL_ENV(model='NAME')}"
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
    """Which of the three programs a file of its own is for; what its name says where several would do."""
    stem = PurePath(path).stem.lower()
    named = next((role for word, role in _NAMES.items() if word in stem), None)
    fits = {part: best(generation, part, data)[1] for part in PARTS}
    least = min(each.strange for each in fits.values())
    likely = [part for part, each in fits.items() if each.strange == least and each.known > each.strange]
    if not data:
        return named
    if named in likely or not likely:
        return named if named in likely else None
    return max(likely, key=lambda part: _AMONG_EQUALS.index(part))


_AMONG_EQUALS = ("orchestrator", "trainer", "inference")
"""Which is meant where keys and name tell nothing: a model alone is what inference serves."""


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
"""Where the config classes of all generations lie in the tree."""
PACKAGES = ("prime-rl", "prime-rl-configs", "verifiers", "vllm")
"""Whose versions say which keys there are, and what they do."""
