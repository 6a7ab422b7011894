"""Checkpoints: what the run can go back to, what that costs, what may go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltui.base.text import count_text, duration, join_some, join_words, size_text, steps_text
from rltui.core import hints
from rltui.views.table import Column, Filter, Order, View

if TYPE_CHECKING:
    from rltui.core.experiment.api import Publication
    from rltui.core.experiment.journal import JournalEntry
    from rltui.core.runs.checkpoints import Checkpoint, CheckpointReport, PrunePlan, SetAside


_FILES_NAMED = 8
_MOST_EDITS = 4
"""Edits that are named below a checkpoint."""


def _reward_text(checkpoint: Checkpoint) -> str:
    """`0.91±0.02 → 0.03`: at the checkpoint, and after it."""
    rewards = (checkpoint.reward, checkpoint.reward_after)
    texts = [f"{reward:.2f}" for reward in rewards if reward is not None]
    if checkpoint.reward is not None and checkpoint.reward_std is not None:
        texts[0] += f"±{checkpoint.reward_std:.2f}"
    return " → ".join(texts)


def _eval_text(checkpoint: Checkpoint) -> str:
    """`0.83 +1`: the first score, and how many more there are."""
    scores = [f"{score:.2f}" for score in checkpoint.evals.values()]
    return scores[0] + (f" +{len(scores) - 1}" if len(scores) > 1 else "") if scores else ""


def _age_text(checkpoint: Checkpoint, now: float) -> str:
    return "" if checkpoint.at is None else duration(now - checkpoint.at)


VIEW: View[Checkpoint] = View(
    key=lambda checkpoint: str(checkpoint.step),
    columns=(
        Column("step", lambda checkpoint, _: str(checkpoint.step), is_right=True),
        Column("age", _age_text, is_right=True),
        Column("reward", lambda checkpoint, _: _reward_text(checkpoint)),
        Column("eval", lambda checkpoint, _: _eval_text(checkpoint), is_right=True, goes=1),
        Column("parts", lambda checkpoint, _: " ".join(checkpoint.parts), goes=3),
        Column(
            "size",
            lambda checkpoint, _: "" if checkpoint.size_bytes is None else size_text(checkpoint.size_bytes),
            is_right=True,
        ),
        Column(
            "attempt",
            lambda checkpoint, _: "" if checkpoint.attempt is None else f"#{checkpoint.attempt}",
            goes=2,
        ),
        Column("note", lambda checkpoint, _: checkpoint_note(checkpoint), heading="", least=24),
    ),
    orders={
        "newest": Order("newest first", lambda checkpoint: -checkpoint.step),
        "reward": Order(
            "highest reward first",
            lambda checkpoint: math.inf if checkpoint.reward is None else -checkpoint.reward,
        ),
        "eval": Order(
            "highest eval first", lambda checkpoint: -max(checkpoint.evals.values(), default=-math.inf)
        ),
        "size": Order("largest first", lambda checkpoint: -(checkpoint.size_bytes or 0)),
    },
    filters={
        "all": Filter("", lambda _: True),
        "complete": Filter("only complete ones", lambda checkpoint: checkpoint.complete),
        "noted": Filter("only those with a note", lambda checkpoint: bool(checkpoint.notes)),
    },
)


def checkpoint_words(checkpoint: Checkpoint, now: float) -> str:
    """`12m ago · reward 0.91±0.02 → 0.03 · highest reward`, as far as it is known."""
    age, reward, score = _age_text(checkpoint, now), _reward_text(checkpoint), _eval_text(checkpoint)
    facts = (
        f"{age} ago" if age else "",
        f"reward {reward}" if reward else "",
        f"eval {score}" if score else "",
        checkpoint_note(checkpoint),
    )
    return " · ".join(filter(None, facts))


def checkpoint_details(
    checkpoint: Checkpoint, report: CheckpointReport, edits: Sequence[JournalEntry], now: float
) -> list[tuple[str, str]]:
    """All that is known of one, as labels and texts; `edits` are those of the run, oldest first."""
    rows = [
        ("in", checkpoint.path),
        ("parts", " ".join(checkpoint.parts)),
        ("note", checkpoint_note(checkpoint)),
    ]
    if checkpoint.attempt is not None:
        rows.append(("attempt", str(checkpoint.attempt)))
    scores = (f"{name} {score:.3g}" for name, score in checkpoint.evals.items())
    rows.append(("evals", " · ".join(scores)))
    if checkpoint.complete:
        rows.append(("back", _back_text(checkpoint, report)))
    since = [entry for entry in edits if checkpoint.at is not None and entry.at > checkpoint.at]
    for label, entry in zip(("edits", *[""] * len(since)), since[:_MOST_EDITS], strict=False):
        rows.append((label, f"{entry.text} ({duration(now - entry.at)} ago)"))
    if len(since) > _MOST_EDITS:
        rows.append(("", f"and {len(since) - _MOST_EDITS} more edits since"))
    return [(label, text) for label, text in rows if text]


def _back_text(checkpoint: Checkpoint, report: CheckpointReport) -> str:
    """`92 later steps will be repeated; checkpoints 430 to 500 (8) set aside`."""
    steps = max(0, (report.step or 0) - checkpoint.step)
    beyond = [other.step for other in report.checkpoints if other.step > checkpoint.step]
    texts = [f"{count_text(steps, 'later step')} will be repeated" if steps else "no later steps"]
    if beyond:
        texts.append(f"checkpoint{'s' if len(beyond) > 1 else ''} {steps_text(beyond)} set aside")
    return "; ".join(texts)


def no_checkpoints_text(report: CheckpointReport) -> str:
    return f"No checkpoints yet in {report.folder}; [ckpt] in the config sets the interval"


def checkpoint_note(checkpoint: Checkpoint) -> str:
    """`incomplete: no orchestrator`, `being written: no orchestrator yet`, `a plain resume takes it`."""
    if not checkpoint.missing:
        return "; ".join(checkpoint.notes)
    missing_names = join_words(checkpoint.missing, "or")
    first, *more = checkpoint.notes or ("incomplete",)
    return "; ".join((f"{first}: no {missing_names}{' yet' if checkpoint.notes else ''}", *more))


def checkpoint_summary(report: CheckpointReport) -> list[str]:
    """`12 complete, 24.1 GiB`, `182 GiB free: room for 90 more`, what was set aside: short texts."""
    complete_count, incomplete_count = len(report.complete), len(report.checkpoints) - len(report.complete)
    count = f"{complete_count} complete" if complete_count else "no complete checkpoint yet"
    count += f", {incomplete_count} incomplete" if incomplete_count else ""
    texts = [f"{count}, {size_text(report.total_bytes)}" if report.checkpoints else count]
    if report.free_bytes is not None:
        more = [f"room for {report.fits:,} more"] if report.fits is not None else []
        more += [f"{report.to_come:,} needed"] if report.to_come else []
        texts.append(f"{size_text(report.free_bytes)} free{': ' if more else ''}{', '.join(more)}")
    if report.archive_bytes:
        among = (
            f", including checkpoints {steps_text(report.archived_steps)}" if report.archived_steps else ""
        )
        texts.append(f"{size_text(report.archive_bytes)} set aside by restarts{among}")
    return [*texts, report.problem] if report.problem else texts


def set_aside_texts(report: CheckpointReport) -> list[str]:
    """Each set of files that a restart moved aside, and how it is brought back."""
    return [
        f"set aside {aside.name}: {aside_text(aside)}; "
        f"restore: {hints.RESTORE_ASIDE(name=report.experiment, stamp=aside.name)}"
        for aside in report.set_aside
    ]


def aside_text(aside: SetAside) -> str:
    """`checkpoints 430 to 500, 1.2 GiB`."""
    steps = f"checkpoints {steps_text(aside.steps)}" if aside.steps else "no checkpoint"
    return f"{steps}, {size_text(aside.size_bytes)}"


def restore_rows(aside: SetAside) -> list[tuple[str, str]]:
    """Say what bringing it back does, as labels and texts."""
    return [("restore", aside_text(aside)), ("set aside", "files written since then")]


def prune_rows(plan: PrunePlan) -> list[tuple[str, str]]:
    """Labels and texts: deletions, checkpoints that stay with the reason, and the space that this frees."""
    rows = []
    for checkpoint in plan.delete:
        size = "" if checkpoint.size_bytes is None else f" ({size_text(checkpoint.size_bytes)})"
        lacks = f", {checkpoint_note(checkpoint)}" if checkpoint.missing else ""
        rows.append(("delete", f"checkpoint {checkpoint.step}{size}{lacks}"))
    if plan.archive:
        rows.append(("delete", f"everything set aside by restarts in {plan.archive}"))
    if not rows:
        rows.append(("delete", "nothing"))
    rows.append(("free", size_text(plan.frees_bytes)))
    rows.extend(("keep", f"checkpoint {checkpoint.step}: {checkpoint.why}") for checkpoint in plan.keep)
    return [
        (label if index == 0 or rows[index - 1][0] != label else "", text)
        for index, (label, text) in enumerate(rows)
    ]


def publication_text(published: Publication) -> str:
    files = f"{count_text(len(published.files), 'file')}, {size_text(published.size_bytes)}"
    names = join_some(published.files, _FILES_NAMED)
    return f"upload     {files}: {names}\nof         {published.folder}\n"
