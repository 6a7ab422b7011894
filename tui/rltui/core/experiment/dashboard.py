"""A place in a framework's own dashboard, and what comes of showing it there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from rltui.base.values import Value
from rltui.core.rollouts.batches import NO_STEP, BatchKey


class DashboardPlace(Value):
    """A place of a run that a dashboard can show: a tab, in it a step, of that an episode."""

    tab: Literal["metrics", "traces"]
    step: Annotated[int, Meta(ge=0)] | None = None
    kind: Literal["train", "eval"] = "train"
    is_batch: bool = True
    """Only what the step was trained on, or evaluated; else all that arrived for it."""
    episode: str = ""
    """Id of a rollout in the run's files; needs a step."""


class DashboardPage(Value):
    """A page of the dashboard, which shows a place."""

    url: str
    """For a browser on the machine of the run."""
    tabs: int = 0
    """Open tabs of the dashboard, which show the place now; 0: the page has to be opened, as none is open, or
    the release cannot be told what to show.
    """


def place_of_rollout(key: BatchKey, record: Mapping[str, Any]) -> DashboardPlace:
    """Return the place of a rollout of that batch. `record`: as its framework wrote it; of one without an id
    there, such as one in progress, the tab alone.
    """
    episode = record.get("id")
    if key.kind == "live" or "traces" not in record or not isinstance(episode, str):
        return DashboardPlace(tab="traces")
    has_step = key.step != NO_STEP
    return DashboardPlace(
        tab="traces",
        step=key.step if has_step else 0,
        kind=key.kind,
        is_batch=has_step and not key.part,
        episode=episode,
    )
