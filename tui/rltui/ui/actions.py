"""Every action, once: bindings, footer, help and palette are derived from this table.

A new action is a row here and the `action_…` method it names on the screen or widget of its scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from textual.binding import Binding, BindingType


class Scope(StrEnum):
    """Who carries out an action; the value is the heading in the help."""

    GLOBAL = "Everywhere"
    COMPONENTS = "Components"
    KNOBS = "Knobs and config"
    KNOB_TABLE = "In the knob table"
    CONFIG = "On the config screen"
    GPUS = "On the GPU screen"
    EDITOR = "In the knob editor"
    CONVERTER = "In the batch converter"
    DIALOG = "In dialogs"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do."""

    id: str
    """Stable: keymaps name it."""
    keys: str
    """Textual key names, comma-separated; the first one is shown."""
    name: str
    """Method name without `action_`."""
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence for help and palette."""
    scope: Scope
    footer: bool = False
    palette: bool = True
    """May be offered in the palette, when it makes sense."""
    changes: bool = False
    """Changes the experiment, so a client that may only look has it not."""

    @property
    def method(self) -> str:
        """The method's name, without `action_` and parameters."""
        return self.name.partition("(")[0].rpartition(".")[2]


_G, _C, _K = Scope.GLOBAL, Scope.COMPONENTS, Scope.KNOBS
_T, _P, _E, _D = Scope.KNOB_TABLE, Scope.GPUS, Scope.EDITOR, Scope.DIALOG
_S, _B = Scope.CONFIG, Scope.CONVERTER

