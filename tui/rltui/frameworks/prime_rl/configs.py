"""The config files of every generation: the schemas there are, which one a file fits, and our overlay.

The schemas were asked of prime-rl's own models at the commits that they name; the newest, without a commit,
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
    is_one_file,
    is_today,
    whole,
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
"""What is below belongs to verifiers and to the environment's own package."""
SWITCHES = frozenset({"trainer.model.full_offload", "model.full_offload"})
"""A validator turns `true` into the table, which no schema tells."""
FOREIGN = frozenset({"orchestrator.renderer", "renderer"})
"""Tables of the package `renderers`."""
OVERLAY = Overlay.parse(data_file("concepts.toml"))
"""What no schema tells, for all generations."""

_DATES: Mapping[str, tuple[str, ...]] = {
    SPLIT: ("2025-12-01",),
    MERGED: ("2026-08-06", "2026-07-13", "2026-06-22", "2026-04-25", "2026-02-25", "2025-12-01"),
    CURRENT: ("2026-11-01", "2026-08-21"),
}
"""Generation → days of its schemas, the newest first."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How badly a schema suits a file: the fewer the better."""

    strange: int
    """Keys that it lacks, and values that it does not take."""
    known: int
    """Keys of the file that it has."""


@cache
def snapshots(generation: str, role: str, until: str = "9999") -> tuple[ConfigSchema, ...]:
    """The schemas of a kind of file from before a day, the newest first."""
    return tuple(_snapshot(day, role) for day in _DATES[generation] if day < until)


def best(generation: str, role: str, data: Mapping[str, Any]) -> tuple[ConfigSchema, Fit]:
    """The schema of a generation that a file fits best; of equals the newest whose commit is known."""
    fits = [(fit(schema, data), schema) for schema in snapshots(generation, role)]
    found, schema = min(fits, key=lambda each: (each[0].strange, each[1].partial))
    return schema, found


def best_alone(part: str, data: Mapping[str, Any]) -> tuple[ConfigSchema, Fit]:
    """Likewise for the file of one program by itself, which any generation may have."""
    fits = [best(generation, part, data) for generation in (SPLIT, MERGED, CURRENT)]
    return min(fits, key=lambda each: each[1].strange)


def fit(schema: ConfigSchema, data: Mapping[str, Any]) -> Fit:
    strange = schema.strange(data, FREE)
    return Fit(strange, sum(1 for _ in leaves(data)) - strange)


@cache
def _snapshot(day: str, role: str) -> ConfigSchema:
    found = _document(day)
    part = role if role in PARTS else None
    document = found["roles"]["rl" if part else role]
    return ConfigSchema(
        document, part=part, date=f"{date.fromisoformat(day):%-d %B %Y}", partial=found["partial"]
    )


@cache
def _document(day: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(data_file(f"schemas/{day}.json"))
    return found


# --- defaults that follow from other values ---

_DEFAULT_BATCH = 128
"""Rollouts, where the file says neither how many nor how many tokens."""
_WILD = 1e9
"""Factors from here on are nonsense."""


def defaults(values: Values, names: Names) -> Mapping[str, TomlValue]:
    v = dict(values)
    found: dict[str, TomlValue] = {}

    def put(name: str, value: TomlValue) -> None:
        """What holds from then on, unless the file says otherwise."""
        if name in v:
            found[name] = value
            if own(v, name) is None:
                v[name] = value

    knobs = batch_knobs(names)
    by_tokens = bool(knobs.token_batch_size) and v.get(knobs.token_batch_size) is not None
    if knobs.token_batch_size and own(v, knobs.batch_size) is None:
        put(knobs.batch_size, None if by_tokens else _DEFAULT_BATCH)
    if knobs.inflight is not None and not by_tokens and isinstance(batch := v.get(knobs.batch_size), int):
        factor = v.get(knobs.oversampling or "")
        put(
            knobs.inflight,
            int(batch * factor) if isinstance(factor, int | float) and factor < _WILD else batch,
        )
    if is_one_file(names):
        _put_deployment(v, names, put)
    for at in ("", "sft."):
        if is_on(v.get(f"{at}inference")):
            _put_inference(at, v, names, put)
    if is_on(v.get("sft.eval")):
        fast = is_on(v.get("sft.inference")) and not is_on(v.get("sft.model.lora"))
        put(f"sft.{BROADCAST}", "nccl" if fast else "filesystem")
    for group in (names("train_source"), names("eval_source"), "sft.eval.source"):
        _put_sources(group, v, names, put)
    return found


Put = Callable[[str, TomlValue], None]


def _put_deployment(v: Values, names: Names, put: Put) -> None:
    """What the `rl` launcher works out."""
    ranks = gpus_of(v, "train")
    together = max(1, whole(v, "trainer.model.cp", 1)) * max(1, whole(v, "trainer.model.tp", 1))
    if ranks > 1 and (TRAIN in v or "trainer_gpu_ids" in v):
        put("orchestrator.num_train_workers", max(1, ranks // together))
    if is_today(names):
        put("orchestrator.pad_to_multiple_of", max(1, whole(v, "trainer.model.cp", 1)))
    lora = names("lora")
    adapted = is_on(v.get(lora))
    if names.has("rollout_transport"):
        if v.get(BROADCAST) is None:
            put(BROADCAST, "nccl" if has_inference(v) and not adapted else "filesystem")
        for part in (*PAIR, "inference"):
            put(f"{part}.{BROADCAST}", v.get(BROADCAST))
        put("rollout_transport.type", v.get("trainer.rollout_transport.type"))
    put(names("served_template"), v.get("trainer.tokenizer.chat_template"))
    if adapted:
        rank = v.get(f"{lora}.rank")
        for key in ("rank", "alpha"):
            put(f"{names('policy_lora')}.{key}", v.get(f"{lora}.{key}"))
        if has_inference(v):
            put(names("enable_lora"), True)
            fitting = (each for each in LORA_RANKS if isinstance(rank, int) and each >= rank)
            put(names("max_lora_rank"), next(fitting, rank))


def _put_inference(at: str, v: Values, names: Names, put: Put) -> None:
    copies, servers = f"{at}{names('data_parallel')}", f"{at}{names('api_servers')}"
    gpus = whole(v, names("sft_infer_gpus"), 1) if at else gpus_of(v, "infer")
    tensor = whole(v, f"{at}{names('tensor_parallel')}", 1)
    if is_one_file(names) or at:
        if gpus and tensor and gpus % tensor == 0:
            put(copies, gpus // tensor)
        put(servers, 1 if v.get(f"{at}{names('enable_lora')}") is True else max(1, gpus // max(1, tensor)))
    put(f"{at}inference.backend_port", whole(v, f"{at}inference.server.port") + ENGINE_ABOVE)


def _put_sources(at: str, v: Values, names: Names, put: Put) -> None:
    """A source takes what it does not say from its group, or the group size of all."""
    group = at.rpartition(".")[0]
    for index, entry in enumerate(entries(v, at)):
        here = f"{at}.{index}."
        for name in [each for each in v if each.startswith(here)]:
            key = name.removeprefix(here)
            above = f"{group}.{key}"
            if key == "group_size" and above not in v:
                above = names("group_size")
            of_another = key.startswith("env") or (key.startswith("algo.") and "algo" in entry)
            if v.get(above) is not None and not isinstance(v[above], Mapping) and not of_another:
                put(name, v[above])
