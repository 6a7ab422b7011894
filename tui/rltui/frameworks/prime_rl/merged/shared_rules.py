"""Values at the top of `rl.toml`, which go before those of its tables, and values that must agree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rltui.frameworks.prime_rl.merged.knobs import SHARED
from rltui.frameworks.rule_makers import Values, is_on, overruled, own, same, together, when
from rltui.frameworks.schemas import Rule

_MAPPED = "Jackmin108/"
"""Names of this owner stand for models that the orchestrator knows by another name."""
_EITHER = frozenset({"inference.model.name"})
"""Overruled by the shared value until March 2026; from then on it goes before that."""


def _is_shared(name: str) -> str:
    """Table or key whose presence makes the value a shared one."""
    return name.rpartition(".")[0] if name in ("model.name", "weight_broadcast.type") else name


def _set(shared: str, v: Values) -> bool:
    place = _is_shared(shared)
    return is_on(v.get(place)) if place != shared else own(v, shared) is not None


def _overruled() -> Iterator[Rule]:
    for shared, followers in SHARED.items():
        for name in followers:
            if name not in _EITHER:
                yield when(overruled(name, shared), partial(_set, shared))


def _agree(first: str, second: str, shared: str) -> Rule:
    rule = same(first, second, shared=shared)
    return when(rule, lambda v: not _set(shared, v) and not _is_mapped(v, first))


def _is_mapped(v: Values, name: str) -> bool:
    return name == "trainer.model.name" and str(v[name]).startswith(_MAPPED)


def _unread_length(v: Values) -> str | None:
    if v["max_model_len"] is None:
        return None
    return (
        f"max_model_len ({v['max_model_len']}) is not read from the top of the file: "
        f"set inference.model.max_model_len"
    )


def _offline_together(v: Values) -> str | None:
    if not v["wandb.offline"] or v["wandb.shared"] is False:
        return None
    return (
        "wandb.offline works from April 2026 on only with wandb.shared = false, which earlier releases "
        "do not know: add it for those that do"
    )


def _offline_refused(v: Values) -> str | None:
    if not v["wandb.offline"] or not v["wandb.shared"]:
        return None
    return "wandb.shared needs a connection and does not work with wandb.offline: set one of them to false"


def _needed(table: str) -> Rule:
    def fault(v: Values) -> str | None:
        return None if is_on(v.get(table)) else f"[{table}] must be there, even if it is empty"

    return Rule(table, (table,), fault)


SHARED_RULES = (
    _needed("orchestrator"),
    _needed("trainer"),
    *_overruled(),
    _agree("trainer.max_steps", "orchestrator.max_steps", "max_steps"),
    _agree("trainer.max_async_level", "orchestrator.max_async_level", "max_async_level"),
    _agree("trainer.model.name", "orchestrator.model.name", "model.name"),
    when(
        _agree("inference.model.name", "orchestrator.model.name", "model.name"),
        lambda v: "inference" in v,
    ),
    _agree("trainer.weight_broadcast.type", "orchestrator.weight_broadcast.type", "weight_broadcast.type"),
    _agree("trainer.ckpt.interval", "orchestrator.ckpt.interval", "ckpt.interval"),
    _agree("trainer.ckpt.resume_step", "orchestrator.ckpt.resume_step", "ckpt.resume_step"),
    when(
        together("trainer.ckpt", "orchestrator.ckpt", why="since both write their half"),
        lambda v: "ckpt" not in v,
    ),
    when(
        together("trainer.wandb", "orchestrator.wandb", why="or the other's metrics are not logged"),
        lambda v: "wandb" not in v,
    ),
    Rule("max_model_len", ("max_model_len",), _unread_length, "warning"),
    Rule("wandb.offline", ("wandb.offline", "wandb.shared"), _offline_refused),
    when(
        Rule("wandb.offline", ("wandb.offline", "wandb.shared"), _offline_together, "warning"),
        lambda v: v["wandb.shared"] is None,
    ),
)
