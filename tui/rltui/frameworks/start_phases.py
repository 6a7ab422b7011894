"""Lines by which programs show how far their start is: those of engines, then those that wait for others."""

from __future__ import annotations

import re
from functools import cache

from rltui.core.experiment.stalls import StartPhases
from rltui.frameworks.engines.base import Engine

_WAITS = (
    (r"Waiting for (?:policy )?inference pool to be ready", "waiting for inference"),
    (r"[Ii]nference pool ready", "inference ready"),
    (r"Loading (?:train(?:ing)?|eval) environments?\b", "waiting for the env servers"),
    (r"Broadcasting startup policy weights", "waiting for its weights to be received"),
    (r"Syncing inference to the trainer's startup broadcast", "waiting for the trainer's weights"),
    (r"Still waiting for .{1,80} after \d+s", "waiting for a peer"),
)


@cache
def start_phases(engine: Engine) -> StartPhases:
    """Return the phases of the engine that a framework starts, and of the programs beside it."""
    return tuple((re.compile(regex), words) for regex, words in (*engine.start_phases, *_WAITS))
