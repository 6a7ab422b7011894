"""The manual page, as source for man(7): made from the declarations of commands and the pages of help."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from rltui import __version__
from rltui.cli.command import Command, Declared
from rltui.cli.command_help import usage
from rltui.cli.help_pages import page, topics
from rltui.cli.overview import DESCRIPTION, OPTIONS, all_commands
from rltui.cli.table import wrap
from rltui.core import hints
from rltui.errors import EXIT_MEANINGS

_SOURCE_WIDTH = 64
"""Width of the source before `-` becomes two characters; mandoc advises against lines over 80."""
_DATE = "2026-11-26"
_FILES = (
    ("OUTPUT_DIR/.rltui/", "journal, attempts with logs and configs, and the run's own copy of the config"),
    ("$XDG_CONFIG_HOME/rltui/settings.toml", "settings (default: in ~/.config)"),
    ("$XDG_CONFIG_HOME/rltui/layouts/*.toml", "layouts for all folders"),
    (".rltui/layouts/*.toml", "layouts for this folder"),
    ("$XDG_STATE_HOME/rltui/", "index of runs, queue (default: in ~/.local/state)"),
    ("$XDG_CACHE_HOME/rltui/", "a cache that can be deleted at any time (default: in ~/.cache)"),
    ("$XDG_RUNTIME_DIR/rltui/", "sockets (default: in your own folder below TMPDIR or /tmp)"),
)  # fmt: skip
_ENVIRONMENT = (
    ("RLTUI_PRIME_RL, RLTUI_VERIFIERS, RLTUI_MEDARC", "checkouts to use if the config is in none"),
    ("RLTUI_KEYMAP", "keymap of the TUI, like --keymap"),
    ("RLTUI_TMUX_SOCKET", "name of rltui's own tmux server (default: rltui)"),
    ("NO_COLOR", "no colours if not empty"),
    ("FORCE_COLOR, CLICOLOR_FORCE", "colours even without a terminal"),
    ("TERM", "if dumb: no colours, no updates in place"),
    ("COLUMNS", "maximum width of tables on a terminal"),
    ("LC_ALL, LC_CTYPE, LANG", "without UTF-8, the output is ASCII, as with --ascii"),
    ("VISUAL, EDITOR, PAGER", "programs that the TUI opens files and logs with"),
    ("RLTUI_EXPERIMENT, RLTUI_COMPONENT, RLTUI_ATTEMPT", "set for every component"),
)


class Block(NamedTuple):
    kind: Literal["section", "part", "text", "item", "verbatim"]
    text: str
    term: str = ""


def print_manual() -> None:
    """Show it by man on a terminal, where that is installed; else print its source."""
    source = as_roff([*manual()])
    program = shutil.which("man") if sys.stdout.isatty() else None
    if program is None:
        print(source, end="")
        return
    sys.stdout.flush()
    subprocess.run([program, "-l", "-"], input=source, text=True, check=False)


def manual() -> Iterator[Block]:
    yield Block("section", "name")
    yield Block("text", "rltui - run and supervise reinforcement learning of language models")
    yield Block("section", "synopsis")
    for line in ("rltui [CONFIG... | RUN]", "rltui COMMAND [OPTION...]", str(hints.HELP_TOPIC)):
        yield Block("verbatim", line)
    yield Block("section", "description")
    yield Block("text", DESCRIPTION.partition("\n\n")[0].replace("\n", " "))
    yield Block("section", "options")
    yield from _arguments(OPTIONS)
    yield Block("section", "commands")
    for command_of_list in all_commands():
        yield from _command(command_of_list)
    yield Block("section", "exit status")
    yield from (Block("item", text, str(int(code))) for code, text in EXIT_MEANINGS.items())
    yield Block("section", "files")
    yield from (Block("item", text, name) for name, text in _FILES)
    yield Block("section", "environment")
    yield from (Block("item", text, name) for name, text in _ENVIRONMENT)
    for topic in topics():
        title, *lines = page(topic).rstrip("\n").split("\n")
        yield Block("section", topic)
        yield Block("text", f"{title}.")
        yield Block("verbatim", "\n".join(lines).strip("\n"))


def _command(command: Command) -> Iterator[Block]:
    yield Block("part", f"rltui {command.name}")
    yield Block("text", usage(command))
    yield Block("text", command.description)
    if verbs := command.verbs:
        for verb in verbs:
            yield from _command(verb)
        return
    yield from _arguments(command.declared)
    if command.epilog:
        yield Block("text", command.epilog)
    if command.examples:
        yield Block("verbatim", "\n".join(f"rltui {line}" for line in command.examples))


def _arguments(declared: Iterable[Declared]) -> Iterator[Block]:
    for argument in (argument for item in declared for argument in item.arguments()):
        if not argument.is_hidden:
            yield Block("item", argument.text, argument.typed)


def as_roff(blocks: list[Block]) -> str:
    """The page as source for man(7)."""
    lines = [f'.TH RLTUI 1 "{_DATE}" "rltui {__version__}" "User Commands"']
    is_first = True
    for block in blocks:
        text = _roff(block.text if block.kind == "verbatim" else "\n".join(wrap(block.text, _SOURCE_WIDTH)))
        match block.kind:
            case "section":
                lines.append(f".SH {text.upper()}")
            case "part":
                lines.append(f".SS {text}")
            case "text":
                lines += [text] if is_first else [".PP", text]
            case "item":
                lines += [".TP", f"\\fB{_roff(block.term)}\\fR", text]
            case "verbatim":
                lines += [".nf", text, ".fi"] if is_first else [".PP", ".nf", text, ".fi"]
        is_first = block.kind in ("section", "part")
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Escape what roff would read as its own."""
    escaped_text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    lines = escaped_text.split("\n")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) or not line else line for line in lines)
