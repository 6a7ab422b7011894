"""The config files of every generation: their schemas, which one a file fits, and the program that reads it.

The schemas come from prime-rl's own models at the commits that they name; the newest, without a commit,
is put together from single files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from pathlib import PurePath
from typing import Any

from rltui.core import hints
from rltui.core.config.data import leaves
from rltui.core.config.schema import ConfigSchema
from rltui.frameworks.inputs import Parsed
from rltui.frameworks.prime_rl.values import data_file
from rltui.frameworks.schemas import Overlay
from rltui.frameworks.verifiers.files import is_vf_rl

SPLIT, MERGED, CURRENT = "prime-rl-split", "prime-rl-merged", "prime-rl"
"""Ids of the generations: three files (2025), one `rl.toml` (until August 2026), since then run folders."""
PARTS = ("inference", "orchestrator", "trainer")
"""Roles of the files of the first generation; later, tables of `rl.toml`."""
FREE = frozenset(
    f"{at}source[].{key}"
    for at in ("orchestrator.train.", "orchestrator.eval.", "eval.")
    for key in ("env", "serve")
)
"""Keys below these belong to verifiers and to the environment's own package."""
SWITCHES = frozenset({"trainer.model.full_offload", "model.full_offload"})
"""A validator turns `true` into the table, which no schema tells."""
FOREIGN = frozenset({"orchestrator.renderer", "renderer"})
"""Tables of the package `renderers`."""
OVERLAY = Overlay.parse(data_file("concepts.toml"))
"""Knowledge that no schema has, for all generations."""
SOURCES = {
    "train": OVERLAY.concepts["train_source"].keys,
    "eval": ("eval.source", *OVERLAY.concepts["eval_source"].keys),
}
"""Split → arrays of its sources in all generations, in the launchers' files."""

_DATES: Mapping[str, tuple[str, ...]] = {
    SPLIT: ("2025-12-01",),
    MERGED: ("2026-08-06", "2026-07-13", "2026-06-22", "2026-04-25", "2026-02-25", "2025-12-01"),
    CURRENT: ("2026-11-01", "2026-08-21"),
}
"""Generation → dates of its schemas, the newest first."""
DAYS = tuple(sorted({day for days in _DATES.values() for day in days}, reverse=True))
"""Dates of all schemas, the newest first."""

NEVER = "9999"
"""A day after all schemas."""

_OF_OVERLAYS = frozenset(
    {"output_dir", "slurm", "deployment", "run", "log", "max_steps", "wandb", "monitors"}
)
"""Keys about place and manner of a run only."""
_NAMES = {"orch": "orchestrator", "infer": "inference", "train": "trainer"}
"""Part of a file name → role: only used if the keys do not tell."""
_AMONG_EQUALS = ("inference", "trainer", "orchestrator")
"""Order of preference if keys and name tell nothing: a model alone is for inference."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Misfit of a schema and a file: the fewer strange keys the better."""

    strange: int
    """Number of keys that it lacks, and of values that it does not accept."""
    known: int
    """Number of keys of the file that it has."""


@cache
def snapshots(generation: str, role: str, until: str = NEVER) -> tuple[ConfigSchema, ...]:
    """The schemas of a kind of file from before a day, the newest first."""
    return tuple(snapshot(day, role) for day in _DATES[generation] if day < until)


def best(generation: str, role: str, data: Mapping[str, Any], until: str = NEVER) -> tuple[ConfigSchema, Fit]:
    """The schema of a generation that a file fits best; of equals the newest whose commit is known."""
    fits = [(fit(schema, data), schema) for schema in snapshots(generation, role, until)]
    best_fit, schema = min(fits, key=lambda pair: (pair[0].strange, pair[1].partial))
    return schema, best_fit


def best_alone(role: str, data: Mapping[str, Any]) -> tuple[ConfigSchema, Fit]:
    """The best schema for the file of one program by itself, which any generation may have."""
    fits = [best(generation, role, data) for generation in (SPLIT, MERGED, CURRENT)]
    return min(fits, key=lambda pair: pair[1].strange)


def fit(schema: ConfigSchema, data: Mapping[str, Any]) -> Fit:
    misfit = schema.misfit_count(data, FREE)
    return Fit(misfit, sum(1 for _ in leaves(data)) - misfit)


@cache
def snapshot(day: str, role: str) -> ConfigSchema:
    """The schema of a kind of file, or of a part of `rl.toml`, on one of `DAYS`."""
    document_ = _document(day)
    table = role if role in PARTS else None
    document = document_["roles"]["rl" if table else role]
    return ConfigSchema(
        document, part=table, date=f"{date.fromisoformat(day):%-d %B %Y}", partial=document_["partial"]
    )


@cache
def _document(day: str) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(data_file(f"schemas/{day}.json"))
    return document


def generation_of(day: str) -> str:
    """The generation whose schema is of that day."""
    return next(generation for generation, days in _DATES.items() if day in days)


# --- which program of which generation reads a file ---


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
    if not data:
        return named_role
    fits = {part: best(generation, part, data)[1] for part in _AMONG_EQUALS}
    least = min(fit_.strange for fit_ in fits.values())
    likely = [part for part, fit_ in fits.items() if fit_.strange == least and fit_.known > fit_.strange]
    return named_role if named_role in likely else next(iter(likely), None)
