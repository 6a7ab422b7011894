"""Collects the table of all actions from the classes that declare them: `python -m rltui.ui.action_table`."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module

from textual.binding import BindingType
from textual.dom import DOMNode

import rltui.ui
from rltui.ui.actions import ACTIONS, TABLE, Action, Footer, InPalette, KeyContext, Scope, Use
from rltui.ui.key_bindings import KeyBinding, key_bindings


def declaring_classes() -> list[type[DOMNode]]:
    """All classes of the UI with keys of their own; imports every module of it."""
    for module in pkgutil.walk_packages(rltui.ui.__path__, "rltui.ui."):
        import_module(module.name)
    classes: list[type[DOMNode]] = []
    stack: list[type[DOMNode]] = [DOMNode]
    while stack:
        for cls in stack.pop().__subclasses__():
            stack.append(cls)
            if cls.__module__.startswith("rltui.") and "BINDINGS" in vars(cls) and cls not in classes:
                classes.append(cls)
    return sorted(classes, key=lambda cls: (cls.__module__, cls.__qualname__))


def collected(
    lists: Iterable[Sequence[BindingType]], order: Sequence[Action] = ACTIONS
) -> tuple[Action, ...]:
    """One action for each id in the `BINDINGS` of classes, with its uses.

    What `order` has already stays where it is there; a new use comes last in its action, a new action last in
    its scope.

    Raises:
        ValueError: if two classes declare one id in different words.
    """
    actions: dict[str, Action] = {}
    places: dict[Use, list[KeyContext]] = {}
    for binding in (binding for bindings in lists for binding in key_bindings(bindings)):
        action = binding.of
        assert action is not None
        assert binding.context is not None
        if actions.setdefault(action.id, action) != action:
            raise ValueError(f"{action.id} is declared twice: {action} and {actions[action.id]}")
        contexts = places.setdefault(_use(binding), [])
        if binding.context not in contexts:
            contexts.append(binding.context)
    uses: dict[str, list[Use]] = {id_: [] for id_ in actions}
    for use, contexts in places.items():
        uses[use.id].append(replace(use, places=tuple(contexts)))
    old_table = {action.id: action for action in order}
    merged = [
        replace(action, uses=_in_order(uses[id_], old_table.get(id_))) for id_, action in actions.items()
    ]
    scopes, old_ids = list(Scope), list(old_table)
    last = {action.scope: position for position, action in enumerate(order)}
    return tuple(
        sorted(
            merged,
            key=lambda action: (
                old_ids.index(action.id)
                if action.id in old_ids
                else last.get(action.scope, len(old_ids)) + 0.5 + scopes.index(action.scope) / 1000
            ),
        )
    )


def _use(binding: KeyBinding) -> Use:
    return Use(
        binding.id or "",
        (),
        binding.action,
        binding.description,
        binding.tooltip,
        footer=binding.footer,
        palette=binding.palette,
        changes=binding.changes,
    )


def _in_order(uses: Sequence[Use], old_action: Action | None) -> tuple[Use, ...]:
    """The uses of one action, and the places of each, in the order in which `old_action` has the places."""
    old_contexts = (
        [] if old_action is None else [context for use in old_action.uses for context in use.places]
    )
    ranks = {
        context: old_contexts.index(context) if context in old_contexts else len(old_contexts)
        for context in KeyContext
    }
    ordered = [replace(use, places=tuple(sorted(use.places, key=ranks.__getitem__))) for use in uses]
    return tuple(sorted(ordered, key=lambda use: ranks[use.places[0]]))


def as_json(actions: Sequence[Action]) -> str:
    return "[\n" + ",\n".join(map(_action_json, actions)) + "\n]\n"


def _action_json(action: Action) -> str:
    record = {
        "id": action.id,
        "default_keys": action.default_keys,
        "label": action.label,
        "help": action.help,
        "scope": action.scope.name,
        **({} if action.palette else {"palette": False}),
        **({"changes": True} if action.changes else {}),
    }
    uses = ",\n".join(f"    {_dumped(_use_record(action, use))}" for use in action.uses)
    return f'  {_dumped(record)[:-1]}, "uses": [\n{uses}\n  ]}}'


def _use_record(action: Action, use: Use) -> dict[str, object]:
    """The record leaves out what the use has in common with its action, and defaults."""
    return {
        "places": [context.name for context in use.places],
        "name": use.name,
        **({"label": use.label} if use.label != action.label else {}),
        **({"help": use.help} if use.help != action.help else {}),
        **({"footer": use.footer.name} if use.footer is not Footer.NO else {}),
        **({"palette": use.palette.name} if use.palette is not InPalette.YES else {}),
        **({"changes": True} if use.changes else {}),
    }


def _dumped(record: dict[str, object]) -> str:
    return json.dumps(record, ensure_ascii=False)


def main() -> None:
    lists = [vars(cls)["BINDINGS"] for cls in declaring_classes()]
    TABLE.write_text(as_json(collected(lists)), "utf-8")


if __name__ == "__main__":
    main()
