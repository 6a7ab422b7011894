"""`help`: pages about topics, which lie in `help/`, and about commands."""

from __future__ import annotations

from rltui.base.text import did_you_mean
from rltui.cli.colour import style
from rltui.cli.command import Arguments, argument, command, flag, split
from rltui.cli.command_help import help_text
from rltui.cli.help_pages import page, topics
from rltui.cli.parser import unknown_words
from rltui.cli.table import TableColumn, print_table, room, wrap
from rltui.core import hints
from rltui.core.command_list import SENTENCES
from rltui.errors import UsageError


@command(
    "help",
    argument(
        "topic",
        "TOPIC|COMMAND",
        "topic or command (default: list the topics)",
        nargs="*",
        completes="help_topics",
    ),
    flag("--man", "the man page; to keep it: rltui help --man > rltui.1"),
    examples=("help", "help restarts", "help --man | man -l -"),
    is_local=True,
)
def show_help(arguments: Arguments) -> int:
    pages, topic = topics(), " ".join(arguments.topic)
    if arguments.man:
        from rltui.cli.manual import print_manual  # reads the declarations of all commands

        print_manual()
    elif not topic:
        columns = (TableColumn("TOPIC"), TableColumn("ABOUT", least=20))
        print_table(columns, [(style(name, "key"), title) for name, title in pages.items()])
        print(f"{hints.HELP_TOPIC}; {hints.HELP_COMMAND}; all commands: {hints.COMMANDS}, {hints.MAN}")
    elif topic in pages:
        if topic in SENTENCES:
            print(help_text(split([topic])[0], with_page=False))
        _print_page(page(topic))
    elif arguments.topic[0] in SENTENCES:
        command, words = split(arguments.topic)
        if words:
            raise unknown_words(command, words)
        print(help_text(command), end="")
    else:
        guess = did_you_mean(topic, [*pages, *SENTENCES])
        raise UsageError(f"unknown topic or command: {topic}", hint=guess or str(hints.HELP))
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
