"""Reads vf-train's output: a dict of numbers for each step through its progress bar, which alone has the
step.

Transformers 4 prints numbers, 5 prints texts. Facts: `facts/verifiers.md`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import Any

from rltui.core import hints
from rltui.core.logs.failure_cause import FailurePattern
from rltui.frameworks.failures import COMMON
from rltui.frameworks.progress import TitleFact

MARK = "{'loss': "
"""Present in every line about a step."""
_BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,400}\| *(?P<step>\d{1,12})/(?P<total>\d{1,12}) \[[\d:]{1,12}<[^,\]]{1,20}, *"
    r"(?P<rate>[\d.]{1,12})(?P<unit>s/it|it/s)\]"
)
"""The trainer's bar: that of the rollouts, which may be on the same line, has rewards after the rate."""
_NEAR = 0.05
"""Part of a step by which a rounded epoch may miss it."""
_NAMES = {"epoch": "", "wall_clock/generate_s": "time/generate"}
"""Keys with another name; `epoch` only tells the step."""

FACTS = (
    TitleFact("trainer", "time/step", "{:.1f} s/step"),
    TitleFact("trainer", "reward", "reward {:.3f}"),
    TitleFact("trainer", "loss", "loss {:.3f}"),
)


class StepLines:
    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        """Component → number of steps of its run that its progress bar last printed."""

    def row(self, component: str, line: str) -> Mapping[str, Any] | None:
        """The metrics of a step; `None` for other lines, and if nothing tells the step.

        Mostly the bar before them does. If the bar of the rollouts came between, `epoch` does: the finished
        share of the run.
        """
        start = line.find(MARK)
        raw_values = _parse_numbers(line[start:]) if start >= 0 else None
        if raw_values is None:
            return None
        row = {_NAMES.get(name, name): number for name, raw in raw_values.items()
               if (number := _number(raw)) is not None}  # fmt: skip
        share = row.pop("", None)
        bars = [*_BAR.finditer(line, 0, start)]
        if bars:
            bar, rate = bars[-1], float(bars[-1]["rate"])
            self._totals[component] = int(bar["total"])
            if rate > 0:
                row["time/step"] = rate if bar["unit"] == "s/it" else 1 / rate
            return {"step": int(bar["step"]), **row}
        step = (share or 0.0) * self._totals.get(component, 0)
        if not math.isfinite(step) or round(step) < 1 or abs(step - round(step)) > _NEAR:
            return None
        return {"step": round(step), **row}


def _parse_numbers(text: str) -> Mapping[str, object] | None:
    try:
        values = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        values = dict(_PAIR.findall(text))  # with `nan` or `inf`, which are no literals
    is_dict = isinstance(values, dict) and bool(values) and all(isinstance(name, str) for name in values)
    return values if is_dict else None


_PAIR = re.compile(r"'([^']{1,200})': '?(-?[\w.+-]{1,40})'?[,}]")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


_SYNC_PORT = 51216
"""Port that verifiers does not let change."""

FAILURES: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_VF_SYNC_PORT",
        rf"failed to listen on any local network address\.[^\n]*?\bport: {_SYNC_PORT}\b",
        f"port {_SYNC_PORT}, which verifiers uses to send weights, is fixed and in use: another vf-vllm"
        " runs on this machine; stop it first",
        code="port_taken",
    ),
    FailurePattern(
        "F_VF_SERVER",
        r"The vLLM server can't be reached at (?P<where>[\w.]+:\d+) after (?P<s>[\d.]+)",
        "vf-train waited {s} s for vf-vllm at {where}: check its log; trainer.args.vllm_server_port must"
        " be inference.args.port; a large model needs a longer trainer.args.vllm_server_timeout",
        code="server_unusable",
    ),
    FailurePattern(
        "F_VF_BATCH",
        r"TimeoutError: Batch (?P<batch>\d+) timed out after (?P<s>[\d.]+)s",
        "the rollouts of batch {batch} took longer than trainer.args.generation_timeout ({s} s): raise it,"
        " or use fewer or shorter rollouts (batch_size, max_tokens)",
        code="program_timeout",
    ),
    FailurePattern(
        "F_VF_ENVIRONMENT",
        r"Could not import '(?P<id>[^'\n]{1,200})' environment",
        "the environment {id} is not installed in the environment of vf-train:"
        f" {hints.START(component='environment')}",
        hopeless=True,
        code="environment",
    ),
    FailurePattern(
        "F_VF_ARGUMENT",
        r"TypeError: RLConfig\.__init__\(\) got an unexpected keyword argument '(?P<key>\w{1,100})'",
        f"config error: trainer.args.{{key}} is not an argument of RLConfig; {hints.CHECK} lists them",
        hopeless=True,
        code="config_rejected",
    ),
    FailurePattern(
        "F_VF_CONFIG",
        r"AssertionError: (?P<what>(?:batch_size must be divisible by|2 or more rollouts per example)[^\n]*)",
        "config error: {what}",
        hopeless=True,
        code="config_rejected",
    ),
    FailurePattern(
        "F_VF_WANDB",
        r"wandb\.errors\.(?:\w+\.)?UsageError: (?:api_key not configured|No API key configured)",
        f"not logged in to W&B: wandb login, or WANDB_MODE=offline, or {hints.SET_REPORT}",
        hopeless=True,
        code="no_login",
    ),
    *COMMON,
)
