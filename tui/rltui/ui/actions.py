"""The type of an action, the table of all of them, and the keys that a person has chosen.

Each class declares its keys beside the methods that they call (`rltui.ui.key_bindings`); what several screens
have is in `rltui.ui.verbs`. The table, `actions.json`, is collected from these classes, so that `rltui keys`,
the help and a keymap need not import every screen: `python -m rltui.ui.action_table` writes it anew, and a
test says when that is due. One key is one verb on all main screens, told by one sentence; the screen and the
focus decide only the object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

from textual.actions import parse

from rltui.ui.key_names import key_text


class Scope(StrEnum):
    """The subject of an action; the value is the heading in the help."""

    GLOBAL = "Everywhere"
    SCREENS = "Screens"
    MOVING = "Moving"
    LOOKING = "View"
    PICKING = "Under the cursor"
    COMPONENTS = "Components"
    KNOBS = "Knobs and config"
    LOGS = "Logs"
    CHARTS = "Charts"
    EDITOR = "In the knob editor"
    ARRANGE = "While arranging panels"
    COLUMNS = "In the dialog for columns"
    DIALOG = "In dialogs"

    @property
    def is_of_screens(self) -> bool:
        """True if its keys work on the main screens, not in a dialog."""
        return self not in (Scope.EDITOR, Scope.ARRANGE, Scope.COLUMNS, Scope.DIALOG)

    @property
    def is_in_palette(self) -> bool:
        return self.is_of_screens and self is not Scope.MOVING


class KeyContext(Enum):
    OVERVIEW = "overview"
    KNOB_TABLE = "knob table"
    LOG = "log pane"
    CONFIG = "config screen"
    GPUS = "GPU screen"
    CHECKPOINTS = "checkpoint screen"
    EVALS = "evaluation screen"
    METRICS = "metrics screen"
    EVENTS = "events screen"
    LOGS = "log screen"
    NOTE = "field for a note"
    PROPOSAL = "proposal of an agent"
    SEARCH = "search line"
    EVALUATE = "dialog for an evaluation"
    FORK = "dialog for a fork"
    ROLLOUTS = "rollout screen"
    RUNS = "runs screen"
    COLUMNS = "dialog for columns"
    ARRANGE = "line for arranging panels"
    QUEUE = "queue screen"
    BENCH = "bench screen"
    COMPARE = "comparison screen"
    BOX = "every dialog"
    DIALOG = "dialog with buttons"
    CHOICES = "line above a list of choices"
    REVIEW = "review of edits"
    HELP = "help"
    HELP_LINE = "line of the help"
    MESSAGES = "list of messages"
    DESCRIPTION = "description"
    PALETTE = "palette"
    TOUR = "tour"
    CONVERTER = "batch converter"
    EDITOR = "knob editor"
    FIELD = "every field of the knob editor"
    NUMBER = "field for a number"
    FRACTION = "field for a share of a GPU's memory"
    CHOICE = "field for a bool or an enum"
    LIST = "field for a list"

    @property
    def screen(self) -> KeyContext:
        """The screen that it lies on first, whose palette offers its actions."""
        return KeyContext.OVERVIEW if self in (KeyContext.KNOB_TABLE, KeyContext.LOG) else self


class Footer(Enum):
    """Whether the footer shows a key; where it is too narrow, the lowest values give way first."""

    NO = 0
    FIRST_TO_GO = 1
    YES = 2
    LAST_TO_GO = 3


class InPalette(Enum):
    """When the palette offers an action, if it makes sense then."""

    NO = "no"
    WHILE_FOCUSED = "focus"
    """The palette also offers it while its pane has the focus."""
    YES = "yes"
    """The palette offers it on all of its screens."""


class _Keyed:
    __slots__ = ()
    id: str
    label: str

    @property
    def keys(self) -> str:
        """Textual key names, comma-separated, as they are mapped now."""
        return keys_of(self.id)

    @property
    def shown_keys(self) -> str:
        """The keys as a person reads them; `:shell` where only the palette has it."""
        return key_text(self.keys) if self.keys else f":{self.label}"


@dataclass(frozen=True, slots=True)
class Use(_Keyed):
    id: str
    """Id of its action; the same for all its uses."""
    places: tuple[KeyContext, ...]
    name: str
    """Method without `action_`, with its parameters if it has any."""
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence for help and palette of that place, with the verb of the action."""
    footer: Footer = Footer.NO
    palette: InPalette = InPalette.YES
    changes: bool = False
    """Changes the experiment, so a client that may only look has it not."""

    @property
    def call(self) -> tuple[str, tuple[object, ...]]:
        """Method, without `action_`, and parameters, as `check_action` takes them."""
        _, method, parameters = parse(self.name)
        return method, parameters

    @property
    def command(self) -> tuple[str, tuple[object, ...]]:
        """`call` with an owner before the method, where another object than the screen has it:
        `config.undo`.
        """
        method, parameters = self.call
        return (str(parameters[0]), parameters[1:]) if method == "command" else (method, parameters)


