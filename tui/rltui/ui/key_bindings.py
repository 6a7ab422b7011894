"""A class declares its keys as a list of actions, each with the method that it calls there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from textual.binding import Binding, BindingType

from rltui.ui.actions import NO_KEY, Action, Footer, InPalette, KeyContext, Scope


@dataclass(frozen=True)
class KeyBinding(Binding):
    """A binding of Textual's, and what else is to be known of it."""

    of: Action | None = None
    """The action of the binding; it is always set."""
    context: KeyContext | None = None
    """`None` while the binding is in no class's list."""
    footer: Footer = Footer.NO
    palette: InPalette = InPalette.YES
    changes: bool = False
    """Changes the experiment, so a client that may only look has it not."""


def bind(
    action: Action,
    method: str = "",
    help: str = "",  # noqa: A002
    *,
    label: str = "",
    footer: Footer = Footer.NO,
    palette: InPalette = InPalette.YES,
    changes: bool = False,
) -> KeyBinding:
    """`action`, a key of several screens, that calls `method`: without `action_`, with its parameters.

    `config.undo`: a method of an attribute of the screen, by `BaseScreen.action_command`. `help` and `label`
    say what is done on this screen, with the verb of the action; left out, they are the action's. The
    method's name is else the last word of its id.
    """
    return KeyBinding(
        action.default_keys or NO_KEY,
        _call(method) or action.id.rpartition(".")[2].replace("-", "_"),
        label or action.label,
        show=footer is not Footer.NO,
        tooltip=help or action.help,
        id=action.id,
        of=action,
        footer=footer,
        palette=palette if action.palette and action.scope.is_in_palette else InPalette.NO,
        changes=action.changes or changes,
    )


def _call(method: str) -> str:
    """`method` as Textual runs it, which knows no method of an attribute."""
    name, _, parameters = method.partition("(")
    if "." not in name or name.startswith(("app.", "screen.")):
        return method
    return f"command('{name}', {parameters}" if parameters else f"command('{name}')"


def own(
    id: str,  # noqa: A002
    default_keys: str,
    method: str,
    label: str,
    help: str,  # noqa: A002
    scope: Scope,
    *,
    footer: Footer = Footer.NO,
    palette: InPalette = InPalette.YES,
    changes: bool = False,
) -> KeyBinding:
    """A key that one class alone has: an action, as `Action`, and the method that it calls, as for `bind`."""
    action = Action(id, default_keys, label, help, scope, changes=changes)
    return bind(action, method, footer=footer, palette=palette)


def keys(context: KeyContext, *bindings: KeyBinding, priority: bool = False) -> list[BindingType]:
    """The `BINDINGS` of a class in one context. Of two bindings with one id and method the last one counts.

    `priority`: before what the focused widget has on these keys.
    """
    last = {(binding.id, binding.action): binding for binding in bindings}
    return [replace(binding, context=context, priority=priority) for binding in last.values()]


def key_bindings(bindings: Iterable[BindingType]) -> list[KeyBinding]:
    """The entries of a class's `BINDINGS` that say more than one of Textual's own."""
    return [binding for binding in bindings if isinstance(binding, KeyBinding)]
