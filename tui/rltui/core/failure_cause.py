"""What the end of a program's output says of why it ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from rltui.core.gpu.out_of_memory import completed
from rltui.core.gpu.report import OutOfMemory

LONGEST_TEXT = 240
"""Characters of a cause; it is shown on one line."""

LONGEST_LINE = 4096
"""Characters of a line that patterns see. What a program prints must not keep rltui busy."""

SHUTDOWN = re.compile(r"\[shutdown\] API server: shutdown triggered")
"""What vLLM says of its engine behind this line is no failure: it was told to stop."""
_RANK = re.compile(r"(?:\[rank\d{1,6}\]: ?|\[[A-Za-z_]{1,40}\d{1,6}\]:){1,3}")
"""torch's own and torchrun's names of who prints; the lines behind them are as programs print them alone."""
_CHILD_FAILED = re.compile(r"^E\d{4} [^\n]*\bdistributed/elastic/[^\n]*\] failed \(exitcode", re.MULTILINE)
"""Here torchrun begins to tell of a rank that failed. What the rank itself said stands before."""


class Confidence(IntEnum):
    """How much a text tells; the least number wins, whatever else the output says."""

    EXACT = 0
    """Names the cause and the remedy."""
    BROAD = 1
    """Names the cause; an exact text about the same failure may come behind it."""
    GENERIC = 2
    """Says only that something else failed. It accompanies every failure of its kind."""


@dataclass(frozen=True, slots=True)
class Cause:
    text: str
    """One line, in words that say what to do."""
    hopeless: bool
    """Another start would end the same way: an error in the config, or too little memory."""
    memory: OutOfMemory | None = None
    """The figures, where device memory did not suffice. `component` and `device` are left open."""
    from_outside: bool = False
    """Somebody else killed it: neither rltui, nor the kernel for want of memory, as far as that tells."""


Groups = Mapping[str, str]
"""The named groups of a match, `?` for those that took no part."""


@dataclass(frozen=True, slots=True)
class FailurePattern:
    name: str
    regex: str
    """Searched in the whole output at once, so that it may span lines; `^` and `$` mean those of a line.

    Its work grows with the output's length, not with the square of it: two repeats that accept the same
    characters do not stand side by side, and what begins with a repeat has a bound.
    """
    text: str | Callable[[Groups], str]
    """What to say: a template of the named groups, or a function of them."""
    hopeless: bool = False
    weight: Confidence = Confidence.EXACT
    memory: Callable[[Groups], OutOfMemory] | None = None
    ends_well: bool = False
    """Not of a failure: what a job that ends with code 0 left to others, so that nothing is done yet."""
    last_words: bool = False
    """Whatever the last line is: says nothing of a program that goes on."""

    @property
    def compiled(self) -> re.Pattern[str]:
        """Compiled when it is needed: most supervisors never see a failure."""
        return re.compile(self.regex, re.MULTILINE)

    def cause(self, match: re.Match[str]) -> Cause:
        groups = self._groups(match)
        told = self.text(groups) if callable(self.text) else self.text.format_map(groups)
        text = " ".join(told.split())
        if len(text) > LONGEST_TEXT:
            text = text[: LONGEST_TEXT - 1] + "…"
        return Cause(text, self.hopeless, self.out_of_memory(match))

    def out_of_memory(self, match: re.Match[str]) -> OutOfMemory | None:
        return None if self.memory is None else self.memory(self._groups(match))

    @staticmethod
    def _groups(match: re.Match[str]) -> Groups:
        return {name: (value or "?").strip() for name, value in match.groupdict().items()}


def find_cause(
    lines: Sequence[str], patterns: Iterable[FailurePattern], *, ends_well: bool = False
) -> Cause | None:
    """The cause of a failure from the last lines of its output (sanitised, oldest first).

    Of texts that name a cause, the first is the root and the later ones are its echo in other processes. Of
    generic ones, the first of `patterns` that occurs is told, by its last match. Figures of device memory are
    also taken from the other texts about it. A launcher's report of its children is asked last. `ends_well`:
    of patterns that are not about failures.
    """
    output, table = (
        "\n".join(_seen(line) for line in lines).rstrip(),
        [each for each in patterns if each.ends_well is ends_well],
    )
    report = _CHILD_FAILED.search(output)
    told = _find(output[: report.start()].rstrip(), table) if report else None
    return told or _find(output, table)


def _find(output: str, patterns: Sequence[FailurePattern]) -> Cause | None:
    matches: list[tuple[Confidence, int, int, FailurePattern, re.Match[str]]] = []
    stopped = SHUTDOWN.search(output)
    for order, pattern in enumerate(patterns):
        if pattern.weight is Confidence.GENERIC:
            match = _last(pattern.compiled, output, stopped.start() if stopped else len(output))
            place = 0
        else:
            match = pattern.compiled.search(output)
            place = match.start() if match else 0
        if match is not None:
            matches.append((pattern.weight, place, order, pattern, match))
    if not matches:
        return None
    (*_, pattern, match), *others = sorted(matches, key=lambda found: found[:3])
    cause = pattern.cause(match)
    for *_, other, text in others:
        figures = other.out_of_memory(text)
        if cause.memory is not None and figures is not None:
            cause = replace(cause, memory=completed(cause.memory, figures))
    return cause


def _seen(line: str) -> str:
    text = line[:LONGEST_LINE]
    rank = _RANK.match(text)
    return text[rank.end() :] if rank else text


def _last(regex: re.Pattern[str], output: str, stop: int) -> re.Match[str] | None:
    newest = None
    for match in regex.finditer(output):
        if match.start() >= stop:
            break
        newest = match
    return newest
