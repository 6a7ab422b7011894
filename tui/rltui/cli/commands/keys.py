"""`rltui keys`: every key of the TUI, as it is mapped now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.arguments import JSON, KEYMAP, KEYMAP_VARIABLE
from rltui.cli.command import Arguments, argument, command
from rltui.cli.output import print_json
from rltui.cli.table import Column, print_table

if TYPE_CHECKING:
    from rltui.ui.actions import Action, Use

_COLUMNS = (Column("KEYS"), Column("ACTION"), Column("WHERE", least=10, goes=1), Column("WHAT", least=24))
_MANY = 4
"""Number of contexts from which on the further ones are only counted."""


@command(
    "keys",
    argument("word", "WORD", "only those with all these words", nargs="*"),
    KEYMAP,
    JSON,
    is_local=True,
)
def show_keys(arguments: Arguments) -> int:
    """Print the keys by action, in the order of the help.

    Raises:
        ConfigError: if the settings give two actions one key on a screen, or name an unknown action.
    """
    from rltui import settings
    from rltui.ui import actions, keymap

    path = settings.settings_file()
    try:
        actions.remap(keymap.load(path, os.environ.get(KEYMAP_VARIABLE, "")))
    finally:  # the usual ones where that is wrong: they hold, and its message sends people here
        _list(path, arguments)
    return 0


def _list(path: Path, arguments: Arguments) -> None:
    from rltui.ui import actions

    if arguments.json:
        print_json({"settings": str(path), "keys": [_record(action) for action in actions.ACTIONS]})
        return
    terms = [term.lower() for term in arguments.word]
    rows = [row for action in actions.ACTIONS for row in _rows(action) if _matches(row, terms)]
    print_table(_COLUMNS, rows)
    if any(action.keys != action.default_keys for action in actions.ACTIONS):
        print("* differs from the usual keys")


def _matches(row: tuple[str, ...], terms: list[str]) -> bool:
    return all(term in " ".join(row).lower() for term in terms)


def _rows(action: Action) -> list[tuple[str, ...]]:
    from rltui.ui import key_names

    change_sign = "* " if action.keys != action.default_keys else ""
    keys = key_names.key_text(action.keys) if action.keys else "-"
    return [
        (f"{change_sign}{keys}", action.id, _where(use), use.help or use.label) for use in action.meanings
    ]


def _where(use: Use) -> str:
    from rltui.ui import actions

    if set(actions.SCREENS) <= set(use.places):
        return "everywhere"
    names = [context.value.removesuffix(" screen") for context in use.places]
    return ", ".join(names) if len(names) < _MANY else f"{names[0]} and {len(names) - 1} others"


def _record(action: Action) -> dict[str, object]:
    from rltui.ui import key_names

    return {
        "id": action.id,
        "keys": key_names.written(action.keys),
        "usual_keys": key_names.written(action.default_keys),
        "changed": action.keys != action.default_keys,
        "label": action.label,
        "help": action.help,
        "uses": [
            {
                "where": [context.value for context in use.places],
                "label": use.label,
                "help": use.help,
                "changes": use.changes,
            }
            for use in action.meanings
        ],
    }
