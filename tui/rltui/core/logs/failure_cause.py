"""Finds the cause of a program's failure in the end of its output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from rltui.core.gpu.out_of_memory import with_allocation_sizes
from rltui.core.gpu.report import OutOfMemory

LONGEST_TEXT = 240
"""Characters of a cause; it is displayed on one line."""

LONGEST_LINE = 4096
"""Characters of a line that patterns see, so that a program's output cannot keep rltui busy."""

SHUTDOWN = re.compile(r"\[shutdown\] API server: shutdown triggered")
"""Errors of vLLM's engine after this line are no failure: it was told to stop."""
_RANK = re.compile(r"(?:\[rank\d{1,6}\]: ?|\[[A-Za-z_]{1,40}\d{1,6}\]:){1,3}")
"""Prefixes of torch and torchrun that name the rank; the rest of the line is the program's own."""
_CHILD_FAILED = re.compile(r"^E\d{4} [^\n]*\bdistributed/elastic/[^\n]*\] failed \(exitcode", re.MULTILINE)
"""First line of torchrun's report on a failed rank. The rank's own error stands before it."""


class Confidence(IntEnum):
    """Informative value of a text; the least number wins, whatever else the output says."""

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
    """Another start would fail the same way: an error in the config, or too little memory."""
    memory: OutOfMemory | None = None
    """Sizes, if device memory did not suffice. `component` and `device` are left open."""
    from_outside: bool = False
    """True if it was killed, as far as known, neither by rltui nor by the kernel for lack of memory."""
    code: str = "program_error"
    """A row of `core/experiment/reason_codes.py`."""
    lines: tuple[int, ...] = field(default=(), compare=False)
    """Indices of the lines that show it, ascending."""


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
    """The message: a template of the named groups, or a function of them."""
    hopeless: bool = False
    code: str = "program_error"
    """Reason code, as `Cause.code`."""
    weight: Confidence = Confidence.EXACT
    memory: Callable[[Groups], OutOfMemory] | None = None
    ends_well: bool = False
    """For a job that exits with code 0 but leaves its work to others, so that nothing is done yet."""
    last_words: bool = False
    """Matches any last line: meaningless for a program that goes on."""

    @property
    def compiled(self) -> re.Pattern[str]:
        """Compiled on first use: most supervisors never see a failure."""
        return re.compile(self.regex, re.MULTILINE)

    def cause(self, match: re.Match[str]) -> Cause:
        groups = self._groups(match)
        message = self.text(groups) if callable(self.text) else self.text.format_map(groups)
        text = " ".join(message.split())
        if len(text) > LONGEST_TEXT:
            text = text[: LONGEST_TEXT - 1] + "…"
        places = {match.start(), match.start("what" if match.groupdict().get("what") else 0), match.end() - 1}
        lines = sorted({match.string.count("\n", 0, place) for place in places})
        return Cause(text, self.hopeless, self.out_of_memory(match), code=self.code, lines=tuple(lines))

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
    generic ones, the first of `patterns` that occurs is used, by its last match. Sizes of device memory are
    also taken from the other texts about it. A launcher's report of its children is read last. `ends_well`:
    use the patterns that are not about failures.
    """
    texts = (line[:LONGEST_LINE] for line in lines)
    output = "\n".join(text[rank.end() :] if (rank := _RANK.match(text)) else text for text in texts).rstrip()
    table = [pattern for pattern in patterns if pattern.ends_well is ends_well]
    report = _CHILD_FAILED.search(output)
    cause = _find(output[: report.start()].rstrip(), table) if report else None
    return cause or _find(output, table)


def _find(output: str, patterns: Sequence[FailurePattern]) -> Cause | None:
    matches: list[tuple[Confidence, int, int, FailurePattern, re.Match[str]]] = []
    stopped = SHUTDOWN.search(output)
    for order, pattern in enumerate(patterns):
        if pattern.weight is Confidence.GENERIC:
            match = _last(pattern.compiled, output, stopped.start() if stopped else len(output))
            position = 0
        else:
            match = pattern.compiled.search(output)
            position = match.start() if match else 0
        if match is not None:
            matches.append((pattern.weight, position, order, pattern, match))
    if not matches:
        return None
    (*_, pattern, match), *others = sorted(matches, key=lambda match_: match_[:3])
    cause = pattern.cause(match)
    for *_, other, text in others:
        memory = other.out_of_memory(text)
        if cause.memory is not None and memory is not None:
            cause = replace(cause, memory=with_allocation_sizes(cause.memory, memory))
    return cause


def _last(regex: re.Pattern[str], output: str, stop: int) -> re.Match[str] | None:
    newest = None
    for match in regex.finditer(output):
        if match.start() >= stop:
            break
        newest = match
    return newest
