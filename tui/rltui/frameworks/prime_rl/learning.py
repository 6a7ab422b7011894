"""What a run of prime-rl learns from, by its algorithm (facts/prime-rl.md#algorithms)."""

from __future__ import annotations

from rltui.core.config.data import value_at
from rltui.core.config.rules import Values
from rltui.core.metrics.learning import Discard, Learning, Signal
from rltui.frameworks.prime_rl import rules
from rltui.frameworks.prime_rl.values import source_name
from rltui.frameworks.schemas import Names

_SIGNALS: dict[str, frozenset[Signal]] = {
    "opd": frozenset({"teacher"}),
    "opsd": frozenset({"self"}),
    "sft": frozenset({"tokens"}),
    "echo": frozenset({"reward", "observations"}),
}
"""Algorithm → what it learns from; any other: its reward alone."""
_OF_RIVALS = frozenset({"rae", "hierarchical_grpo"})
"""Algorithms for games between agents, and for one that sets the tasks of another."""
_AGAINST: dict[Discard, tuple[str, ...]] = {
    "stale": (
        "orchestrator.max_off_policy_steps", "orchestrator.concurrency.max_inflight", "max_inflight",
    ),
    "no signal": ("group_size", "orchestrator.train.select", "orchestrator.train.filter_zero_advantages"),
}  # fmt: skip
"""Concepts and keys, as far as a generation has them."""


def learning_of(v: Values, names: Names) -> Learning:
    sources = rules.entries(v, names("train_source"))
    of_all = v.get(f"{names('algo')}.type") or "grpo"
    algorithms = [str(value_at(source, "algo.type") or of_all) for source in sources] or [str(of_all)]
    signals = [_SIGNALS.get(algorithm, frozenset({"reward"})) for algorithm in algorithms]
    rewarded = {source_name(source) for source, own in zip(sources, signals, strict=False) if "reward" in own}
    knobs = {
        why: tuple(dict.fromkeys(name for key in keys if (name := names.get(key)) is not None))
        for why, keys in _AGAINST.items()
    }
    weak = [
        f"{names('train_source')}.{index}.min_abs_advantage"
        for index, source in enumerate(sources)
        if source.get("min_abs_advantage")
    ]
    staleness = v.get("orchestrator.max_off_policy_steps")
    return Learning(
        signals=frozenset().union(*signals),
        rewarded=frozenset(rewarded) if len(rewarded) < len(sources) else frozenset(),
        has_rivals=not _OF_RIVALS.isdisjoint(algorithms),
        max_staleness=staleness if isinstance(staleness, int) else None,
        knobs={**knobs, "no signal": (*knobs["no signal"], *weak)},
    )