@dataclass(frozen=True, slots=True)
class Action(_Keyed):
    id: str
    """Stable and kebab-case: keymaps name it."""
    default_keys: str
    """Textual key names, comma-separated; the first one is shown. Empty: by the palette alone."""
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence that is true wherever the key works; empty where the field or dialog itself says it."""
    scope: Scope
    palette: bool = True
    changes: bool = False
    """Changes the experiment wherever it works."""
    uses: tuple[Use, ...] = ()
    """Filled in the table; empty where the action is declared."""

    @property
    def meanings(self) -> tuple[Use, ...]:
        """The uses, as one where they do the same in several places, be it by another part of the screen."""
        merged: dict[Use, tuple[KeyContext, ...]] = {}
        for use in self.uses:
            method, parameters = use.command
            plain = replace(use, places=(), name=f"{method.rpartition('.')[2]}{parameters}")
            merged[plain] = (*merged.get(plain, ()), *use.places)
        return tuple(replace(use, places=places) for use, places in merged.items())


SCREENS = (
    KeyContext.OVERVIEW,
    KeyContext.LOGS,
    KeyContext.CONFIG,
    KeyContext.GPUS,
    KeyContext.METRICS,
    KeyContext.EVENTS,
    KeyContext.CHECKPOINTS,
    KeyContext.EVALS,
    KeyContext.ROLLOUTS,
    KeyContext.RUNS,
    KeyContext.QUEUE,
    KeyContext.BENCH,
    KeyContext.COMPARE,
)
"""The main screens, which the number keys go to and work on."""
PANES: Mapping[KeyContext, tuple[KeyContext, ...]] = {
    KeyContext.OVERVIEW: (KeyContext.LOG, KeyContext.KNOB_TABLE),
    KeyContext.LOGS: (KeyContext.LOG,),
}
"""The panes and widgets with keys of their own, by their main screen."""
TABLE = Path(__file__).with_name("actions.json")


def _read_table() -> tuple[Action, ...]:
    return tuple(map(_action, json.loads(TABLE.read_text("utf-8"))))


def _action(record: Mapping[str, Any]) -> Action:
    uses = tuple(_use(record, use) for use in record["uses"])
    return Action(**{**record, "scope": Scope[record["scope"]], "uses": uses})


def _use(action: Mapping[str, Any], record: Mapping[str, Any]) -> Use:
    return Use(
        action["id"],
        tuple(KeyContext[name] for name in record["places"]),
        record["name"],
        record.get("label", action["label"]),
        record.get("help", action["help"]),
        footer=Footer[record.get("footer", "NO")],
        palette=InPalette[record.get("palette", "YES")],
        changes=record.get("changes", False),
    )


ACTIONS = _read_table()
"""All actions, in the order of the help."""

_remapped: dict[str, str] = {}
"""Keys that a person has chosen, by the ids of the actions; empty takes them away."""
_DEFAULT_KEYS = {action.id: action.default_keys for action in ACTIONS}
ACTION_IDS = _DEFAULT_KEYS.keys()
NO_KEY = "none"
"""Stands for no key, which Textual's bindings and keymaps cannot say: no key has that name."""


def remap(keys: Mapping[str, str]) -> None:
    """The new keys hold for the whole process; actions that are not named get the keys of the table."""
    _remapped.clear()
    _remapped.update(keys)


def keys_of(action_id: str) -> str:
    """Textual key names, comma-separated, as they are mapped now; empty: by the palette alone."""
    return _remapped.get(action_id, _DEFAULT_KEYS[action_id])


class _Keys(dict[str, str]):
    """First keys by ids of actions, written with underscores."""

    def __missing__(self, name: str) -> str:
        return key_of(name.replace("_", "."))


def with_keys(text: str) -> str:
    """`text`, in which `{pane_next}` stands for the first key of the action `pane.next`."""
    return text.format_map(_Keys())


def label_of(action_id: str) -> str:
    return next(action.label for action in ACTIONS if action.id == action_id)


def key_of(action_id: str) -> str:
    """The first key of an action, for a hint: `s`, `ctrl+k`; where it has none, its name for the palette."""
    first = keys_of(action_id).partition(",")[0]
    return key_text(first) if first else f":{action_id}"


def uses(context: KeyContext | None = None) -> Iterator[Use]:
    """All uses in the table's order, or those in one place."""
    for action in ACTIONS:
        yield from (use for use in action.uses if context is None or context in use.places)


def offered_on(screen: KeyContext) -> tuple[Use, ...]:
    return tuple(
        use
        for use in uses()
        if use.palette is InPalette.YES and any(context.screen is screen for context in use.places)
    )


def offered_in(pane: KeyContext) -> tuple[Use, ...]:
    return tuple(use for use in uses(pane) if use.palette is InPalette.WHILE_FOCUSED)


CHANGING_CALLS = frozenset(use.call for use in uses() if use.changes)
"""Methods and parameters that a client which may only look must not run."""


def changing_keys(context: KeyContext) -> Mapping[str, Sequence[tuple[str, tuple[object, ...]]]]:
    """The keys that would change the experiment there, with what they call."""
    calls: dict[str, list[tuple[str, tuple[object, ...]]]] = {}
    for use in uses(context):
        if use.changes and use.keys:
            for key in use.keys.split(","):
                calls.setdefault(key, []).append(use.call)
    return calls
