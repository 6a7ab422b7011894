"""A sample in full: as a conversation, or as its record. What it holds is untrusted text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Visual

from rltui.core.rollouts.batches import Conversation, Transcript
from rltui.ui.actions import key_of
from rltui.ui.copying import CopyRequested
from rltui.ui.styles import FAINT
from rltui.ui.text import clean, clean_line
from rltui.views.rollout import sample_figures

_LONGEST = 200_000
"""Characters of a text that are shown; an export has all."""
_MOST_LINES = 20_000
_FOLDED_LINES = 1
"""Visible lines of a tool's answer, where tools are folded."""
_ROLES = {
    "system": "bold $text-secondary",
    "user": "bold $text-primary",
    "assistant": "bold $text-success",
    "tool": "bold $text-warning",
}
_INDENT = 2


def transcript_lines(
    transcript: Transcript, width: int, *, is_raw: bool, is_folded: bool, heading: str = ""
) -> list[Content]:
    """All of it, wrapped. `is_folded`: of tools only their names and the beginning of what they said."""
    lines = [Content.styled(clean_line(heading), "bold")] if heading else []
    if is_raw:
        raw_text = json.dumps(transcript.raw, indent=1, ensure_ascii=False, default=str)
        return [*lines, *_wrapped(raw_text, width)]
    lines += _metric_lines(transcript, width)
    for error in transcript.errors:
        lines += _wrapped(f"✗ {error}", width, "$text-error")
    message_lines = chain.from_iterable(
        _conversation_lines(conversation, width, is_folded=is_folded)
        for conversation in transcript.conversations
    )
    lines += islice(message_lines, _MOST_LINES)
    if next(message_lines, None) is not None:
        lines += _wrapped(
            f"… more than {_MOST_LINES:,} lines: {key_of('write')} writes them all", width, "$text-warning"
        )
    return lines


def _metric_lines(transcript: Transcript, width: int) -> Iterator[Content]:
    sample = transcript.sample
    yield from _wrapped(sample_figures(sample), width, "bold")
    facts = [f"group {sample.group}"] if sample.group else []
    facts += [sample.env] if sample.env else []
    facts += [f"{name} {value}" for name, value in transcript.facts if name != "advantage"]
    if facts:
        yield from _wrapped(" · ".join(clean_line(fact) for fact in facts), width, FAINT)


def _conversation_lines(conversation: Conversation, width: int, *, is_folded: bool) -> Iterator[Content]:
    if conversation.title:
        yield Content("")
        yield Content.styled(f"━━ {clean_line(conversation.title)} ".ljust(width, "━")[:width], FAINT)
    for message in conversation.messages:
        yield Content("")
        is_told = message.sampled and message.role != "assistant"
        role = (clean_line(message.role), _ROLES.get(message.role, "bold"))
        yield Content.assemble(role, (" ◂ sampled" if is_told else "", FAINT))[:width]
        if message.reasoning:
            yield from _indented(message.reasoning, width, f"italic {FAINT}")
        if message.text and is_folded and message.role == "tool":
            lines = list(_indented(message.text, width, FAINT))
            yield from lines[:_FOLDED_LINES]
            if len(lines) > _FOLDED_LINES:
                yield Content.styled(
                    f"{'':{_INDENT}}… {len(lines) - _FOLDED_LINES} more lines", f"italic {FAINT}"
                )
        else:
            yield from _indented(message.text, width, "")
        for call in message.calls:
            yield from _indented(f"⚒ {clean_line(call.name)}", width, "$text-warning")
            if not is_folded:
                yield from _indented(call.arguments, width - _INDENT, FAINT, indent=2 * _INDENT)


def _indented(text: str, width: int, style: str, *, indent: int = _INDENT) -> Iterator[Content]:
    if text:
        for line in _wrapped(text, width - indent, style):
            yield Content(" " * indent) + line


def _wrapped(text: str, width: int, style: str = "") -> Iterator[Content]:
    cleaned = clean(text[:_LONGEST])
    for line in cleaned.split("\n"):
        for chunk in _wrap_line(line, max(8, width)):
            yield Content.styled(chunk, style) if style else Content(chunk)
    if len(text) > _LONGEST:
        yield Content.styled(
            f"… {len(text) - _LONGEST:,} more characters: {key_of('write')} writes them all", "$text-warning"
        )


