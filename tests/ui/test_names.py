"""Textual calls methods by their names: none of ours has such a name by accident."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from textual.message import Message
from textual.message_pump import MessagePump

import rltui.ui
from rltui.ui.actions import uses

OVERRIDDEN = {"_on_key", "_on_notify", "_display", "_extend_compose", "_handle_exception"}
"""Private methods of Textual that ours take the place of, on purpose."""
MADE_BY_TEXTUAL = {"_computes", "_css_type_name", "_css_type_names", "_decorated_handlers", "_default_theme",
                   "_inherit_bindings", "_inherit_component_classes", "_inherit_css", "_merged_bindings",
                   "_reactives"}  # fmt: skip


def subclasses(base: type[Any]) -> Iterator[type[Any]]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


def ours() -> list[type[MessagePump]]:
    """All widgets, screens and apps of the package."""
    for module in pkgutil.walk_packages(rltui.ui.__path__, "rltui.ui."):
        importlib.import_module(module.name)
    found = {each for each in subclasses(MessagePump) if each.__module__.startswith("rltui.")}
    assert len(found) > 80
    return sorted(found, key=lambda each: each.__qualname__)


def names(owner: type[MessagePump]) -> Iterator[str]:
    """Of what our own classes among its bases define, mixins too."""
    for base in owner.__mro__:
        if base.__module__.startswith("rltui."):
            yield from (name for name in vars(base) if not name.startswith("__"))


def of_textual(owner: type[MessagePump]) -> set[str]:
    return {name for base in owner.__mro__ if base.__module__.startswith("textual.") for name in vars(base)}


def test_no_method_is_taken_for_the_handler_of_a_key() -> None:
    """`key_at` was called for `@`, and ended the TUI: keys are bound in the table alone."""
    for owner in ours():
        assert [name for name in names(owner) if name.lstrip("_").startswith("key_")] == [], owner


def test_each_handler_has_its_message_and_each_watcher_its_reactive() -> None:
    handlers = {each.handler_name for each in subclasses(Message)} | {"on_event"}
    for owner in ours():
        reactives = owner._reactives  # type: ignore[attr-defined]
        for name in names(owner):
            kind, _, rest = name.lstrip("_").partition("_")
            if kind == "on":
                assert f"on_{rest}" in handlers, f"{owner}: {name} is called for no message"
            if kind in ("watch", "compute", "validate"):
                assert rest in reactives, f"{owner}: {name} is called for no reactive"


def test_each_action_is_in_the_table_or_of_textual() -> None:
    called = {f"action_{use.call[0].rpartition('.')[2]}" for use in uses()}
    for owner in ours():
        for name in names(owner):
            if name.startswith("action_"):
                assert name in called | of_textual(owner), f"{owner}: {name} is no action of the table"


def test_no_private_method_of_textual_is_replaced_unknowingly() -> None:
    for owner in ours():
        replaced = {name for name in names(owner) if name.startswith("_")} & of_textual(owner)
        assert replaced <= OVERRIDDEN | MADE_BY_TEXTUAL, f"{owner}: {replaced}"
