"""Make the README's film of a real session: `.venv/bin/python -m tests.film [FILE]`.

Runs `rltui demo` in a terminal of its own, presses the keys of `SCENES`, and saves the screens as
an SVG that moves by CSS alone, to `.github/screenshots/session.svg` or FILE. About two minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from tests.screenshots import TARGET, own_box
from tests.terminal import Terminal

from rltui.core.log_lines import PLAIN, Colour, SgrStyle, parse_line

COLUMNS, ROWS = 100, 30
KEY_NAMES = {"Enter": "⏎", "Escape": "esc"}
"""How those are written in the caption that are not called by what they type."""
TYPED_S = 0.12
SETTLED_S = 0.8
"""Behind escape, too, which would be alt with the next key else."""
LONGEST_S = 300
"""Longest wait for a screen; on an idle box half a minute is the longest."""


class Scene(NamedTuple):
    """Keys, and what the screen shows when they were pressed."""

    says: str
    """The caption below the screen."""
    keys: tuple[str, ...] = ()
    """Keys by tmux's names."""
    shows: str = ""
    """A regular expression for what is there before it is filmed: words that do not change soon."""
    seconds: float = 2.0
    """How long the viewer looks at it."""
    looks: int = 1
    """Number of frames in that time, where something moves."""
    typed: bool = False
    """True: every key is a frame."""


PROMPT = "~ $"
SCENES = (
    Scene(
        "A model learns to reverse text, by three programs, on a CPU", shows=re.escape(PROMPT), seconds=1.2
    ),
    Scene("One command starts them", tuple("rltui demo"), seconds=0.6, typed=True),
    Scene("First some supervised steps: sft", ("Enter",), r"sft [●◐✓]", 2.4, looks=3),
    Scene(
        "Now inference, orchestrator and trainer live side by side",
        (),
        r"· step ([6-9]|[1-9]\d+)/",
        6.0,
        looks=6,
    ),
    Scene(": finds whatever there is by a few letters", (":",), "", 0.8),
    Scene(": finds whatever there is by a few letters: a knob", tuple("orch"), "", 1.0),
    Scene(": finds whatever there is by a few letters: a knob", tuple("estrator.b"), "", 2.0),
    Scene("… and edits it", ("Enter",), r"batch_size[^$]*128", 1.5),
    Scene("100 breaks a rule: which one, what would be valid, what must restart", ("1", "0", "0"), "✗", 4.5),
    Scene(
        "t and r: the plan to restart the trainer, and what must restart with it",
        ("Escape", "t", "r"),
        r"stop +\w.* → ",
        4.0,
    ),
    Scene("4 has the whole run in charts", ("Escape", "4"), "· Metrics", 4.0, looks=3),
    Scene("5 has what the model wrote, with its rewards", ("5",), r"(?i)· rollouts|assistant", 3.0),
    Scene(
        "q leaves, and everything goes on", ("Escape", "Escape", "q"), rf"(?m)^{re.escape(PROMPT)} *$", 2.0
    ),
    Scene("From any shell", tuple("rltui status"), seconds=0.4, typed=True),
    Scene("Nothing has stopped. rltui brings it all back", ("Enter",), r"● trainer[^$]*~ \$\s*$", 5.0),
)
RESTS_AT = 3
"""The scene that is shown to those who want nothing to move."""


