"""Lines by which programs show how far their start is: those of engines, then those that wait for others."""

from __future__ import annotations

import re

from rltui.core.stalls import StartPhases
from rltui.frameworks.engines import output

START_PHASES: StartPhases = tuple(
    (re.compile(regex), words)
    for regex, words in (
        *output.START_PHASES,
        (r"Waiting for (?:policy )?inference pool to be ready", "waiting for inference"),
        (r"[Ii]nference pool ready", "inference ready"),
        (r"Loading (?:train(?:ing)?|eval) environments?\b", "waiting for the env servers"),
        (r"Syncing inference to the trainer's startup broadcast", "waiting for the trainer's weights"),
        (r"Still waiting for .{1,80} after \d+s", "waiting for a peer"),
    )
)
