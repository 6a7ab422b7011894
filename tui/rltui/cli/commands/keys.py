"""`rltui keys`: every key of the TUI, as it is mapped now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rltui import paths
from rltui.cli.arguments import KEYMAP, KEYMAP_VARIABLE, listing
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.output import print_rows
from rltui.cli.table import Row, TableColumn, print_table

if TYPE_CHECKING:
    from rltui.ui.actions import Action


@command(
    "keys",
    argument("word", "WORD", "only keys with all these words", nargs="*"),
    flag("--ids", "also show the names of the actions, for [keys] in the settings"),
    flag("--dialogs", "also list the keys inside dialogs"),
    KEYMAP,
    *listing("only the first keys"),
    examples=(
        "keys",
        "keys restart",
        "keys --keymap k9s",
    ),
    is_local=True,
)
def show_keys(arguments: Arguments) -> int:
    """Print a line per key, in the order of the help: what it does wherever it works.

    Raises:
        ConfigError: if the settings give two actions one key on a screen, or name an unknown action.
    """
    from rltui.ui import actions, keymap

    path = paths.settings_file()
    try:
        actions.remap(keymap.load(path, os.environ.get(KEYMAP_VARIABLE, "")))
    finally:  # the default keys where that is wrong: they are used, and its message sends people here
        _list(path, arguments)
    return 0


def _list(path: Path, arguments: Arguments) -> None:
    from rltui.ui import actions

    if arguments.json:
        keys = [_record(action) for action in actions.ACTIONS]
        print_rows(arguments, "keys", keys, head={"settings": str(path)})
        return
    terms = [term.lower() for term in arguments.word]
    listed = [
        action
        for action in actions.ACTIONS
        if (action.scope.is_of_screens or arguments.dialogs or terms) and _matches(action, terms)
    ]
    if not listed:
        print("no key has all these words")
        return
    columns = (
        TableColumn("KEY"),
        *((TableColumn("ACTION"),) if arguments.ids else ()),
        TableColumn("WHAT", least=24),
    )
    rows: list[Row] = []
    for scope in actions.Scope:
        of_scope = [_row(action, has_id=arguments.ids) for action in listed if action.scope is scope]
        rows += [*(("", scope.value) if rows else (scope.value,)), *of_scope] if of_scope else []
    print_table(columns, rows)
    if any(action.keys != action.default_keys for action in listed):
        print("* not the default key")


def _matches(action: Action, terms: list[str]) -> bool:
    texts = {action.shown_keys, action.id, action.label, action.help}
    for use in action.uses:
        texts |= {use.label, use.help, *(place.value for place in use.places)}
    words = " ".join(texts).lower()
    return all(term in words for term in terms)


def _row(action: Action, *, has_id: bool) -> tuple[str, ...]:
    sign = "* " if action.keys != action.default_keys else ""
    return (f"{sign}{action.shown_keys}", *((action.id,) if has_id else ()), action.help or action.label)


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
                "help": use.help,
                "changes": use.changes,
            }
            for use in action.meanings
        ],
    }