class Run(NamedTuple):
    """Neighbouring cells of one style."""

    column: int
    text: str
    style: SgrStyle


Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture of the film, with its duration."""

    rows: tuple[Row, ...]
    says: str
    keys: str
    seconds: float


_NEWLINE = "\u2424"


def rows_of(captured: str) -> tuple[Row, ...]:
    """The cells of a screen as tmux tells them, whose styles go on from row to row."""
    line = parse_line(captured.rstrip("\n").replace("\n", _NEWLINE))
    styles = [PLAIN] * len(line.text)
    for span in line.spans:
        styles[span.start : span.stop] = [span.style] * (span.stop - span.start)
    rows: list[Row] = []
    start = 0
    for text in line.text.split(_NEWLINE):
        edges = [
            column for column in range(1, len(text)) if styles[start + column] != styles[start + column - 1]
        ]
        pieces = pairwise([0, *edges, len(text)]) if text else ()
        rows.append(tuple(Run(column, text[column:end], styles[start + column]) for column, end in pieces))
        start += len(text) + 1
    return tuple(rows)


def filmed(terminal: Terminal) -> Iterator[Frame]:
    """Play all scenes, and yield their frames."""
    for scene in SCENES:
        key_texts: list[str] = []
        for key in scene.keys:
            key_texts.append(KEY_NAMES.get(key, key))
            terminal.press(key)
            time.sleep(SETTLED_S if key == "Escape" else TYPED_S)
            if scene.typed:
                yield Frame(rows_of(terminal.screen(styled=True)), scene.says, key_texts[-1], TYPED_S)
        terminal.wait_until(partial(_with_words, scene.shows), scene.shows, timeout_s=LONGEST_S)
        time.sleep(SETTLED_S)
        keys = "" if scene.typed else ("" if all(len(key) == 1 for key in key_texts) else " ").join(key_texts)
        for _ in range(scene.looks):
            screen = terminal.screen(styled=True)
            yield Frame(rows_of(screen), scene.says, keys, scene.seconds / scene.looks)
            time.sleep(scene.seconds / scene.looks if scene.looks > 1 else 0)


def _with_words(pattern: str, screen: str) -> str:
    return screen if re.search(pattern, screen) else ""


CELL, LINE, SIZE = 8, 16, 13.33
"""Width and height of a cell and the size of the font, in pixels."""
PAD, CAPTION = 12, 34
_ALONE = 7
"""Longer texts are made as wide as their cells, whatever the font."""
_PANEL = COLUMNS * 2 // 3
"""Column at which another panel begins: both sides change at different times."""
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
FOREGROUND, BACKGROUND = "#e0e0e0", "#121212"
_PALETTE = (
    *("#000000", "#cd3131", "#0dbc79", "#e5e510", "#2472c8", "#bc3fbc", "#11a8cd", "#e5e5e5"),
    *("#666666", "#f14c4c", "#23d18b", "#f5f543", "#3b8eea", "#d670d6", "#29b8db", "#ffffff"),
)


def _hex(colour: Colour) -> str:
    if isinstance(colour, tuple):
        return "#{:02x}{:02x}{:02x}".format(*colour)
    if colour < 16:
        return _PALETTE[colour]
    if colour > 231:
        return f"#{8 + 10 * (colour - 232):02x}" + 2 * f"{8 + 10 * (colour - 232):02x}"
    steps = (0, 95, 135, 175, 215, 255)
    place = colour - 16
    return _hex((steps[place // 36], steps[place // 6 % 6], steps[place % 6]))


@dataclass
class Drawing:
    """Frames one below the other, of which one is seen at a time; a row that comes again is drawn once."""

    frames: list[Frame]
    _rows: dict[str, str] = field(default_factory=dict)
    """Markup of a row → its id."""
    _classes: dict[str, str] = field(default_factory=dict)
    """CSS declarations → name of their class."""
    _ground: str = BACKGROUND

    def svg(self) -> str:
        """The whole drawing as text of an SVG file."""
        width = COLUMNS * CELL + 2 * PAD
        height = ROWS * LINE + 2 * PAD + CAPTION
        grounds = Counter(
            self._colours(run.style)[1] for frame in self.frames for row in frame.rows for run in row
        )
        self._ground = grounds.most_common(1)[0][0]
        frames = "".join(self._frame(frame, number * height) for number, frame in enumerate(self.frames))
        rows = "".join(f'<g id="{name}">{markup}</g>' for markup, name in self._rows.items())
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" xml:space="preserve"><title>A session of rltui</title>'
            f"<style>{self._style(height)}</style><defs>{rows}</defs>"
            f'<rect width="{width}" height="{height}" rx="8" fill="{self._ground}"/>'
            f'<g class="film">{frames}</g></svg>\n'
        )

    def _style(self, height: int) -> str:
        total = sum(frame.seconds for frame in self.frames)
        elapsed_s, steps = 0.0, []
        for number, frame in enumerate(self.frames):
            steps.append(f"{100 * elapsed_s / total:.2f}%{{transform:translateY(-{number * height}px)}}")
            elapsed_s += frame.seconds
        rest = next(number for number, frame in enumerate(self.frames) if frame.says == SCENES[RESTS_AT].says)
        classes = "".join(f".{name}{{{rules}}}" for rules, name in self._classes.items())
        return (
            f"text{{font:{SIZE}px {FONT};fill:{FOREGROUND};white-space:pre}}{classes}"
            f".film{{animation:film {total:.1f}s step-end infinite}}@keyframes film{{{''.join(steps)}}}"
            f"@media(prefers-reduced-motion:reduce){{.film{{animation:none;"
            f"transform:translateY(-{rest * height}px)}}}}"
        )

    def _frame(self, frame: Frame, top: int) -> str:
        rows = [
            f'<use href="#{self._id(markup)}" y="{top + PAD + number * LINE}"/>'
            for number, row in enumerate(frame.rows)
            for markup in (self._row(piece) for piece in _pieces(row))
            if markup
        ]
        caption = self._id(self._caption(frame))
        return f'{"".join(rows)}<use href="#{caption}" y="{top + PAD + ROWS * LINE}"/>'

    def _id(self, markup: str) -> str:
        return self._rows.setdefault(markup, f"r{len(self._rows)}")

    def _class(self, rules: str) -> str:
        return self._classes.setdefault(rules, f"c{len(self._classes)}")

    def _caption(self, frame: Frame) -> str:
        keys = ""
        left = PAD
        if frame.keys:
            wide = len(frame.keys) * CELL + 14
            keys = (
                f'<rect x="{PAD}" y="10" width="{wide}" height="24" rx="5" fill="#ffd866"/>'
                f'<text x="{PAD + 7}" y="26" class="{self._class("fill:#101010;font-weight:bold")}">'
                f"{escape(frame.keys)}</text>"
            )
            left += wide + 10
        rule = f'<path d="M0 4H{COLUMNS * CELL + 2 * PAD}" stroke="#555"/>'
        return f'{rule}{keys}<text x="{left}" y="26">{escape(frame.says)}</text>'

    def _row(self, row: Row) -> str:
        grounds = []
        for ground, runs in groupby(row, lambda run: self._colours(run.style)[1]):
            if ground != self._ground:
                covered = list(runs)
                wide = sum(len(run.text) for run in covered) * CELL
                left = PAD + covered[0].column * CELL
                grounds.append(f'<rect x="{left}" width="{wide}" height="{LINE}" fill="{ground}"/>')
        return "".join(grounds) + self._texts(row)

    def _texts(self, row: Row) -> str:
        spans = []
        for run in row:
            text = run.text.rstrip()
            if not text.strip():
                continue
            indent = len(text) - len(text.lstrip())
            left, text = PAD + (run.column + indent) * CELL, text.lstrip()
            wide = f' textLength="{len(text) * CELL}"' if len(text) > _ALONE else ""
            rules = self._rules(run.style)
            name = f' class="{self._class(rules)}"' if rules else ""
            spans.append(f'<tspan x="{left}"{wide}{name}>{escape(text)}</tspan>')
        return f'<text y="{LINE - 4}">{"".join(spans)}</text>' if spans else ""

    def _colours(self, style: SgrStyle) -> tuple[str, str]:
        fore = FOREGROUND if style.fg is None else _hex(style.fg)
        back = self._ground if style.bg is None else _hex(style.bg)
        return (back, fore) if style.reverse else (fore, back)

    def _rules(self, style: SgrStyle) -> str:
        fore = self._colours(style)[0]
        rules = [f"fill:{fore}"] * (fore != FOREGROUND)
        rules += ["font-weight:bold"] * style.bold + ["opacity:.6"] * style.dim
        rules += ["font-style:italic"] * style.italic + ["text-decoration:underline"] * style.underline
        return ";".join(rules)


def _pieces(row: Row) -> tuple[Row, Row]:
    remaining = tuple(run for run in row if run.column < _PANEL)
    return remaining, row[len(remaining) :]


def main() -> None:
    """Film a session and write the SVG."""
    target = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else TARGET / "session.svg"
    with own_box() as root:
        bin_folder = Path(sys.executable).parent
        environment = {**os.environ, "COLORTERM": "truecolor"}
        (root / "bashrc").write_text(f"PS1='{PROMPT} '\n")
        environment["PATH"] = f"{bin_folder}:{environment['PATH']}"
        environment.pop("NO_COLOR", None)
        shell = ["bash", "--noprofile", "--rcfile", str(root / "bashrc")]
        terminal = Terminal(shell, cwd=root, env=environment, columns=COLUMNS, rows=ROWS)
        try:
            frames = list(filmed(terminal))
        finally:
            terminal.close()
            subprocess.run([sys.executable, "-m", "rltui", "down", "demo"], check=False)
    target.write_text(Drawing(merged(frames)).svg())
    print(f"{target}: {target.stat().st_size:,} bytes, {sum(frame.seconds for frame in frames):.0f} s")


def merged(frames: list[Frame]) -> list[Frame]:
    """One frame of those that follow each other and are alike."""
    merged_frames: list[Frame] = []
    for frame in frames:
        if merged_frames and (merged_frames[-1].rows, merged_frames[-1].says, merged_frames[-1].keys) == (
            frame.rows,
            frame.says,
            frame.keys,
        ):
            frame = Frame(frame.rows, frame.says, frame.keys, merged_frames.pop().seconds + frame.seconds)
        merged_frames.append(frame)
    return merged_frames


if __name__ == "__main__":
    main()
