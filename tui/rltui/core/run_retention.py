"""Which runs of a list go into the trash, by a rule. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rltui.core.runs import RunRow
from rltui.core.text import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRetention:
    """What to keep; nothing is asked for by its absence. Living and marked runs are kept by every rule."""

    keep_best: int = 0
    """So many with the best reward that they had at any time."""
    keep_last: int = 0
    """So many that ended last."""
    keep_tags: tuple[str, ...] = ()
    older_than_s: float | None = None
    """Only what ended so long ago goes."""

    @property
    def says_something(self) -> bool:
        """Without that, all would go."""
        return bool(self.keep_best or self.keep_last or self.keep_tags or self.older_than_s is not None)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a rule makes of a list."""

    keep: tuple[tuple[RunRow, str], ...]
    """With the reason."""
    go: tuple[RunRow, ...]


def retention_plan(rows: Sequence[RunRow], retention: RunRetention, now: float) -> RunPlan:
    """What of `rows` is kept and why, and what goes, both in the order of `rows`."""
    best = _ids(_by_reward(rows)[: retention.keep_best])
    last = _ids(sorted(rows, key=_ended, reverse=True)[: retention.keep_last])

    def why(row: RunRow) -> str:
        if row.is_running:
            return "lives"
        if row.is_best:
            return "marked as best"
        if row.id in best:
            return f"among the {retention.keep_best} best" if retention.keep_best > 1 else "the best"
        if row.id in last:
            return f"among the last {retention.keep_last}" if retention.keep_last > 1 else "the last"
        if kept_by := next((tag for tag in row.tags if tag in retention.keep_tags), ""):
            return f"tagged {kept_by}"
        if retention.older_than_s is not None and now - _ended(row) < retention.older_than_s:
            return f"ended {duration(now - _ended(row))} ago"
        return ""

    reasons = [(row, why(row)) for row in rows]
    return RunPlan(
        tuple((row, reason) for row, reason in reasons if reason),
        tuple(row for row, reason in reasons if not reason),
    )


def _by_reward(rows: Iterable[RunRow]) -> list[RunRow]:
    rewards = ((row.metrics.get("reward", (None, None))[1], row) for row in rows)
    known = [(reward, row) for reward, row in rewards if reward is not None and reward == reward]
    return [row for _, row in sorted(known, key=lambda each: each[0], reverse=True)]


def _ended(row: RunRow) -> float:
    return row.ended_at or row.started_at or row.created_at


def _ids(rows: Iterable[RunRow]) -> frozenset[str]:
    return frozenset(row.id for row in rows)