ACTIONS: tuple[Action, ...] = (
    Action("help", "question_mark", "show_help", "help", "Show all keys and what the symbols mean", _G, True),
    Action("palette", "colon,ctrl+p", "app.command_palette", "command",
           "Find any action by name", _G, True, False),
    Action("component.start", "s", "start_component", "start",
           "Start the selected component, at once where it would start again later", _C, True, changes=True),
    Action("component.stop", "x", "stop_component", "stop",
           "Stop the selected component, plan first", _C, True, changes=True),
    Action(
        "component.restart", "r", "restart_component", "restart",
        "Restart the selected component and what must restart with it, plan first", _C, True, changes=True,
    ),
    Action(
        "component.restart-menu", "R", "restart_menu", "restart…",
        "Choose what to restart: set or all, from checkpoint or from scratch", _C, changes=True,
    ),
    Action("component.fix", "F", "fix_component", "fix memory",
           "After an out-of-memory error: choose an edit that helps, plan first",
           _C, True, changes=True),
    Action("component.kill", "X", "kill_component", "kill",
           "Kill the selected component's whole tree at once", _C, changes=True),
    Action("component.start-all", "S", "start_all", "start all",
           "Start everything, plan first", _C, changes=True),
    Action("component.stop-all", "D", "stop_all", "stop all",
           "Stop everything, plan first", _C, changes=True),
    Action("component.next", "j", "select_next", "next", "Select the next component", _C, False, False),
    Action("component.previous", "k", "select_previous", "previous",
           "Select the previous component", _C, False, False),
    Action("component.inference", "i", "focus_component('inference')", "inference", "Go to inference", _C),
    Action(
        "component.orchestrator", "o", "focus_component('orchestrator')", "orchestrator",
        "Go to orchestrator", _C,
    ),
    Action("component.trainer", "t", "focus_component('trainer')", "trainer", "Go to trainer", _C),
    Action("component.attach", "a", "attach_component", "attach",
           "Attach to the raw terminal of the component", _C),
    Action("knob.edit", "e", "edit_knob", "edit", "Edit the knob under the cursor", _K, True, changes=True),
    Action(
        "knob.apply", "A", "apply_knobs", "apply",
        "Write what was collected and restart what reads the changed knobs, so that they count",
        _K, True, changes=True,
    ),
    Action("knob.undo", "u", "undo_edit", "undo", "Take the last edit of the config back, plan first",
           _K, True, changes=True),
    Action("knob.redo", "U,ctrl+y", "redo_edit", "redo", "Make the edit again that was taken back",
           _K, changes=True),
    Action("knob.roll-back", "B", "roll_back", "roll back",
           "Take back the edit that a component did not survive, and restart", _K, True, changes=True),
    Action("knob.editor", "dollar_sign", "edit_outside", "editor",
           "Edit a config file in $VISUAL or $EDITOR; what comes back is checked first", _K, changes=True),
    Action("knob.focus", "c", "focus_knobs", "knobs", "Go to the knobs", _K),
    Action("orphan.free", "K", "free_orphans", "leftovers",
           "End processes that outlived their component: names them, and asks", _G, True, changes=True),
    Action("screen.gpus", "3,d", "show_gpus", "GPUs",
           "Open the GPU screen: figures, processes, memory over time", _G),
    Action("screen.config", "6", "show_config", "config",
           "Open the config screen: every key with its meaning, default and running value", _G),
    Action("screen.overview", "1", "show_overview", "overview", "Go to the overview, all panes", _G),
    Action("pane.next", "tab", "focus_next_pane", "next pane", "Go to the next pane", _G, False, False),
    Action("pane.previous", "shift+tab", "focus_previous_pane", "previous pane",
           "Go to the previous pane", _G,
           False, False),
    Action("pane.zoom", "z", "zoom", "zoom", "Give the pane the whole screen, and back", _G, True),
    Action("pane.back", "escape", "back", "back", "Back from zoom to all panes", _G, False, False),
    Action("alert.last", "exclamation_mark", "last_alert", "alert", "Show the newest alert again", _G),
    Action("theme", "ctrl+t", "app.change_theme", "theme", "Change the colours", _G),
    Action("detach", "q", "app.detach", "detach", "Leave; everything keeps running", _G, True),
    Action("interrupt", "ctrl+c", "app.explain_interrupt", "interrupt",
           "Stops nothing: says how to leave", _G,
           False, False),
    Action("knob-table.down", "down,j", "cursor(1)", "down", "Next knob", _T, False, False),
    Action("knob-table.up", "up,k", "cursor(-1)", "up", "Previous knob", _T, False, False),
    Action("knob-table.page-down", "pagedown,ctrl+d", "page(1)", "page down",
           "A page down", _T, False, False),
    Action("knob-table.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _T, False, False),
    Action("knob-table.first", "home,g", "cursor_to_end(False)", "first", "First knob", _T, False, False),
    Action("knob-table.last", "end,G", "cursor_to_end(True)", "last", "Last knob", _T, False, False),
    Action("knob-table.edit", "enter", "edit", "edit",
           "Edit the knob under the cursor", _T, False, False, changes=True),
    Action("config-screen.search", "slash", "search", "search",
           "Search keys, meanings and values, also of keys outside the knob table", _S, True),
    Action("config-screen.changed", "o", "toggle_changed", "only changed",
           "Only what is changed, collected or wrong, and all again", _S, True),
    Action("config-screen.problems", "p", "switch_list", "problems",
           "To the problems, where enter jumps to the knob, and back", _S, True),
    Action("config-screen.back", "escape,1", "show_overview", "overview",
           "End the search; back to the overview", _S, True, False),
    Action("knob-table.review", "w", "screen.review_edits", "write",
           "Review the collected edits as one diff, and write them", _T, True, changes=True),
    Action("knob-table.drop", "backspace,delete", "screen.drop_edit", "drop",
           "Forget the collected edit under the cursor", _T, True, changes=True),
    Action("knob-table.pending", "d", "screen.show_pending", "differs",
           "Show where the files and what runs differ", _T, True),
    Action("knob-table.convert", "c", "screen.convert_batch", "convert",
           "Count the batch in tokens instead of rollouts, or back", _T, True, changes=True),
    Action("gpu-screen.free", "K", "free_process", "end",
           "End the process under the cursor, if it is nobody else's: names it, and asks",
           _P, True, changes=True),
    Action("gpu-screen.range", "h", "cycle_range", "range",
           "Memory of the last ten minutes, or all that is known", _P, True),
    Action("gpu-screen.back", "escape,1,d", "show_overview", "overview",
           "Back to the overview", _P, True, False),
    Action("gpu-screen.down", "down,j", "cursor(1)", "down", "Next device or process", _P, False, False),
    Action("gpu-screen.up", "up,k", "cursor(-1)", "up", "Previous device or process", _P, False, False),
    Action("editor.write", "enter", "write", "write", "Write the file, restart nothing", _E, True, False),
    Action(
        "editor.write-restart", "ctrl+r", "write_and_restart", "write + restart",
        "Write the file and restart what reads the knob", _E, True, False,
    ),
    Action("editor.collect", "ctrl+n", "collect", "collect",
           "Write nothing yet: collect it, to be written with others", _E, True, False),
    Action("editor.unset", "ctrl+x", "unset", "default",
           "Take the key out of the file, so that the default counts", _E, True, False),
    Action("editor.cancel", "escape", "cancel", "cancel", "Leave the file as it is", _E, True, False),
    Action("editor.more", "up", "step(1)", "more", "One step up, or the choice before", _E, False, False),
    Action("editor.less", "down", "step(-1)", "less", "One step down, or the next choice", _E, False, False),
    Action("editor.double", "asterisk", "scale(2)", "×2", "Twice the number", _E, False, False),
    Action("editor.halve", "slash", "scale(0.5)", "÷2", "Half the number", _E, False, False),
    Action("converter.cancel", "escape", "cancel", "cancel", "Leave the files as they are", _B, True, False),
    Action("review.restart", "ctrl+r", "restart", "write + restart",
           "In a review: write, and restart what reads it", _D, True, False),
    Action("dialog.yes", "y", "yes", "yes", "Do it", _D, True, False),
    Action("dialog.no", "escape,n", "no", "no", "Leave things as they are", _D, True, False),
    Action("dialog.scroll-down", "down,pagedown", "scroll_lines(4)", "down", "Scroll down", _D, False, False),
    Action("dialog.scroll-up", "up,pageup", "scroll_lines(-4)", "up", "Scroll up", _D, False, False),
    Action("dialog.other", "left,right", "other", "other",
           "The other button; enter presses it", _D, False, False),
)  # fmt: skip

FOOTER_RANKS = {action.id: rank for rank, action in enumerate(ACTIONS) if action.footer}


def _binding(action: Action) -> Binding:
    return Binding(
        action.keys, action.name, action.label, show=action.footer, tooltip=action.help, id=action.id
    )


def bindings(*scopes: Scope) -> list[BindingType]:
    """Textual bindings of the actions of these scopes."""
    return [_binding(action) for action in ACTIONS if action.scope in scopes]


def bindings_of(*ids: str) -> list[BindingType]:
    """Textual bindings of single actions."""
    return [_binding(action) for action in ACTIONS if action.id in ids]


SHARED = ("help", "palette", "theme", "detach", "interrupt")
"""Ids of the overview's actions that work on the screens on top of it too."""


def on_top(*scopes: Scope, but: str = "") -> tuple[Action, ...]:
    """What a screen on top of the overview has: the actions of these scopes without `but`, and `SHARED`."""
    return tuple(
        action for action in ACTIONS if (action.scope in scopes and action.id != but) or action.id in SHARED
    )


def not_among(here: Iterable[Action]) -> frozenset[str]:
    """Names of the methods of all other actions, which the palette must not offer there."""
    return frozenset(action.method for action in ACTIONS) - {action.method for action in here}


CHANGING_ACTIONS = frozenset(action.method for action in ACTIONS if action.changes)
"""Names of the methods that a client which may only look must not run."""


def changing_keys(*scopes: Scope) -> dict[str, Action]:
    """What each key of these scopes would change."""
    return {
        key: action
        for action in ACTIONS
        if action.changes and action.scope in scopes
        for key in action.keys.split(",")
    }


CHANGING_KEYS = changing_keys(_C, _K, _G)
"""What each key of the overview would change."""


def in_scope(scope: Scope) -> tuple[Action, ...]:
    """The actions of one scope, in the order of the table."""
    return tuple(action for action in ACTIONS if action.scope is scope)


_KEY_NAMES = {
    "question_mark": "?", "colon": ":", "exclamation_mark": "!", "escape": "esc", "asterisk": "*",
    "slash": "/",
    "pagedown": "pgdn", "pageup": "pgup", "left_square_bracket": "[", "right_square_bracket": "]",
    "ampersand": "&", "up": "↑", "down": "↓", "left": "←", "right": "→", "dollar_sign": "$",
    "backspace": "⌫", "delete": "del",
}  # fmt: skip


def key_text(keys: str) -> str:
    """Keys as a person reads them: `?`, `j / ↓`."""
    return " / ".join(_KEY_NAMES.get(key.strip(), key.strip()) for key in keys.split(","))
