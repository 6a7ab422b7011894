"""Runs: one at a glance, all that is known of it, what a fork comes to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rltui.core.run_columns import gpus_text, step_text
from rltui.core.secrets import mask_value
from rltui.core.states import RUN_STATES
from rltui.core.text import duration, format_number, size_text, steps_text, value_text

if TYPE_CHECKING:
    from rltui.core.forks import ForkPlan
    from rltui.core.runs import RunRow

Details = list[tuple[str, Sequence[str]]]
"""Labels, and the texts behind each; a text may be empty."""
_COMMIT = 9


def run_summary(row: RunRow) -> str:
    """`● running · step 83/200 · reward 0.62 · baseline`, as far as it is known."""
    badge = RUN_STATES[row.state]
    step = f"step {step_text(row)}" if row.step is not None else ""
    reward = "" if row.reward is None else f"reward {row.reward:.2f}"
    texts = (f"{badge.sign} {badge.word}", step, reward, *row.tags, "archived" if row.archived_at else "")
    return " · ".join(filter(None, texts))


def run_details(row: RunRow, names: Mapping[str, str]) -> Details:
    """All that is known of one, the most important first. `names`: of all runs, by id."""
    return [
        ("problem", [row.problem]),
        ("note", [row.note]),
        ("tags", row.tags),
        ("from", _origin(row, names)),
        ("changed", _changes(row)),
        ("metrics", _metrics(row)),
        ("took", _efforts(row)),
        ("code", _code(row)),
        ("when", _when(row)),
        ("folder", [row.folder]),
    ]


def sweep_details(name: str, runs: Sequence[RunRow]) -> Details:
    return [("sweep", [name]), ("runs", sweep_texts(runs)), ("named", sorted(row.name for row in runs))]


def sweep_texts(runs: Sequence[RunRow]) -> list[str]:
    """`6 runs`, `2 running`, `3 done`, `highest reward 0.83 ± 0.02: NAME`."""
    counts = Counter(row.state for row in runs)
    facts = [f"{len(runs)} run{'' if len(runs) == 1 else 's'}"]
    facts += [f"{counts[state]} {badge.word}" for state, badge in RUN_STATES.items() if counts[state]]
    levels = {row.name: row.levels["reward"] for row in runs if "reward" in row.levels}
    if levels:
        highest = max(levels, key=lambda name: levels[name].mean)
        facts.append(f"highest reward {levels[highest].text()}: {highest}")
    return facts


def _origin(row: RunRow, names: Mapping[str, str]) -> list[str]:
    facts = []
    if row.parent:
        step_text = "" if row.parent_step is None else f" at step {row.parent_step}"
        facts.append(f"forked from {names.get(row.parent, row.parent)}{step_text}")
    if row.again:
        facts.append(f"repeats {names.get(row.again, row.again)}")
    if row.group:
        facts.append(f"sweep {row.group}")
    return facts


def _changes(row: RunRow) -> list[str]:
    """The form is `optim.lr 1e-5 → 1e-6`."""
    return [
        f"{key} {f'{_value_text(key, old)} → ' if old is not None else ''}{_value_text(key, new)}"
        for key, (old, new) in row.changed.items()
    ]


def _value_text(key: str, value: object) -> str:
    return mask_value(key, value) if isinstance(value, str) else value_text(value)


def _metrics(row: RunRow) -> list[str]:
    texts = []
    for name, (last, _) in row.metrics.items():
        level = row.levels.get(name)
        if level is not None and level.steps > 1:
            texts.append(f"{name} {level.text()} (last {level.steps})")
        elif last is not None:
            texts.append(f"{name} {format_number(last)}")
    return texts


def _efforts(row: RunRow) -> list[str]:
    texts = [duration(row.seconds)] if row.seconds else []
    texts += [f"{row.attempts} attempt{'' if row.attempts == 1 else 's'}"] if row.attempts else []
    texts += [f"{row.gpu_seconds / 3600:.1f} GPU hours"] if row.gpu_seconds else []
    texts += [size_text(row.disk_bytes)] if row.disk_bytes is not None else []
    if row.checkpoints:
        plural = "" if len(row.checkpoints) == 1 else "s"
        texts.append(f"checkpoint{plural} {steps_text(row.checkpoints)}")
    return texts


def _code(row: RunRow) -> list[str]:
    texts = [f"{row.framework} {row.generation}".strip()]
    if row.commit:
        texts.append(f"commit {row.commit[:_COMMIT]}{' with changes' if row.is_dirty else ''}")
    texts += [f"{name} {version}" for name, version in row.versions.items()]
    return [*texts, gpus_text(row.gpus), f"on {row.host}" if row.host else ""]


def _when(row: RunRow) -> list[str]:
    texts = [f"began {_time(row.started_at or row.created_at)}"]
    texts += [f"ended {_time(row.ended_at)}"] if row.ended_at is not None else []
    texts += [f"archived {_time(row.archived_at)}"] if row.archived_at is not None else []
    return [*texts, f"id {row.id}"]


def _time(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def fork_lines(plan: ForkPlan) -> list[str]:
    """The effects of a fork, a line for every one, then the diff of its config."""
    lines = [f"{plan.name}, a fork of {plan.parent}, in {plan.folder}"]
    if plan.step is None:
        lines.append("  begins at the beginning")
    else:
        lines.append(f"  begins with checkpoint {plan.step}, a copy of {size_text(plan.copied_bytes)}")
        lines += [f"    {name}" for name in plan.copied]
    lines += [f"  {note}" for note in plan.notes]
    return [*lines, *(plan.diff.splitlines() or ["  with the config as it is"])]
