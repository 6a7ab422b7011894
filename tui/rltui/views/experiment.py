"""Experiments: a status as a whole, as `rltui status` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rltui.core.states import COMPONENT_STATES, RUN_STATES, STALLED, AnyBadge, Badge, ComponentState
from rltui.core.text import duration
from rltui.views.component import failed_text
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.api import Status

BROKEN_STATES = ("broken", "not answering")
"""States in which there is no status."""
_RUN_BADGES = {badge.word: badge for badge in RUN_STATES.values()}


def state_text(status: Mapping[str, Any]) -> str:
    """`running`, `done ✓`, `failed: trainer`, `observed · quiet`."""
    if status.get("observed"):
        return f"observed · {'its logs grow' if status['state'] == 'running' else 'quiet'}"
    if status.get("done"):
        return "done ✓"
    if failed := status.get("failed"):
        return failed_text(failed)
    return str(status.get("word", status["state"]))


def experiment_badge(status: Status) -> AnyBadge:
    """One word for the whole experiment: what most needs a person's eye."""
    if status.observed:
        return Badge("◉", "observed", "key")
    if status.failed and not status.done:
        return COMPONENT_STATES[ComponentState.FAILED]._replace(word=failed_text(status.failed))
    match status.word:
        case "done":
            return RUN_STATES["done"]
        case "running":
            return RUN_STATES["running"]
        case word:
            by_word: dict[str, AnyBadge] = {badge.word: badge for badge in COMPONENT_STATES.values()}
            concerns = status.progress.concerns
            is_bad = bool(concerns) and word == concerns[0].word and concerns[0].severity == "error"
            return by_word.get(word, Badge(STALLED.sign, word, "bad" if is_bad else "busy"))


def signed_state(text: str, state: str = "") -> Cell:
    """`● running`: what is told of the state of a run, behind the sign of that.

    `state`: where the text does not begin with one.
    """
    first = text.replace(":", " ").partition(" ")[0]
    badge = _RUN_BADGES.get(first) or _RUN_BADGES.get(state)
    text = text.removesuffix(" ✓")
    if badge is None:
        return Cell(f"⚠ {text}", "bad" if state in BROKEN_STATES else None)
    return Cell(f"{badge.sign} {text}", badge.role)


def step_text(status: Mapping[str, Any]) -> str:
    return f"{status['step']}" + (f"/{status['max_steps']}" if status["max_steps"] is not None else "")


def _age_text(status: Mapping[str, Any], now: float) -> str:
    """The age of its newest attempt, or of the experiment."""
    times = [status["created_at"], *(component["started_at"] for component in status["components"])]
    start_time = max((time for time in times if time is not None), default=None)
    return "" if start_time is None else duration(now - start_time)


def folder_text(status: Mapping[str, Any]) -> str:
    """The output folder; of an observed run its own."""
    return (status.get("run_dir") if status.get("observed") else status["output_dir"]) or ""


VIEW: View[Mapping[str, Any]] = View(
    key=lambda status: str(status["experiment"]),
    columns=(
        Column("name", lambda status, _: str(status["experiment"]), least=12, cut="middle"),
        Column("state", lambda status, _: signed_state(state_text(status), status["state"]), least=9),
        Column("step", lambda status, _: step_text(status) if status["step"] else "", is_right=True, goes=1),
        Column(
            "reward",
            lambda status, _: "" if status["reward"] is None else f"{status['reward']:.3f}",
            is_right=True,
        ),
        Column("age", _age_text, is_right=True),
        Column("framework", lambda status, _: status["framework"] or "", goes=3),
        Column("output folder", lambda status, _: folder_text(status), least=14, cut="start", goes=2),
    ),
)
"""Rows are the JSON of `Status`, with `created_at`."""