def _wrap_line(line: str, width: int) -> Iterator[str]:
    """Pieces have `width` cells at most and break at spaces where that leaves more than half of it."""
    position = 0
    while True:
        window = line[position : position + width + 1]
        end = min(width, len(window)) if window.isascii() else _cells_that_fit(window, width)
        if position + end >= len(line):
            yield line[position:]
            return
        space = window.rfind(" ", 0, end + 1)
        if space > end // 2:
            yield window[:space]
            position += space + 1
        else:
            yield window[:end]
            position += end


def _cells_that_fit(line: str, width: int) -> int:
    cells = 0
    for index, sign in enumerate(line):
        cells += cell_len(sign)
        if cells > width:
            return max(1, index)
    return len(line)


def transcript_text(transcript: Transcript) -> str:
    """Format a transcript without wrapping or folding, with complete calls and answers of tools."""
    paragraphs = []
    for conversation in transcript.conversations:
        paragraphs += [f"━━ {conversation.title}"] if conversation.title else []
        for message in conversation.messages:
            calls = (f"⚒ {call.name} {call.arguments}".rstrip() for call in message.calls)
            body = "\n".join(filter(None, (message.reasoning, message.text, *calls)))
            paragraphs.append(f"{message.role}:\n{body}")
    return clean("\n\n".join(paragraphs))


def _identity(transcript: Transcript | None) -> tuple[int, str] | None:
    """A key that stays the same while a rollout under way goes on."""
    return None if transcript is None else (transcript.sample.where, transcript.sample.group)


class TranscriptView(ScrollView, can_focus=True):
    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.transcript: Transcript | None = None
        self._heading = ""
        self._note = ""
        self._lines: Sequence[Content] = ()
        self._width = 0
        self.is_raw = False
        self.is_folded = True

    def show(
        self, transcript: Transcript | None, *, heading: str = "", note: str = "", at_answer: bool = False
    ) -> None:
        """Show another one from its start, or from the last answer; `note` stands where there is none."""
        is_same = _identity(transcript) == _identity(self.transcript) is not None
        self.transcript, self._heading, self._note = transcript, heading, note
        self.lay_out()
        if not is_same:
            self.scroll_to(0, self._answer_line if at_answer else 0, animate=False, force=True)

    @property
    def _answer_line(self) -> int:
        answers = [at for at, line in enumerate(self._lines) if line.plain == "assistant"]
        return answers[-1] if answers else 0

    def lay_out(self) -> None:
        self._width = self.scrollable_content_region.width
        if self._width <= 0:  # not laid out yet: the resize to come does it
            return
        if self.transcript is None:
            self._lines = [*_wrapped(self._note, self._width, FAINT)] if self._note else []
        else:
            self._lines = transcript_lines(
                self.transcript,
                self._width,
                is_raw=self.is_raw,
                is_folded=self.is_folded,
                heading=self._heading,
            )
        self.virtual_size = Size(0, len(self._lines))
        self.refresh()

    def on_resize(self) -> None:
        if self.scrollable_content_region.width != self._width:
            self.lay_out()

    def copied(self) -> CopyRequested | None:
        if self.transcript is None:
            return None
        if self.is_raw:
            record = json.dumps(self.transcript.raw, indent=1, ensure_ascii=False, default=str)
            return CopyRequested(record, "the record")
        return CopyRequested(transcript_text(self.transcript), "the sample")

    def move(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False)

    def move_to_end(self, last: bool) -> None:
        self.scroll_to(y=self.max_scroll_y if last else 0, animate=False)

    def move_pages(self, pages: int) -> None:
        self.move(pages * max(1, self.size.height - 1))

    def render_line(self, y: int) -> Strip:
        line_index = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        if line_index >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[line_index]
        line = line.pad_right(max(0, width - line.cell_length))
        if self.text_selection is not None and (span := self.text_selection.get_span(line_index)) is not None:
            line = line.stylize("reverse", span[0], None if span[1] < 0 else span[1])
        strips = Visual.to_strips(self, line, line.cell_length, 1, self.visual_style, apply_selection=False)
        return strips[0].crop(0, width).apply_offsets(0, line_index)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        return selection.extract("\n".join(line.plain.rstrip() for line in self._lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        del selection
        self.refresh()
