"""What the end of a program's output says of why it ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

LONGEST_TEXT = 240
"""Characters of a cause; it is shown on one line."""

SHUTDOWN = re.compile(r"\[shutdown\] API server: shutdown triggered")
"""What vLLM says of its engine behind this line is no failure: it was told to stop."""


class Weight(IntEnum):
    """How much a text tells; the least number wins, whatever else the output says."""

    EXACT = 0
    """Names the cause and the remedy."""
    BROAD = 1
    """Names the cause; an exact text about the same failure may come behind it."""
    GENERIC = 2
    """Says only that something else failed. It accompanies every failure of its kind."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a program ended, by its own words."""

    text: str
    """One line, in words that say what to do."""
    hopeless: bool
    """Another start would end the same way: an error in the config, or too little memory."""


Groups = Mapping[str, str]
"""The named groups of a match, `?` for those that took no part."""


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """A text by which a failure is recognised."""

    name: str
    regex: str
    """Searched in the whole output at once, so that it may span lines; `^` and `$` mean those of a line."""
    text: str | Callable[[Groups], str]
    """What to say: a template of the named groups, or a function of them."""
    hopeless: bool = False
    weight: Weight = Weight.EXACT

    @property
    def compiled(self) -> re.Pattern[str]:
        """Compiled when it is needed: most supervisors never see a failure."""
        return re.compile(self.regex, re.MULTILINE)

    def cause(self, match: re.Match[str]) -> Cause:
        """The cause that `match` of this pattern tells."""
        groups = {name: (value or "?").strip() for name, value in match.groupdict().items()}
        told = self.text(groups) if callable(self.text) else self.text.format_map(groups)
        text = " ".join(told.split())
        if len(text) > LONGEST_TEXT:
            text = text[: LONGEST_TEXT - 1] + "…"
        return Cause(text, self.hopeless)


def find_cause(lines: Sequence[str], patterns: Iterable[FailurePattern]) -> Cause | None:
    """The cause of a failure from the last lines of its output (sanitised, oldest first).

    Of texts that name a cause, the first is the root and the later ones are its echo in other processes. Of
    generic ones, the first of `patterns` that occurs is told, by its last match.
    """
    output = "\n".join(lines)
    matches: list[tuple[Weight, int, int, FailurePattern, re.Match[str]]] = []
    stopped = SHUTDOWN.search(output)
    for order, pattern in enumerate(patterns):
        if pattern.weight is Weight.GENERIC:
            match = _last(pattern.compiled, output, stopped.start() if stopped else len(output))
            place = 0
        else:
            match = pattern.compiled.search(output)
            place = match.start() if match else 0
        if match is not None:
            matches.append((pattern.weight, place, order, pattern, match))
    if not matches:
        return None
    *_, pattern, match = min(matches, key=lambda found: found[:3])
    return pattern.cause(match)


def _last(regex: re.Pattern[str], output: str, stop: int) -> re.Match[str] | None:
    newest = None
    for match in regex.finditer(output):
        if match.start() >= stop:
            break
        newest = match
    return newest
