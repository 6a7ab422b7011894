"""The table of actions: collected from the classes that declare them, one key with one meaning."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from functools import cached_property
from pkgutil import resolve_name
from typing import cast, get_args, get_type_hints

import pytest
from textual.actions import parse

from rltui.ui.action_table import as_json, collected, declaring_classes
from rltui.ui.actions import (
    ACTIONS,
    PANES,
    SCREENS,
    TABLE,
    InPalette,
    KeyContext,
    Scope,
    Use,
    changing_keys,
    offered_in,
    offered_on,
    uses,
)
from rltui.ui.app import RltuiApp
from rltui.ui.base_screen import BaseScreen
from rltui.ui.dialogs.help import HelpScreen, all_rows, page, symbol_rows
from rltui.ui.key_bindings import key_bindings, keys, own
from rltui.ui.screens import SCREENS as ON_TOP
from rltui.ui.screens.compare import CompareScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.verbs import NOTE

MAIN: tuple[type[BaseScreen], ...] = (Overview, CompareScreen, *map(resolve_name, ON_TOP.values()))
ON_MAIN = {*SCREENS, *(pane for panes in PANES.values() for pane in panes)}
SETTLED = {
    "question_mark": "help",
    "colon": "palette",
    "q": "detach",
    "z": "zoom",
    "j": "cursor.next",
    "slash": "search",
    "e": "edit",
    "i": "component.inference",
    "o": "component.orchestrator",
    "t": "component.trainer",
    "C": "charts",
    "s": "component.start",
    "x": "component.stop",
    "r": "component.restart",
    "w": "log.wrap",
    "W": "write",
    "y": "copy",
    "c": "compare",
    "f": "filter",
    "b": "group",
    "m": "mark",
    "less_than_sign": "sort.back",
    "greater_than_sign": "sort",
}
MAIN_ACTION = "open"
"""Enter does the obvious with what is under the cursor: it alone may have another verb on each screen."""
SWITCH = "queue.pause"
"""Its label and verb say what the key does now: pause, or resume."""
NEVER = {"ctrl+a", "ctrl+b", "ctrl+q", "ctrl+s", "ctrl+z", *(f"f{number}" for number in range(1, 13))}
"""Keys of terminals, of tmux and screen, and those that many keyboards lack."""


def on_main(use: Use) -> bool:
    return not ON_MAIN.isdisjoint(use.places)


def test_a_key_means_one_thing_on_all_main_screens() -> None:
    meanings = defaultdict(set)
    for use in filter(on_main, uses()):
        for key in filter(None, use.keys.split(",")):
            meanings[key].add(use.id)
    assert {key: ids for key, ids in meanings.items() if len(ids) > 1} == {}
    assert {key: meanings[key] for key in SETTLED} == {key: {name} for key, name in SETTLED.items()}
    assert not NEVER & meanings.keys()
    assert not [key for key in meanings if key.startswith("alt+")]


def verb(sentence: str) -> str:
    return re.split(r"[ :;,]", sentence)[0]


def test_a_key_has_one_sentence_and_one_verb_on_all_main_screens() -> None:
    """Finding U28: thirty keys changed their sense with the screen."""
    sentences: dict[str, set[str]] = defaultdict(set)
    for action in ACTIONS:
        for use in (use for use in action.uses if on_main(use) and action.id != MAIN_ACTION):
            for key in action.default_keys.split(",") if action.default_keys else ():
                sentences[key] |= {action.help}
            if action.id == SWITCH:
                assert verb(use.help).lower() == use.label, use.help
                continue
            assert verb(use.help) == verb(action.help), (action.id, use.places, use.help)
            assert use.label.startswith(action.label), (action.id, use.places, use.label)
    assert {key: both for key, both in sentences.items() if len(both) > 1} == {}


def test_a_sentence_begins_with_its_verb_and_fits_a_line_of_80_columns() -> None:
    """Also in a client that reads `rltui keys` in the smallest terminal."""
    widest = max(len(action.shown_keys) for action in ACTIONS if action.scope.is_of_screens)
    for action in (action for action in ACTIONS if action.scope.is_of_screens):
        assert widest + 2 + len(action.help) <= 80, action.id
        for text in (action.help, *(use.help for use in action.uses)):
            assert text[0].isupper(), text
            assert not text.endswith("."), text
            assert not re.search(r"or no more|go(es)? on|stands|behind|no longer|what is another", text), text


def test_rare_actions_are_in_the_palette_alone() -> None:
    """Every one without a key is offered by the palette on a screen where it works."""
    without_key = {action.id for action in ACTIONS if not action.default_keys}
    assert {"component.kill", "component.script", "log.pager", "log.follow", "chart.axis", "chart.log",
            "chart.outliers", "sort.reverse", "links", "theme", "panels.arrange"} <= without_key  # fmt: skip
    offered = {use.id for screen in SCREENS for use in offered_on(screen)}
    offered |= {use.id for panes in PANES.values() for pane in panes for use in offered_in(pane)}
    assert without_key <= offered


def test_ids_are_unique_and_no_use_is_told_twice() -> None:
    ids = [action.id for action in ACTIONS]
    assert len(ids) == len(set(ids))
    for action in ACTIONS:
        told = [(place, use.name) for use in action.uses for place in use.places]
        assert len(told) == len(set(told)), action.id


def test_the_table_is_what_the_classes_declare() -> None:
    found = collected([vars(cls)["BINDINGS"] for cls in declaring_classes()])
    assert as_json(found) == TABLE.read_text("utf-8"), "python -m rltui.ui.action_table writes it anew"


def part_of(owner: type, name: str) -> type:
    """The class of an attribute that a screen is composed of, from where it is declared."""
    found = getattr(owner, name, None)
    made = (
        found.fget
        if isinstance(found, property)
        else found.func
        if isinstance(found, cached_property)
        else None
    )
    if made is not None:
        return cast("type", get_type_hints(made)["return"])
    source = inspect.getsource(owner.__init__)  # type: ignore[misc]
    match = re.search(rf"self\.{name} = (\w+)\(", source)
    assert match, f"{owner}: no {name}"
    return cast("type", vars(inspect.getmodule(owner))[match.group(1)])


def test_every_binding_has_a_method_where_it_is_declared() -> None:
    seen = set()
    for owner in declaring_classes():
        for binding in key_bindings(vars(owner)["BINDINGS"]):
            namespace, method, parameters = parse(binding.action)
            wheres: dict[str, type] = {"app": RltuiApp, "screen": HelpScreen, "": owner}
            where = wheres[namespace]
            assert hasattr(where, f"action_{method}"), (owner, binding.id)
            if method == "command":
                part, _, method = str(parameters[0]).partition(".")
                kind = part_of(owner, part)
                for one in get_args(kind) or (kind,):
                    assert callable(getattr(one, method, None)), (owner, binding.id)
            seen.add(binding.context)
    assert seen == {*KeyContext}


def test_a_new_action_comes_last_in_its_scope_and_a_new_use_last_in_its_action() -> None:
    first = own("a", "a", "a", "a", "", Scope.CHARTS)
    other = own("a", "a", "z", "a", "", Scope.CHARTS)
    new = own("b", "b", "b", "b", "", Scope.CHARTS)
    last = own("c", "c", "c", "c", "", Scope.EDITOR)
    old = collected([keys(KeyContext.RUNS, first, last)], ())
    lists = [keys(KeyContext.QUEUE, new, other), keys(KeyContext.RUNS, last, first)]
    found = collected(lists, old)
    assert [action.id for action in found] == ["a", "b", "c"]
    assert [(use.name, use.places) for use in found[0].uses] == [
        ("a", (KeyContext.RUNS,)),
        ("z", (KeyContext.QUEUE,)),
    ]
    with pytest.raises(ValueError, match="declared twice"):
        collected([*lists, keys(KeyContext.RUNS, own("c", "x", "c", "c", "", Scope.EDITOR))])


def test_every_screen_on_top_has_a_key_and_is_there() -> None:
    named = {str(use.call[1][0]) for use in uses() if use.call[0] == "show_screen"}
    assert named == set(ON_TOP)
    for screen in MAIN:
        assert issubclass(screen, BaseScreen)
        assert {use.id for use in uses(screen.place)} >= {"help", "palette", "detach", "back", "screen.runs"}


def test_what_changes_something_does_so_wherever_it_is_called() -> None:
    """`check_action` knows the method alone, not the place."""
    calls = defaultdict(set)
    for use in uses():
        calls[use.call].add(use.changes)
    assert [call for call, changes in calls.items() if len(changes) > 1] == []
    assert {"s", "x", "enter", "W"} <= changing_keys(KeyContext.OVERVIEW).keys() | changing_keys(
        KeyContext.KNOB_TABLE
    ).keys()


def help_text(*, readonly: bool = False) -> str:
    return page([*all_rows(readonly=readonly), *symbol_rows()], (), 10_000).plain


def test_help_is_complete() -> None:
    text = help_text()
    for use in (use for use in uses() if use.help):
        assert use.help in text, use.id
        assert use.shown_keys in text
    for use in filter(on_main, uses()):
        assert use.help, use.id
        assert use.label


def test_help_says_what_readonly_lacks() -> None:
    lines = help_text(readonly=True).splitlines()
    lacking = [line for line in lines if line.endswith("(not while read-only)")]
    for use in (use for use in uses() if use.changes and use.help != NOTE.help):  # some notes change nothing
        assert any(use.help in line for line in lacking), use.id
    assert not any(line.endswith("(not while read-only)") for line in help_text().splitlines())


def test_a_palette_offers_what_its_screen_has() -> None:
    offered = {use.id for use in offered_on(KeyContext.OVERVIEW)}
    assert {"component.start", "component.shell", "edit", "zoom", "write"} <= offered
    assert not {"cursor.down", "palette", "dialog.yes", "chart.smooth"} & offered
    in_log = {use.id for use in offered_in(KeyContext.LOG)}
    assert {"log.wrap", "search", "select"} <= in_log
    assert not {"cursor.down", "back"} & in_log
    assert all(use.palette is not InPalette.WHILE_FOCUSED for use in offered_on(KeyContext.OVERVIEW))
