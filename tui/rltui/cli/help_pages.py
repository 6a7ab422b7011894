"""The pages of `rltui help`, which lie in `help/`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from rltui.cli.arguments import JOB
from rltui.cli.command_help import PAGES, exit_code_lines, options_text
from rltui.core.experiment.reason_codes import GROUPS, ReasonCode
from rltui.core.experiment.states import RUN_STATES, SHOWN_COMPONENT_STATES, ComponentBadge, RunBadge
from rltui.views.experiment import exit_code

_ANY = {"name": "RUN", "component": "COMPONENT", "components": ["COMPONENT"], "lines": None}
"""Values for the commands in a table of reasons."""


def topics() -> dict[str, str]:
    """Name → first line of every page, in the order of their files."""
    return {_name(file): file.read_text(encoding="utf-8").partition("\n")[0] for file in _files()}


def page(topic: str) -> str:
    """Text of a page; its first line is a title.

    Raises:
        KeyError: if there is no such page.
    """
    text = {_name(file): file for file in _files()}[topic].read_text(encoding="utf-8")
    if topic == JOB.page:
        text += f"\nOptions of up, sweep and queue add:\n{options_text(JOB)}\n"
    tables = {
        "exit codes": exit_code_lines(),
        "run states": [f"  {exit_code(badge.word)}{_state_line(badge)}" for badge in RUN_STATES.values()],
        "component states": map(_state_line, SHOWN_COMPONENT_STATES),
        "reason codes": _reason_lines(),
    }
    for place, lines in tables.items():
        text = text.replace(f"{{{place}}}", "\n".join(lines))
    return text


def _reason_lines() -> Iterator[str]:
    for heading, rows in GROUPS.items():
        yield f"\n{heading.capitalize()}:"
        for code, row in rows.items():
            text = f"  {code:<19} {'; '.join(filter(None, (row.text, remedy_text(row))))}"
            yield from textwrap.wrap(text, 80, subsequent_indent=" " * 22, break_on_hyphens=False)


def remedy_text(row: ReasonCode) -> str:
    """What helps, with the command for it; empty: nothing is to be done, or the message itself says it."""
    command = "" if row.hint is None else row.hint(**_ANY)
    return ": ".join(filter(None, (row.todo, command)))


def _state_line(badge: ComponentBadge | RunBadge) -> str:
    return f"  {badge.sign} {badge.word:<9} {badge.meaning}"


def _files() -> list[Path]:
    return sorted(PAGES.glob("*.txt"))


def _name(file: Path) -> str:
    return file.stem.partition("-")[2]
