"""Figures for the titles of panes, from the metrics of every generation."""

from __future__ import annotations

from rltui.frameworks.base import Fact

_TRAINING = (("loss/mean", "loss {:.3f}"), ("perf/throughput", "{:,.0f} tokens/s"))
_ROLLOUTS = (("time/step", "{:.1f} s/step"), ("train/agg/effective/agent/reward/mean", "reward {:.3f}"))

FACTS = (
    *(Fact("orchestrator", metric, template) for metric, template in _ROLLOUTS),
    *(Fact(name, metric, template) for name in ("trainer", "sft") for metric, template in _TRAINING),
    *(Fact("rl", metric, template) for metric, template in (*_ROLLOUTS, *_TRAINING)),
)
