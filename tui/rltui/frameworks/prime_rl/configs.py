"""The config files of every generation: the available schemas, the one that a file fits, and our overlay.

The schemas come from prime-rl's own models at the commits that they name; the newest, without a commit,
is put together from single files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from rltui.core.config_data import leaves
from rltui.core.config_schema import ConfigSchema
from rltui.core.rules import Values, is_on, own
from rltui.core.toml.values import TomlValue
from rltui.frameworks.prime_rl.rules import (
    BROADCAST,
    LORA_RANKS,
    PAIR,
    TRAIN,
    batch_knobs,
    entries,
    gpus_of,
    has_inference,
    int_value,
    is_one_file,
    is_today,
)
from rltui.frameworks.prime_rl.values import ENGINE_ABOVE, data_file
from rltui.frameworks.schemas import Names, Overlay

SPLIT, MERGED, CURRENT = "prime-rl-split", "prime-rl-merged", "prime-rl"
"""Ids of the generations: three files (2025), one `rl.toml` (until August 2026), since then run folders."""
PARTS = ("trainer", "orchestrator", "inference")
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

_DATES: Mapping[str, tuple[str, ...]] = {
    SPLIT: ("2025-12-01",),
    MERGED: ("2026-08-06", "2026-07-13", "2026-06-22", "2026-04-25", "2026-02-25", "2025-12-01"),
    CURRENT: ("2026-11-01", "2026-08-21"),
}
"""Generation → dates of its schemas, the newest first."""

NEVER = "9999"
"""A day after all schemas."""


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
    return tuple(_snapshot(day, role) for day in _DATES[generation] if day < until)


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
def _snapshot(day: str, role: str) -> ConfigSchema:
    snapshot = _document(day)
    table = role if role in PARTS else None
    document = snapshot["roles"]["rl" if table else role]
    return ConfigSchema(
        document, part=table, date=f"{date.fromisoformat(day):%-d %B %Y}", partial=snapshot["partial"]
    )


@cache
def _document(day: str) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(data_file(f"schemas/{day}.json"))
    return document


# --- defaults that follow from other values ---

_DEFAULT_BATCH = 128
"""Rollouts, if the file sets neither their number nor a number of tokens."""
_WILD = 1e9
"""Factors from here on are nonsense."""


def defaults(values: Values, names: Names) -> Mapping[str, TomlValue]:
    v = dict(values)
    result: dict[str, TomlValue] = {}

    def set_default(name: str, value: TomlValue) -> None:
        """Set a default, unless the file sets the value."""
        if name in v:
            result[name] = value
            if own(v, name) is None:
                v[name] = value

    knobs = batch_knobs(names)
    by_tokens = bool(knobs.token_batch_size) and v.get(knobs.token_batch_size) is not None
    if knobs.token_batch_size and own(v, knobs.batch_size) is None:
        set_default(knobs.batch_size, None if by_tokens else _DEFAULT_BATCH)
    if knobs.inflight is not None and not by_tokens and isinstance(batch := v.get(knobs.batch_size), int):
        factor = v.get(knobs.oversampling or "")
        set_default(
            knobs.inflight,
            int(batch * factor) if isinstance(factor, int | float) and factor < _WILD else batch,
        )
    if is_one_file(names):
        _set_deployment(v, names, set_default)
    for at in ("", "sft."):
        if is_on(v.get(f"{at}inference")):
            _set_inference(at, v, names, set_default)
    if is_on(v.get("sft.eval")):
        fast = is_on(v.get("sft.inference")) and not is_on(v.get("sft.model.lora"))
        set_default(f"sft.{BROADCAST}", "nccl" if fast else "filesystem")
    for group in (names("train_source"), names("eval_source"), "sft.eval.source"):
        _set_sources(group, v, names, set_default)
    return result


SetDefault = Callable[[str, TomlValue], None]


def _set_deployment(v: Values, names: Names, set_default: SetDefault) -> None:
    """Defaults that the `rl` launcher computes."""
    ranks = gpus_of(v, "train")
    together = max(1, int_value(v, "trainer.model.cp", 1)) * max(1, int_value(v, "trainer.model.tp", 1))
    if ranks > 1 and (TRAIN in v or "trainer_gpu_ids" in v):
        set_default("orchestrator.num_train_workers", max(1, ranks // together))
    if is_today(names):
        set_default("orchestrator.pad_to_multiple_of", max(1, int_value(v, "trainer.model.cp", 1)))
    lora = names("lora")
    adapted = is_on(v.get(lora))
    if names.has("rollout_transport"):
        if v.get(BROADCAST) is None:
            set_default(BROADCAST, "nccl" if has_inference(v) and not adapted else "filesystem")
        for role in (*PAIR, "inference"):
            set_default(f"{role}.{BROADCAST}", v.get(BROADCAST))
        set_default("rollout_transport.type", v.get("trainer.rollout_transport.type"))
    set_default(names("served_template"), v.get("trainer.tokenizer.chat_template"))
    if adapted:
        rank = v.get(f"{lora}.rank")
        for key in ("rank", "alpha"):
            set_default(f"{names('policy_lora')}.{key}", v.get(f"{lora}.{key}"))
        if has_inference(v):
            set_default(names("enable_lora"), True)
            fitting = (rank_ for rank_ in LORA_RANKS if isinstance(rank, int) and rank_ >= rank)
            set_default(names("max_lora_rank"), next(fitting, rank))


def _set_inference(at: str, v: Values, names: Names, set_default: SetDefault) -> None:
    copies, servers = f"{at}{names('data_parallel')}", f"{at}{names('api_servers')}"
    gpus = int_value(v, names("sft_infer_gpus"), 1) if at else gpus_of(v, "infer")
    tensor = int_value(v, f"{at}{names('tensor_parallel')}", 1)
    if is_one_file(names) or at:
        if gpus and tensor and gpus % tensor == 0:
            set_default(copies, gpus // tensor)
        set_default(
            servers, 1 if v.get(f"{at}{names('enable_lora')}") is True else max(1, gpus // max(1, tensor))
        )
    set_default(f"{at}inference.backend_port", int_value(v, f"{at}inference.server.port") + ENGINE_ABOVE)


def _set_sources(group_key: str, v: Values, names: Names, set_default: SetDefault) -> None:
    """Keys that a source lacks come from its group, or the group size of all."""
    group = group_key.rpartition(".")[0]
    for index, entry in enumerate(entries(v, group_key)):
        prefix = f"{group_key}.{index}."
        for name in [name_ for name_ in v if name_.startswith(prefix)]:
            key = name.removeprefix(prefix)
            group_name = f"{group}.{key}"
            if key == "group_size" and group_name not in v:
                group_name = names("group_size")
            of_another = key.startswith("env") or (key.startswith("algo.") and "algo" in entry)
            if v.get(group_name) is not None and not isinstance(v[group_name], Mapping) and not of_another:
                set_default(name, v[group_name])
