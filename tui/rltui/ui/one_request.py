"""What a screen does with a request: one at a time, and none where nothing may be changed."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from textual.screen import Screen

    from rltui.ui.app import RltuiApp

READONLY_TEXT = "Read-only: nothing can be changed from here. Open it without --readonly to do so."
OBSERVED_TEXT = "Observed: rltui did not start this run. There is nothing to start, stop or edit here."
_GROUP = "request"


def say_readonly(screen: Screen[None]) -> None:
    """Why a key does nothing."""
    observed = cast("RltuiApp", screen.app).experiment.observed
    screen.notify(OBSERVED_TEXT if observed else READONLY_TEXT, severity="warning", markup=False)


def run_alone(screen: Screen[None], coroutine: Coroutine[None, None, None], *, readonly: bool) -> None:
    """Run it unless the last one is still busy: a second key must not cut off the first one's answer."""
    is_busy = any(worker.group == _GROUP and not worker.is_finished for worker in screen.workers)
    if readonly or is_busy:
        coroutine.close()
        if readonly:
            say_readonly(screen)
        else:
            screen.notify("Still busy with the last request", markup=False)
        return
    screen.run_worker(coroutine, name=_GROUP, group=_GROUP)
