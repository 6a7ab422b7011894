"""The pages of `rltui help`, which lie in `help/`."""

from __future__ import annotations

from pathlib import Path

from rltui.cli.arguments import SLURM
from rltui.cli.command_help import exit_code_lines, options_text

_EXIT_CODES = "{exit codes}"
"""A line of a page in whose place their table is shown."""
_FOLDER = Path(__file__).parent / "help"


def topics() -> dict[str, str]:
    """Name → first line of every page, in the order of their files."""
    return {_name(file): file.read_text(encoding="utf-8").partition("\n")[0] for file in _files()}


def page(topic: str) -> str:
    """Text of a page; its first line is a title.

    Raises:
        KeyError: if there is no such page.
    """
    text = {_name(file): file for file in _files()}[topic].read_text(encoding="utf-8")
    if topic == SLURM.page:
        text += f"\nOptions of up, sweep and queue add:\n{options_text(SLURM)}\n"
    return text.replace(_EXIT_CODES, "\n".join(exit_code_lines()))


def _files() -> list[Path]:
    """Files of the pages; the number in `10-start.txt` is its place in the list."""
    return sorted(_FOLDER.glob("*.txt"))


def _name(file: Path) -> str:
    return file.stem.partition("-")[2]
