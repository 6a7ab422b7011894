"""`help`: pages about topics, which lie in `help/`, and about commands."""

from __future__ import annotations

from pathlib import Path

from rltui.cli.colour import style
from rltui.cli.command import Arguments, argument, command, load
from rltui.cli.command_list import SENTENCES
from rltui.cli.table import Column, print_table, room, wrap
from rltui.core import hints
from rltui.core.text import unknown_name

_FOLDER = Path(__file__).parent.parent / "help"


def topics() -> dict[str, str]:
    """Name → first line of every page, in the order of their files."""
    return {_name(file): file.read_text(encoding="utf-8").partition("\n")[0] for file in _files()}


def page(topic: str) -> str:
    """Text of a page; its first line is a title.

    Raises:
        KeyError: if there is no such page.
    """
    return {_name(file): file for file in _files()}[topic].read_text(encoding="utf-8")


@command(
    "help",
    argument("topic", "TOPIC|COMMAND", "default: the list of topics", nargs="?", completes="help_topics"),
    is_local=True,
)
def show_help(arguments: Arguments) -> int:
    pages, topic = topics(), arguments.topic
    if topic is None:
        columns = (Column("TOPIC"), Column("ABOUT", least=20))
        print_table(columns, [(style(name, "key"), title) for name, title in pages.items()])
        print(f"{hints.HELP_TOPIC}; {hints.HELP_COMMAND}; all commands: {hints.COMMANDS}, {hints.MAN}")
    elif topic in pages:
        _print_page(page(topic))
    elif topic in SENTENCES:
        print(load(topic).parser().format_help(), end="")
    else:
        raise unknown_name("topic or command", topic, [*pages, *SENTENCES])
    return 0


def _print_page(text: str) -> None:
    """The first line is a title; commands stand behind spaces, and what they do behind more."""
    width = room()
    title, *lines = text.rstrip("\n").split("\n")
    print(style(title, "head"))
    for line in lines:
        command = line.strip().partition("   ")[0]
        is_command = line.startswith("  ") and command.startswith(("rltui", "ssh", "source"))
        for piece in wrap(line, width):
            print(piece.replace(command, style(command, "key"), 1) if is_command else piece)


def _files() -> list[Path]:
    """Files of the pages; the number in `10-start.txt` is its place in the list."""
    return sorted(_FOLDER.glob("*.txt"))


def _name(file: Path) -> str:
    return file.stem.partition("-")[2]
