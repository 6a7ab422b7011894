"""Checkpoints: what the run can go back to, what that costs, what may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core import hints
from rltui.core.text import duration, listed, size_text, steps_text

if TYPE_CHECKING:
    from rltui.core.api import Publication
    from rltui.core.checkpoints import Checkpoint, CheckpointReport, PrunePlan, SetAside


CHECKPOINT_HEAD = ("step", "age", "reward", "eval", "parts", "size", "attempt", "")
"""Above the columns of `checkpoint_cells`."""
_FILES_NAMED = 8


def checkpoint_cells(checkpoint: Checkpoint, now: float) -> tuple[str, ...]:
    """`420`, `12m`, `0.91±0.02 → 0.03`, `0.83`, `trainer orchestrator`, `2.1 GiB`, `#2`, and a note."""
    rewards = (checkpoint.reward, checkpoint.reward_after)
    known = [f"{reward:.2f}" for reward in rewards if reward is not None]
    if checkpoint.reward is not None and checkpoint.reward_std is not None:
        known[0] += f"±{checkpoint.reward_std:.2f}"
    scores = [f"{score:.2f}" for score in checkpoint.evals.values()]
    return (
        str(checkpoint.step),
        "" if checkpoint.at is None else duration(now - checkpoint.at),
        " → ".join(known),
        scores[0] + (f" +{len(scores) - 1}" if len(scores) > 1 else "") if scores else "",
        " ".join(checkpoint.parts),
        "" if checkpoint.size_bytes is None else size_text(checkpoint.size_bytes),
        "" if checkpoint.attempt is None else f"#{checkpoint.attempt}",
        checkpoint_note(checkpoint),
    )


def checkpoint_words(checkpoint: Checkpoint, now: float) -> str:
    """`12m ago · reward 0.91±0.02 → 0.03 · highest reward`, as far as it is known."""
    _, age, reward, score, *_ = checkpoint_cells(checkpoint, now)
    facts = (
        f"{age} ago" if age else "",
        f"reward {reward}" if reward else "",
        f"eval {score}" if score else "",
        checkpoint_note(checkpoint),
    )
    return " · ".join(filter(None, facts))


def checkpoint_note(checkpoint: Checkpoint) -> str:
    """`incomplete: no orchestrator`, `being written: no orchestrator yet`, `a plain resume takes it`."""
    if not checkpoint.missing:
        return "; ".join(checkpoint.notes)
    missing = listed(checkpoint.missing, "or")
    first, *more = checkpoint.notes or ("incomplete",)
    return "; ".join((f"{first}: no {missing}{' yet' if checkpoint.notes else ''}", *more))


def checkpoint_summary(report: CheckpointReport) -> list[str]:
    """`12 complete, 24.1 GiB`, `182 GiB free: 90 more fit, 8 to come`, what was set aside: short texts."""
    whole, rest = len(report.complete), len(report.checkpoints) - len(report.complete)
    count = f"{whole} complete" if whole else "no checkpoint is complete yet"
    count += f", {rest} incomplete" if rest else ""
    texts = [f"{count}, {size_text(report.total_bytes)}" if report.checkpoints else count]
    if report.free_bytes is not None:
        more = [f"{report.fits} more fit"] if report.fits is not None else []
        more += [f"{report.to_come} to come"] if report.to_come is not None else []
        texts.append(f"{size_text(report.free_bytes)} free{': ' if more else ''}{', '.join(more)}")
    if report.archive_bytes:
        among = f", checkpoints {steps_text(report.archived_steps)} among it" if report.archived_steps else ""
        texts.append(f"restarts have set {size_text(report.archive_bytes)} aside{among}")
    return [*texts, report.problem] if report.problem else texts


def set_aside_texts(report: CheckpointReport) -> list[str]:
    """Each set of files that a restart moved aside, and how it is brought back."""
    return [
        f"set aside {each.name}: {aside_text(each)}; "
        f"back: {hints.RESTORE_ASIDE(name=report.experiment, stamp=each.name)}"
        for each in report.set_aside
    ]


def aside_text(aside: SetAside) -> str:
    """`checkpoints 430 to 500, 1.2 GiB`."""
    steps = f"checkpoints {steps_text(aside.steps)}" if aside.steps else "no checkpoint"
    return f"{steps}, {size_text(aside.size_bytes)}"


def restore_rows(aside: SetAside) -> list[tuple[str, str]]:
    """Say what bringing it back does, as labels and texts."""
    return [("restore", aside_text(aside)), ("set aside", "what the run has written since")]


def prune_rows(plan: PrunePlan) -> list[tuple[str, str]]:
    """What is deleted, what stays and why, what that frees: a label and its text each."""
    rows = []
    for each in plan.delete:
        size = "" if each.size_bytes is None else f" ({size_text(each.size_bytes)})"
        lacks = f", {checkpoint_note(each)}" if each.missing else ""
        rows.append(("delete", f"checkpoint {each.step}{size}{lacks}"))
    if plan.archive:
        rows.append(("delete", f"all that restarts have set aside in {plan.archive}"))
    if not rows:
        rows.append(("delete", "nothing"))
    rows.append(("free", size_text(plan.frees_bytes)))
    rows.extend(("keep", f"checkpoint {each.step}: {each.why}") for each in plan.keep)
    return [
        (label if at == 0 or rows[at - 1][0] != label else "", text) for at, (label, text) in enumerate(rows)
    ]


def publication_text(published: Publication) -> str:
    count = len(published.files)
    files = f"{count} file{'' if count == 1 else 's'}, {size_text(published.size_bytes)}"
    more = f" and {count - _FILES_NAMED} more" if count > _FILES_NAMED else ""
    named = f"{', '.join(published.files[:_FILES_NAMED])}{more}"
    return f"upload     {files}: {named}\nof         {published.folder}\n"
