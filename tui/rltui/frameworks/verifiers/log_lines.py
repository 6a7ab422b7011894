"""What vf-train prints: a dict of figures for each step through its progress bar, which alone says the step.

Transformers 4 prints numbers, 5 prints texts. Facts: `facts/verifiers.md`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from rltui.core.failure_cause import FailurePattern
from rltui.frameworks.base import Fact
from rltui.frameworks.failures import COMMON

MARK = "{'loss': "
"""Is in every line that tells of a step."""
_BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,400}\| *(?P<step>\d{1,12})/\d{1,12} \[[\d:]{1,12}<[^,\]]{1,20}, *"
    r"(?P<rate>[\d.]{1,12})(?P<unit>s/it|it/s)"
)
_NAMES = {"epoch": "", "wall_clock/generate_s": "time/generate"}
"""Figures with another name, or none."""

FACTS = (
    Fact("trainer", "time/step", "{:.1f} s/step"),
    Fact("trainer", "reward", "reward {:.3f}"),
    Fact("trainer", "loss", "loss {:.3f}"),
)


def log_row(component: str, line: str) -> Mapping[str, Any] | None:
    """The figures of a step; `None` for other lines, and where no bar before them says which step it is."""
    del component
    at = line.find(MARK)
    bars = [*_BAR.finditer(line, 0, at)] if at >= 0 else []
    if not bars:
        return None
    try:
        said = ast.literal_eval(line[at:].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        said = _with_wild_numbers(line[at:])
    if not isinstance(said, dict):
        return None
    bar = bars[-1]
    row: dict[str, Any] = {"step": int(bar["step"])}
    rate = float(bar["rate"])
    if rate > 0:
        row["time/step"] = rate if bar["unit"] == "s/it" else 1 / rate
    for name, value in said.items():
        key = _NAMES.get(name, name)
        if key and isinstance(name, str) and (number := _number(value)) is not None:
            row[key] = number
    return row


_PAIR = re.compile(r"'([^']{1,200})': '?(-?[\w.+-]{1,40})'?[,}]")


def _with_wild_numbers(text: str) -> object:
    """One with `nan` or `inf`, which are no literals."""
    return dict(_PAIR.findall(text))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


_SYNC_PORT = 51216
"""Fixed in verifiers."""

FAILURES: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_VF_SYNC_PORT",
        rf"failed to listen on any local network address\.[^\n]*?\bport: {_SYNC_PORT}\b",
        f"port {_SYNC_PORT}, over which verifiers sends weights, is fixed and taken: another run of vf-vllm "
        "is on this machine; stop that one first",
    ),
    FailurePattern(
        "F_VF_SERVER",
        r"The vLLM server can't be reached at (?P<where>[\w.]+:\d+) after (?P<s>[\d.]+)",
        "vf-train asked for vf-vllm at {where} for {s} s: look at its log; trainer.args.vllm_server_port "
        "must be inference.args.port; a large model needs a longer trainer.args.vllm_server_timeout",
    ),
    FailurePattern(
        "F_VF_BATCH",
        r"TimeoutError: Batch (?P<batch>\d+) timed out after (?P<s>[\d.]+)s",
        "the rollouts of batch {batch} took longer than trainer.args.generation_timeout ({s} s): raise it, "
        "or have fewer or shorter ones (batch_size, max_tokens)",
    ),
    FailurePattern(
        "F_VF_ENVIRONMENT",
        r"Could not import '(?P<id>[^'\n]{1,200})' environment",
        "the environment {id} is not installed where vf-train runs: rltui start environment",
        hopeless=True,
    ),
    FailurePattern(
        "F_VF_ARGUMENT",
        r"TypeError: RLConfig\.__init__\(\) got an unexpected keyword argument '(?P<key>\w{1,100})'",
        "config error: trainer.args.{key} is no argument of RLConfig; rltui check says which are",
        hopeless=True,
    ),
    FailurePattern(
        "F_VF_CONFIG",
        r"AssertionError: (?P<what>(?:batch_size must be divisible by|2 or more rollouts per example)[^\n]*)",
        "config error: {what}",
        hopeless=True,
    ),
    FailurePattern(
        "F_VF_WANDB",
        r"wandb\.errors\.(?:\w+\.)?UsageError: (?:api_key not configured|No API key configured)",
        "W&B has no login here: wandb login, or WANDB_MODE=offline, or rltui set trainer.args.report_to=none",
        hopeless=True,
    ),
    *COMMON,
)
