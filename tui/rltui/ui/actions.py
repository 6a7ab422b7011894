"""Every key, once: bindings, footer, help and palette are derived from this table.

A new action is a row here and the `action_…` method it names on the screen or widget of its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

from textual.actions import parse
from textual.binding import Binding, BindingType


class Scope(StrEnum):
    """What an action is about; the value is the heading in the help."""

    GLOBAL = "Everywhere"
    COMPONENTS = "Components"
    KNOBS = "Knobs and config"
    LOGS = "Logs"
    KNOB_TABLE = "In the knob table"
    CONFIG = "On the config screen"
    GPUS = "On the GPU screen"
    CHECKPOINTS = "On the checkpoint screen"
    EVALS = "On the evaluation screen"
    METRICS = "On the metrics screen"
    EVENTS = "On the events screen"
    LOG_SCREEN = "On the log screen"
    ROLLOUTS = "On the rollout screen"
    RUNS = "On the runs screen"
    COLUMNS = "Columns of the runs screen"
    QUEUE = "On the queue screen"
    COMPARE = "On the comparison screen"
    EDITOR = "In the knob editor"
    CONVERTER = "In the batch converter"
    DIALOG = "In dialogs"


class Place(Enum):
    """Which screen or widget has a key."""

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
    NOTE = "field for a note or a search"
    EVALUATE = "dialog for an evaluation"
    FORK = "dialog for a fork"
    ROLLOUTS = "rollout screen"
    RUNS = "runs screen"
    COLUMNS = "dialog for columns"
    QUEUE = "queue screen"
    COMPARE = "comparison screen"
    BOX = "every dialog"
    DIALOG = "dialog with buttons"
    REVIEW = "review of edits"
    HELP = "help"
    MESSAGES = "messages"
    CONVERTER = "batch converter"
    EDITOR = "knob editor"
    FIELD = "every field of the knob editor"
    NUMBER = "field for a number"
    FRACTION = "field for a share of a GPU's memory"
    CHOICE = "field for a bool or an enum"
    LIST = "field for a list"

    @property
    def screen(self) -> Place:
        """The screen that it lies on, whose palette offers its actions."""
        return Place.OVERVIEW if self in (Place.KNOB_TABLE, Place.LOG) else self


class Footer(Enum):
    """Whether the footer shows a key, and what gives way where it is too narrow."""

    NO = 0
    FIRST_TO_GO = 1
    YES = 2
    LAST_TO_GO = 3


_SCREENS = (
    Place.OVERVIEW,
    Place.LOGS,
    Place.CONFIG,
    Place.GPUS,
    Place.METRICS,
    Place.EVENTS,
    Place.CHECKPOINTS,
    Place.EVALS,
    Place.ROLLOUTS,
    Place.RUNS,
    Place.QUEUE,
    Place.COMPARE,
)
"""The main screens, which the number keys go to and work on."""
_OF_ONE = tuple(place for place in _SCREENS if place not in (Place.RUNS, Place.QUEUE, Place.COMPARE))
"""Those that show the experiment that is open."""
_PLACES = {
    Scope.GLOBAL: (Place.OVERVIEW,),
    Scope.COMPONENTS: (Place.OVERVIEW,),
    Scope.KNOBS: (Place.OVERVIEW, Place.CONFIG),
    Scope.LOGS: (Place.LOG,),
    Scope.KNOB_TABLE: (Place.KNOB_TABLE, Place.CONFIG),
    Scope.CONFIG: (Place.CONFIG,),
    Scope.GPUS: (Place.GPUS,),
    Scope.CHECKPOINTS: (Place.CHECKPOINTS,),
    Scope.EVALS: (Place.EVALS,),
    Scope.METRICS: (Place.METRICS,),
    Scope.EVENTS: (Place.EVENTS,),
    Scope.LOG_SCREEN: (Place.LOGS,),
    Scope.ROLLOUTS: (Place.ROLLOUTS,),
    Scope.RUNS: (Place.RUNS,),
    Scope.COLUMNS: (Place.COLUMNS,),
    Scope.QUEUE: (Place.QUEUE,),
    Scope.COMPARE: (Place.COMPARE,),
    Scope.EDITOR: (Place.FIELD,),
    Scope.CONVERTER: (Place.CONVERTER,),
    Scope.DIALOG: (Place.DIALOG,),
}
"""Where the keys of a scope work, unless a row says otherwise."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do."""

    id: str
    """Stable: keymaps name it."""
    keys: str
    """Textual key names, comma-separated; the first one is shown. Empty: by the palette alone."""
    name: str
    """Method without `action_`, with its parameters if it has any."""
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence for help and palette; empty where the field or dialog itself says what the key does."""
    scope: Scope
    footer: Footer = Footer.NO
    palette: bool = True
    """The palette of its screens offers it, when it makes sense."""
    changes: bool = False
    """Changes the experiment, so a client that may only look has it not."""
    only_in: tuple[Place, ...] = ()
    """Where it works, if that is not where its scope does."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Where the key works."""
        return self.only_in or _PLACES[self.scope]

    @property
    def shown_keys(self) -> str:
        """As a person reads them; `:shell` where only the palette has it."""
        return key_text(self.keys) if self.keys else f":{self.label}"

    @property
    def call(self) -> tuple[str, tuple[object, ...]]:
        """Method, without `action_`, and parameters, as `check_action` takes them."""
        _, method, parameters = parse(self.name)
        return method, parameters


_G, _C, _K, _L = Scope.GLOBAL, Scope.COMPONENTS, Scope.KNOBS, Scope.LOGS
_T, _P, _E, _D = Scope.KNOB_TABLE, Scope.GPUS, Scope.EDITOR, Scope.DIALOG
_R = Scope.CHECKPOINTS
_S, _B, _M, _V = Scope.CONFIG, Scope.CONVERTER, Scope.METRICS, Scope.EVENTS
_W, _A, _Q = Scope.ROLLOUTS, Scope.EVALS, Scope.QUEUE
_N, _O = Scope.RUNS, Scope.COLUMNS
_YES, _NO, _KEPT, _SPARE = Footer.YES, Footer.NO, Footer.LAST_TO_GO, Footer.FIRST_TO_GO
_STEPPED = (Place.NUMBER, Place.CHOICE, Place.LIST)
_LIST = (Place.LIST,)
_ASKING = (Place.EVALUATE, Place.FORK)

ACTIONS: tuple[Action, ...] = (
    Action("help", "question_mark", "show_help", "help", "Show all keys and what the symbols mean",
           _G, _KEPT, only_in=_SCREENS),
    Action("palette", "colon,ctrl+p", "app.command_palette", "command", "Find any action by name",
           _G, _KEPT, palette=False, only_in=_SCREENS),
    Action("fork", "Y", "fork", "fork",
           "Start another run with the config of this one, changed, or from a checkpoint",
           _G, changes=True, only_in=(Place.OVERVIEW,)),
    Action("component.start", "s", "request('start')", "start",
           "Start the selected component, at once where it would start again later", _C, _YES, changes=True),
    Action("component.stop", "x", "request('stop')", "stop",
           "Stop the selected component, plan first", _C, _YES, changes=True),
    Action("component.restart", "r", "request('restart')", "restart",
           "Restart the selected component and what must restart with it, plan first",
           _C, _YES, changes=True),
    Action("component.restart-menu", "R", "restart_menu", "restart…",
           "Choose what to restart: set or all, from checkpoint or from scratch", _C, changes=True),
    Action("component.fix", "F", "fix_memory", "fix memory",
           "After an out-of-memory error: choose an edit that helps, plan first", _C, _YES, changes=True),
    Action("component.kill", "X", "request('kill')", "kill",
           "Kill the selected component's whole tree at once", _C, changes=True),
    Action("component.start-all", "S", "request('start-all')", "start all",
           "Start everything, plan first", _C, changes=True),
    Action("component.stop-all", "D", "request('stop-all')", "stop all",
           "Stop everything, plan first", _C, changes=True),
    Action("component.next", "j", "select_beside(1)", "next", "Select the next component", _C, palette=False),
    Action("component.previous", "k", "select_beside(-1)", "previous",
           "Select the previous component", _C, palette=False),
    Action("component.inference", "i", "focus_component('inference')", "inference", "Go to inference", _C),
    Action("component.orchestrator", "o", "focus_component('orchestrator')", "orchestrator",
           "Go to orchestrator", _C),
    Action("component.trainer", "t", "focus_component('trainer')", "trainer", "Go to trainer", _C),
    Action("component.full-log", "L", "show_full_log", "full log",
           "Open the log of the selected component in full width", _C),
    Action("component.attach", "a", "attach_component", "attach",
           "Attach to the raw terminal of the component", _C),
    Action("component.shell", "", "open_shell", "shell",
           "Open a shell with the folder, variables and devices of the selected component", _C, changes=True),
    Action("knob.edit", "e", "edit_knob", "edit", "Edit the knob under the cursor", _K, _YES, changes=True),
    Action("knob.apply", "A", "apply_knobs", "apply",
           "Write what was collected and restart what reads the changed knobs, so that they count",
           _K, _YES, changes=True),
    Action("knob.undo", "u", "undo_edit", "undo", "Take the last edit of the config back, plan first",
           _K, _YES, changes=True),
    Action("knob.redo", "U,ctrl+y", "redo_edit", "redo", "Make the edit again that was taken back",
           _K, changes=True),
    Action("knob.roll-back", "B", "roll_back", "roll back",
           "Take back the edit that a component or the run did not survive, and restart: after a collapse "
           "from the last good checkpoint", _K, _YES, changes=True),
    Action("knob.editor", "dollar_sign", "edit_outside", "editor",
           "Edit a config file in $VISUAL or $EDITOR; what comes back is checked first", _K, changes=True),
    Action("knob.focus", "c", "focus_knobs", "knobs", "Go to the knobs", _K, only_in=(Place.OVERVIEW,)),
    Action("orphan.free", "K", "free_orphans", "leftovers",
           "End processes that outlived their component: names them, and asks", _G, _YES, changes=True),
    Action("screen.checkpoints", "9,C", "show_screen('checkpoints')", "checkpoints",
           "Open the checkpoint screen: what the run can go back to, and what may go", _G, only_in=_SCREENS),
    Action("screen.overview", "1", "show_overview", "overview", "Go to the overview, all panes",
           _G, only_in=_SCREENS),
    Action("screen.logs", "2", "show_screen('logs')", "logs",
           "Open the log screen: all components merged by time, or one in full width", _G, only_in=_SCREENS),
    Action("logs.search-all", "ctrl+f", "search_all", "search all",
           "Search the logs of all components and attempts", _G, only_in=_OF_ONE),
    Action("screen.gpus", "3", "show_screen('gpus')", "GPUs",
           "Open the GPU screen: figures, processes, memory over time", _G, only_in=_SCREENS),
    Action("screen.metrics", "4", "show_screen('metrics')", "metrics",
           "Open the metrics screen: charts of the whole run", _G, only_in=_SCREENS),
    Action("screen.rollouts", "5", "show_screen('rollouts')", "rollouts",
           "Open the rollout screen: what the model wrote at each step, and its rewards",
           _G, only_in=_SCREENS),
    Action("screen.config", "6", "show_screen('config')", "config",
           "Open the config screen: every key with its meaning, default and running value",
           _G, only_in=_SCREENS),
    Action("screen.runs", "7", "show_screen('runs')", "runs",
           "Open the runs screen: all runs there are, to look at another one", _G, only_in=_SCREENS),
    Action("screen.events", "8", "show_screen('events')", "events",
           "Open the events screen: starts, crashes, edits with their diffs, alerts, notes", _G,
           only_in=_SCREENS),
    Action("screen.evals", "V", "show_screen('evals')", "evaluations",
           "Open the evaluation screen: base, SFT, checkpoints, runs; v evaluates", _G,
           only_in=_SCREENS),
    Action("note", "number_sign", "note", "note",
           "Note something: kept with the events, a mark on the charts", _G,
           only_in=tuple(place for place in _OF_ONE if place is not Place.EVENTS)),
    Action("links", "O", "open_links", "links",
           "Open or copy the address of a page about the run: W&B, a dashboard", _G, _SPARE,
           only_in=_OF_ONE),
    Action("gpu.detail", "d", "show_screen('gpus')", "GPUs", "The GPU screen, and back", _G, palette=False),
    Action("pane.next", "tab", "focus_beside(1)", "next pane", "Go to the next pane", _G, palette=False),
    Action("pane.previous", "shift+tab", "focus_beside(-1)", "previous pane",
           "Go to the previous pane", _G, palette=False),
    Action("pane.zoom", "z", "zoom", "zoom", "Give the pane the whole screen, and back", _G, _YES),
    Action("pane.back", "escape", "show_overview", "back", "Back from zoom to all panes", _G, palette=False),
    Action("messages", "exclamation_mark", "show_messages", "messages",
           "Read again all that was said: alerts, errors, what was done", _G, only_in=_SCREENS),
    Action("messages.read", "enter", "read", "read", "The message in full", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("messages.copy", "y", "copy", "copy", "Copy the message", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("messages.close", "escape,exclamation_mark,q", "no", "close", "", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("messages.down", "down,j", "cursor(1)", "down", "", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("messages.up", "up,k", "cursor(-1)", "up", "", _D, palette=False, only_in=(Place.MESSAGES,)),
    Action("messages.page-down", "pagedown,ctrl+d", "page(1)", "page down", "", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("messages.page-up", "pageup,ctrl+u", "page(-1)", "page up", "", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("messages.first", "home,g", "cursor_to_end(False)", "newest", "", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("messages.last", "end,G", "cursor_to_end(True)", "oldest", "", _D, palette=False,
           only_in=(Place.MESSAGES,)),
    Action("theme", "ctrl+t", "app.change_theme", "theme", "Change the colours", _G, only_in=_SCREENS),
    Action("log.follow", "f", "toggle_follow", "follow", "Stick to the newest lines",
           _L, _SPARE, palette=False),
    Action("log.wrap", "w", "toggle_wrap", "wrap", "Break long lines or cut them", _L, _SPARE, palette=False),
    Action("log.search", "slash", "search", "search",
           "Search the log: text or a regular expression, in a thread; esc ends it", _L, _YES, palette=False),
    Action("log.next-match", "n", "next_match(1)", "next", "To the next match below", _L, palette=False),
    Action("log.previous-match", "N", "next_match(-1)", "before", "To the match above", _L, palette=False),
    Action("log.only", "ampersand", "toggle_only", "only matches", "Only the lines that match, or all",
           _L, palette=False),
    Action("log.level", "l", "cycle_level", "level", "Only warnings and errors, only errors, or all lines",
           _L, palette=False),
    Action("log.errors", "E", "errors", "errors",
           "To the newest error, again to the one before; n and N go on from there",
           _L, _SPARE, palette=False),
    Action("log.heads", "T", "toggle_heads", "times",
           "Times, levels and sources as they were written, or in a narrow column", _L, palette=False),
    Action("log.raw", "b", "toggle_raw", "raw",
           "Every line, also repeated ones, states of progress bars, tracebacks of more ranks",
           _L, palette=False),
    Action("log.leave", "escape", "leave", "all lines", "End the search, show all lines, forget the matches",
           _L, palette=False),
    Action("log.mark", "m", "mark", "mark", "Mark the line, or take its mark away", _L, palette=False),
    Action("log.next-mark", "apostrophe", "next_mark", "to mark", "To the mark above, round and round",
           _L, palette=False),
    Action("log.select", "v", "select", "select", "Select lines: up and down, then y", _L, palette=False),
    Action("log.copy", "y", "copy", "copy", "Copy the selected lines, or all in view", _L, palette=False),
    Action("log.save", "W", "save", "save", "Write the selected lines, or those in view, to a file",
           _L, palette=False),
    Action("log.pager", "P", "pager", "pager", "Open the log's file in $PAGER", _L, palette=False),
    Action("log.earlier-attempt", "left_square_bracket", "attempt(-1)", "earlier attempt",
           "The log of the attempt before", _L, palette=False),
    Action("log.later-attempt", "right_square_bracket", "attempt(1)", "later attempt",
           "The log of the attempt after", _L, palette=False),
    Action("log-screen.merged", "0", "show_merged", "merged", "All components in one, by time",
           Scope.LOG_SCREEN, _YES),
    Action("log-screen.next", "tab", "show_beside(1)", "next log", "The next component's log",
           Scope.LOG_SCREEN, _YES, palette=False),
    Action("log-screen.previous", "shift+tab", "show_beside(-1)", "log before",
           "The log of the component before", Scope.LOG_SCREEN, palette=False),
    Action("log-screen.open", "enter", "open_found", "open", "Open the log where the line was found",
           Scope.LOG_SCREEN, _YES, palette=False),
    Action("log-screen.back", "escape", "leave", "back", "End the search, back to what was found, or"
           " to the overview",
           Scope.LOG_SCREEN, _YES, palette=False),
    Action("log.start", "g,home", "to_start", "top", "top", _L, palette=False),
    Action("log.end", "G,end", "to_end", "end", "end", _L, palette=False),
    Action("log.up", "up", "move_rows(-1)", "up", "up", _L, palette=False),
    Action("log.down", "down", "move_rows(1)", "down", "down", _L, palette=False),
    Action("log.page_up", "pageup", "move_pages(-1)", "page up", "page up", _L, palette=False),
    Action("log.page_down", "pagedown,space", "move_pages(1)", "page down", "page down", _L, palette=False),
    Action("log.half_page_up", "ctrl+u", "move_pages(-0.5)", "half page up", "half page up",
           _L, palette=False),
    Action("log.half_page_down", "ctrl+d", "move_pages(0.5)", "half page down", "half page down",
           _L, palette=False),
    Action("log.left", "left", "move_sideways(-1)", "left", "left", _L, palette=False),
    Action("log.right", "right", "move_sideways(1)", "right", "right", _L, palette=False),
    Action("detach", "q", "app.detach", "detach", "Leave; everything keeps running",
           _G, _KEPT, only_in=_SCREENS),
    Action("interrupt", "ctrl+c", "app.explain_interrupt", "interrupt",
           "Stops nothing: says how to leave", _G, palette=False, only_in=_SCREENS),
    Action("knob-table.down", "down,j", "cursor(1)", "down", "Next knob", _T, palette=False),
    Action("knob-table.up", "up,k", "cursor(-1)", "up", "Previous knob", _T, palette=False),
    Action("knob-table.page-down", "pagedown,ctrl+d", "page(1)", "page down",
           "A page down", _T, palette=False),
    Action("knob-table.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _T, palette=False),
    Action("knob-table.first", "home,g", "cursor_to_end(False)", "first", "First knob", _T, palette=False),
    Action("knob-table.last", "end,G", "cursor_to_end(True)", "last", "Last knob", _T, palette=False),
    Action("knob-table.edit", "enter", "edit", "edit",
           "Edit the knob under the cursor", _T, palette=False, changes=True),
    Action("config-screen.search", "slash", "search", "search",
           "Search keys, meanings and values, also of keys outside the knob table", _S, _YES),
    Action("config-screen.changed", "o", "toggle_changed", "only changed",
           "Only what is changed, collected or wrong, and all again", _S, _YES),
    Action("config-screen.problems", "p", "switch_list", "problems",
           "To the problems, where enter jumps to the knob, and back", _S, _YES),
    Action("config-screen.back", "escape", "back", "overview",
           "End the search; back to the overview", _S, _YES, palette=False),
    Action("knob-table.review", "w", "screen.review_edits", "write",
           "Review the collected edits as one diff, and write them", _T, _YES, changes=True),
    Action("knob-table.drop", "backspace,delete", "screen.drop_edit", "drop",
           "Forget the collected edit under the cursor", _T, _YES, changes=True),
    Action("knob-table.pending", "d", "screen.show_pending", "differs",
           "Show where the files differ from what runs, and a copy from its original", _T, _YES),
    Action("knob-table.convert", "c", "screen.convert_batch", "convert",
           "Count the batch in tokens instead of rollouts, or back", _T, _YES, changes=True),
    Action("gpu-screen.free", "K", "free_process", "end",
           "End the process under the cursor, if it is nobody else's: names it, and asks",
           _P, _YES, changes=True),
    Action("gpu-screen.range", "h", "cycle_range", "range",
           "Memory of the last ten minutes, or all that is known", _P, _YES),
    Action("gpu-screen.back", "escape,d", "show_overview", "overview",
           "Back to the overview", _P, _YES, palette=False),
    Action("gpu-screen.down", "down,j", "cursor(1)", "down", "Next device or process", _P, palette=False),
    Action("gpu-screen.up", "up,k", "cursor(-1)", "up", "Previous device or process", _P, palette=False),
    Action("gpu-screen.page-down", "pagedown,ctrl+d", "page(1)", "page down", "A page down",
           _P, palette=False),
    Action("gpu-screen.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _P, palette=False),
    Action("checkpoint-screen.go-back", "enter", "go_back_to", "go back",
           "Restart the run from the checkpoint under the cursor, plan first", _R, _YES, changes=True),
    Action("checkpoint-screen.prune", "p", "prune", "prune",
           "Delete old checkpoints: choose what to keep, plan first", _R, _YES, changes=True),
    Action("checkpoint-screen.evaluate", "v", "evaluate", "evaluate",
           "Evaluate the checkpoint under the cursor", _R, _YES, changes=True),
    Action("checkpoint-screen.publish", "P", "publish", "publish",
           "Upload the weights of the step under the cursor to the hub: asks where, shows what",
           _R, changes=True),
    Action("checkpoint-screen.fork", "f", "fork", "fork",
           "Start another run from the checkpoint under the cursor; this one is left alone",
           _R, changes=True),
    Action("checkpoint-screen.back", "escape", "show_overview", "overview",
           "Back to the overview", _R, _YES, palette=False),
    Action("checkpoint-screen.down", "down,j", "cursor(1)", "down", "Next checkpoint", _R, palette=False),
    Action("checkpoint-screen.up", "up,k", "cursor(-1)", "up", "Previous checkpoint", _R, palette=False),
    Action("checkpoint-screen.page-down", "pagedown,ctrl+d", "page(1)", "page down",
           "A page down", _R, palette=False),
    Action("checkpoint-screen.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up",
           _R, palette=False),
    Action("checkpoint-screen.first", "home,g", "cursor_to_end(False)", "newest", "Newest checkpoint",
           _R, palette=False),
    Action("checkpoint-screen.last", "end,G", "cursor_to_end(True)", "oldest", "Oldest checkpoint",
           _R, palette=False),
    Action("evals.samples", "enter", "read_samples", "samples",
           "Read the samples of the evaluation under the cursor", _A, _YES),
    Action("evals.evaluate", "v", "evaluate", "evaluate",
           "Evaluate the newest weights, a checkpoint, the base model or any other", _A, _YES, changes=True),
    Action("evals.baseline", "b", "choose_baseline", "baseline",
           "Compare all with the evaluation under the cursor; again, with the base model", _A, _YES),
    Action("evals.sort", "s", "sort", "sort",
           "By what was evaluated, the newest first, or the best first", _A, _YES),
    Action("evals.cancel", "x", "cancel_eval", "cancel",
           "Take the evaluation under the cursor from the queue, or end it", _A, _YES, changes=True),
    Action("evals.back", "escape", "show_overview", "overview", "Back to the overview", _A, _YES,
           palette=False),
    Action("evals.down", "down,j", "cursor(1)", "down", "Next evaluation", _A, palette=False),
    Action("evals.up", "up,k", "cursor(-1)", "up", "Previous evaluation", _A, palette=False),
    Action("evals.page-down", "pagedown,ctrl+d", "page(1)", "page down", "A page down", _A, palette=False),
    Action("evals.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _A, palette=False),
    Action("evals.first", "home,g", "cursor_to_end(False)", "first", "The first row", _A, palette=False),
    Action("evals.last", "end,G", "cursor_to_end(True)", "last", "The last row", _A, palette=False),
    Action("queue.open", "enter", "open_queued", "open", "Look at the run under the cursor", _Q, _YES),
    Action("queue.pause", "p", "pause_queue", "pause",
           "Start nothing any more, or go on; what runs goes on", _Q, _YES, changes=True),
    Action("queue.earlier", "K", "move_queued('up')", "earlier", "Let it start earlier",
           _Q, _YES, changes=True),
    Action("queue.later", "J", "move_queued('down')", "later", "Let it start later", _Q, _YES, changes=True),
    Action("queue.first", "F", "move_queued('first')", "first", "Let it start next",
           _Q, _SPARE, changes=True),
    Action("queue.retry", "r", "retry_queued", "retry",
           "Let it wait again after it failed or was stopped; config files count as they are now",
           _Q, _YES, changes=True),
    Action("queue.remove", "d,delete", "remove_queued", "remove",
           "Do not start it; or forget that it has ended. Its run stays", _Q, _YES, changes=True),
    Action("queue.back", "escape", "show_screen('runs')", "runs", "Back to the runs",
           _Q, _YES, palette=False),
    Action("queue.down", "down,j", "cursor(1)", "down", "Next entry", _Q, palette=False),
    Action("queue.up", "up,k", "cursor(-1)", "up", "Previous entry", _Q, palette=False),
    Action("queue.page-down", "pagedown,ctrl+d", "page(1)", "page down", "A page down", _Q, palette=False),
    Action("queue.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _Q, palette=False),
    Action("queue.top", "home,g", "cursor_to_end(False)", "first", "The first entry", _Q, palette=False),
    Action("queue.bottom", "end,G", "cursor_to_end(True)", "last", "The last entry", _Q, palette=False),
    Action("compare.curves", "enter,c", "curves", "curves",
           "Lay the curves of these runs over each other: x by step or by time", Scope.COMPARE, _YES),
    Action("compare.rollouts", "r", "rollouts", "rollouts",
           "The rollouts of the first run; c there puts the same prompt in another run beside",
           Scope.COMPARE, _YES),
    Action("compare.all", "a", "toggle_all_keys", "all keys",
           "Also the config keys that are alike, and only those that differ", Scope.COMPARE, _YES),
    Action("compare.right", "right,l", "shift(1)", "more runs", "The runs further right", Scope.COMPARE,
           palette=False),
    Action("compare.left", "left,h", "shift(-1)", "runs before", "The runs further left", Scope.COMPARE,
           palette=False),
    Action("compare.back", "escape", "back", "runs", "Back to the runs", Scope.COMPARE, _YES, palette=False),
    Action("compare.down", "down,j", "cursor(1)", "down", "Next row", Scope.COMPARE, palette=False),
    Action("compare.up", "up,k", "cursor(-1)", "up", "Previous row", Scope.COMPARE, palette=False),
    Action("compare.page-down", "pagedown,ctrl+d", "page(1)", "page down", "A page down",
           Scope.COMPARE, palette=False),
    Action("compare.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up",
           Scope.COMPARE, palette=False),
    Action("compare.first", "home,g", "cursor_to_end(False)", "first", "The first row", Scope.COMPARE,
           palette=False),
    Action("compare.last", "end,G", "cursor_to_end(True)", "last", "The last row", Scope.COMPARE,
           palette=False),
    Action("evaluate.cancel", "escape", "cancel", "cancel", "", _A, palette=False, only_in=_ASKING),
    Action("evaluate.next", "down", "step(1)", "next", "", _A, palette=False, only_in=_ASKING),
    Action("evaluate.previous", "up", "step(-1)", "previous", "", _A, palette=False, only_in=_ASKING),
    Action("metrics.zoom", "enter", "toggle_zoom", "zoom", "One chart in full, and back to all", _M, _YES),
    Action("metrics.cursor-back", "comma", "cursor(-1)", "read", "Read all series at a step: further back",
           _M, _YES, palette=False),
    Action("metrics.cursor-on", "full_stop", "cursor(1)", "read", "Read all series at a step: further on",
           _M, palette=False),
    Action("metrics.mark-back", "left_square_bracket", "mark(-1)", "marks",
           "Read at the mark before: edit, restart, crash, checkpoint, alert, note", _M, _YES, palette=False),
    Action("metrics.mark-on", "right_square_bracket", "mark(1)", "next mark", "Read at the next mark",
           _M, palette=False),
    Action("metrics.search", "slash", "search", "filter",
           "Any series, by a regular expression for titles and names", _M, _YES),
    Action("metrics.narrow", "plus,equals_sign", "scale(0.5)", "closer",
           "See less of the run, around the cursor or up to the end", _M, _SPARE),
    Action("metrics.widen", "minus", "scale(2)", "wider", "See more of the run", _M, _SPARE),
    Action("metrics.pan-back", "less_than_sign", "pan(-1)", "earlier", "What came before", _M, palette=False),
    Action("metrics.pan-on", "greater_than_sign", "pan(1)", "later", "What came after", _M, palette=False),
    Action("metrics.all", "0", "reset", "all", "The whole run, read at its end", _M, _SPARE),
    Action("metrics.smooth", "s", "switch('smoothing')", "smooth",
           "Means of the last 5, 20 or 100 points, and the points themselves", _M, _YES),
    Action("metrics.axis", "x", "switch('by_time')", "step/time", "By step or by time", _M, _YES),
    Action("metrics.log", "y", "switch('log')", "log", "The chosen chart's scale: linear or logarithmic",
           _M, _YES),
    Action("metrics.robust", "o", "switch('robust')", "outliers", "Cut outliers off, and show them",
           _M, _SPARE),
    Action("metrics.marks", "m", "switch('marks')", "hide marks", "Marks of what happened, or none",
           _M, _SPARE),
    Action("metrics.pin", "p", "pin", "pin", "Keep the chosen chart first, or no more", _M, _YES),
    Action("metrics.save", "w", "save", "save", "Save the chosen chart as SVG and CSV", _M, _YES),
    Action("metrics.back", "escape", "back", "overview",
           "End the filter, then the zoom; back to the overview", _M, _YES, palette=False),
    Action("metrics.left", "left,h", "move(-1, 0)", "left",
           "The chart at the left; zoomed, read further back", _M, palette=False),
    Action("metrics.right", "right,l", "move(1, 0)", "right",
           "The chart at the right; zoomed, read further on", _M, palette=False),
    Action("metrics.up", "up,k", "move(0, -1)", "up", "The chart above; zoomed, the one before", _M,
           palette=False),
    Action("metrics.down", "down,j", "move(0, 1)", "down", "The chart below; zoomed, the next one", _M,
           palette=False),
    Action("events-screen.jump", "enter", "jump", "go there",
           "To that moment: in the log of the component, or on the charts", _V, _YES),
    Action("events-screen.log", "l", "jump_to('logs')", "log", "To that moment in the log", _V, _YES),
    Action("events-screen.chart", "c", "jump_to('metrics')", "chart", "To that moment on the charts",
           _V, _YES),
    Action("events-screen.kind", "f", "choose_kind", "kind",
           "Only events of one kind, only what the charts mark, or all again", _V, _YES),
    Action("events-screen.component", "o", "choose_component", "component",
           "Only events of one component, or all again", _V, _YES),
    Action("events-screen.search", "slash", "search", "search",
           "Only events with some words, also in the diffs of edits", _V, _YES),
    Action("events-screen.note", "number_sign", "note", "note", "Note something: a mark on the charts",
           _V, _YES),
    Action("events-screen.fold", "space", "fold", "fold",
           "Hide what stands below the events, diffs and stacks, and show it again", _V, _SPARE),
    Action("events-screen.back", "escape", "back", "overview",
           "End the search, show all again; back to the overview", _V, _YES, palette=False),
    Action("events-screen.down", "down,j", "cursor(1)", "down", "Next event", _V, palette=False),
    Action("events-screen.up", "up,k", "cursor(-1)", "up", "Previous event", _V, palette=False),
    Action("events-screen.page-down", "pagedown,ctrl+d", "page(1)", "page down", "A page down",
           _V, palette=False),
    Action("events-screen.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _V, palette=False),
    Action("events-screen.first", "home,g", "cursor_to_end(False)", "oldest", "The oldest event",
           _V, palette=False),
    Action("events-screen.last", "end,G", "cursor_to_end(True)", "newest", "Newest event, and those to come",
           _V, palette=False),
    Action("note.cancel", "escape", "cancel", "cancel", "", _V, palette=False, only_in=(Place.NOTE,)),
    Action("rollouts.read", "enter", "read", "read",
           "Read the sample under the cursor on the whole screen; of a group, list its samples", _W, _YES),
    Action("rollouts.back", "escape", "back", "back",
           "End the search, the comparison, the reading; back to the overview", _W, _YES, palette=False),
    Action("rollouts.down", "down,j", "cursor(1)", "down", "Next step, sample or line", _W, palette=False),
    Action("rollouts.up", "up,k", "cursor(-1)", "up", "Previous step, sample or line", _W, palette=False),
    Action("rollouts.page-down", "pagedown,ctrl+d,space", "page(1)", "page down",
           "A page down", _W, palette=False),
    Action("rollouts.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _W, palette=False),
    Action("rollouts.first", "home,g", "to_end(False)", "first", "First line", _W, palette=False),
    Action("rollouts.last", "end,G", "to_end(True)", "last", "Last line", _W, palette=False),
    Action("rollouts.next-list", "tab", "focus_beside(1)", "next list",
           "To the list beside", _W, palette=False),
    Action("rollouts.previous-list", "shift+tab", "focus_beside(-1)", "previous list",
           "To the list on the other side", _W, palette=False),
    Action("rollouts.later", "right_square_bracket", "go_to_step(-1)", "later step",
           "The same list at the next later step", _W),
    Action("rollouts.earlier", "left_square_bracket", "go_to_step(1)", "earlier step",
           "The same list at the next earlier step; in a comparison, the prompt at the next step beyond", _W),
    Action("rollouts.next", "right,n", "next_sample(1)", "next", "The next sample, also while reading", _W),
    Action("rollouts.previous", "left,N", "next_sample(-1)", "previous", "The previous sample", _W),
    Action("rollouts.sort", "s", "sort", "sort",
           "Sort by arrival, worst or best reward, advantage, length, or group", _W, _YES),
    Action("rollouts.filter", "f", "narrow", "filter",
           "Only truncated ones, only failed ones, only those of groups without spread, and all again",
           _W, _YES),
    Action("rollouts.search", "slash", "search", "search",
           "Only samples whose text matches a regular expression", _W, _YES),
    Action("rollouts.groups", "b", "toggle_groups", "groups",
           "List the groups, each with the mean and spread of its rewards, or the samples", _W, _YES),
    Action("rollouts.all", "a", "toggle_all", "all",
           "Also the samples that no batch took, and only the batch again", _W),
    Action("rollouts.raw", "v", "toggle_raw", "raw", "The record as it was written, or the conversation", _W),
    Action("rollouts.tools", "t", "toggle_tools", "tools",
           "Unfold what tools got and answered, and fold it", _W),
    Action("rollouts.mark", "m", "mark", "mark", "Mark the sample, to compare or to write it", _W),
    Action("rollouts.compare", "c", "compare", "compare",
           "Read it side by side with the marked one, else with the same prompt at another step", _W, _YES),
    Action("rollouts.write", "w", "write", "write",
           "Write the marked samples, or this one, into a new file: JSONL or Markdown", _W, _YES),
    Action("runs.open", "enter", "open", "open",
           "Open the run under the cursor, from its files where nothing of it lives; a sweep unfolds",
           _N, _KEPT),
    Action("runs.filter", "slash", "filter", "filter",
           "Only some: a part of the name, tag:baseline, reward > 0.8 and lr < 1e-5", _N, _YES),
    Action("runs.sort", "s", "sort", "sort", "By another column", _N, _YES),
    Action("runs.reverse", "S", "reverse", "reverse", "The other way round", _N),
    Action("runs.mark", "space,m", "mark", "mark",
           "Mark the run under the cursor: what follows is done to all that are marked", _N, _YES),
    Action("runs.compare", "c", "compare", "compare",
           "The marked ones beside each other: keys that differ, metrics, curves, rollouts", _N, _YES),
    Action("runs.fork", "f", "fork", "fork",
           "Start another run with its config, changed, or from a checkpoint", _N, changes=True),
    Action("runs.group", "b", "group", "group",
           "Forks below their parents, the runs of a sweep below its name; or all by themselves", _N, _YES),
    Action("runs.columns", "v", "choose_columns", "columns",
           "Choose the columns, also config keys and metrics; they are kept", _N, _YES),
    Action("runs.tags", "t", "tag", "tags", "Edit the tags", _N, _YES, changes=True),
    Action("runs.note", "n", "describe", "note", "Say something of the run", _N, _YES, changes=True),
    Action("runs.best", "asterisk", "mark_best", "best", "Mark as the best, or no more",
           _N, _SPARE, changes=True),
    Action("runs.archive", "a", "archive", "archive", "List it no more, or again", _N, _YES, changes=True),
    Action("runs.trash", "d,delete", "trash", "trash", "Put it into the trash, folder and all: asks",
           _N, _YES, changes=True),
    Action("runs.undo", "u", "undo", "undo",
           "Take back the last change of tags, note, mark, archive or trash", _N, _YES, changes=True),
    Action("queue.show", "Q", "show_screen('queue')", "queue",
           "Open the queue: runs that wait for GPUs, and start by themselves", Scope.RUNS, _YES),
    Action("runs.export", "w", "export", "export",
           "Write a report into a new folder: Markdown, curves, configs, rollouts", _N, _SPARE),
    Action("runs.archived", "A", "show_archived", "archived", "List the archived too, or no more",
           _N, _SPARE),
    Action("runs.fold", "left,h", "fold(True)", "fold",
           "Hide what stands below the line, or below its parent", _N, palette=False),
    Action("runs.unfold", "right,l", "fold(False)", "unfold", "Show what stands below the line",
           _N, palette=False),
    Action("runs.back", "escape", "back", "back", "End the filter, take the marks away; back",
           _N, palette=False),
    Action("runs.down", "down,j", "cursor(1)", "down", "Next run", _N, palette=False),
    Action("runs.up", "up,k", "cursor(-1)", "up", "Previous run", _N, palette=False),
    Action("runs.page-down", "pagedown,ctrl+d", "page(1)", "page down", "A page down", _N, palette=False),
    Action("runs.page-up", "pageup,ctrl+u", "page(-1)", "page up", "A page up", _N, palette=False),
    Action("runs.first", "home,g", "cursor_to_end(False)", "first", "The first run", _N, palette=False),
    Action("runs.last", "end,G", "cursor_to_end(True)", "last", "The last run", _N, palette=False),
    Action("columns.toggle", "space", "show_column", "show", "Show the column, or no more",
           _O, palette=False),
    Action("columns.left", "shift+up", "carry(-1)", "left", "Further to the left", _O, palette=False),
    Action("columns.right", "shift+down", "carry(1)", "right", "Further to the right", _O, palette=False),
    Action("columns.usual", "backspace", "usual", "usual", "The usual ones", _O, palette=False),
    Action("columns.field", "tab,shift+tab", "other_field", "another",
           "A line for a metric or a config key, and back", _O, palette=False),
    Action("columns.keep", "enter", "keep", "keep", "These columns", _O, palette=False),
    Action("columns.cancel", "escape", "cancel", "cancel", "The columns as they were", _O, palette=False),
    Action("columns.down", "down,j", "cursor(1)", "down", "", _O, palette=False),
    Action("columns.up", "up,k", "cursor(-1)", "up", "", _O, palette=False),
    Action("columns.page-down", "pagedown", "page(1)", "page down", "", _O, palette=False),
    Action("columns.page-up", "pageup", "page(-1)", "page up", "", _O, palette=False),
    Action("editor.write", "enter", "answer('write')", "write", "Write the file, restart nothing", _E),
    Action("editor.write-restart", "ctrl+r", "answer('restart')", "write + restart",
           "Write the file and restart what reads the knob", _E),
    Action("editor.collect", "ctrl+n", "answer('collect')", "collect",
           "Write nothing yet: collect it, to be written with others", _E),
    Action("editor.unset", "ctrl+x", "unset", "default",
           "Take the key out of the file, so that the default counts", _E),
    Action("editor.cancel", "escape", "cancel", "cancel", "Leave the file as it is",
           _E, only_in=(Place.EDITOR,)),
    Action("editor.more", "up", "step(1)", "more", "One step up, or the choice before",
           _E, only_in=_STEPPED),
    Action("editor.less", "down", "step(-1)", "less", "One step down, or the next choice",
           _E, only_in=_STEPPED),
    Action("editor.double", "asterisk", "scale(2)", "×2", "Twice the number", _E, only_in=(Place.NUMBER,)),
    Action("editor.halve", "slash", "scale(0.5)", "÷2", "Half the number", _E, only_in=(Place.NUMBER,)),
    Action("editor.finer-less", "left", "move(-0.01)", "-0.01", "", _E, only_in=(Place.FRACTION,)),
    Action("editor.finer-more", "right", "move(0.01)", "+0.01", "", _E, only_in=(Place.FRACTION,)),
    Action("editor.next-choice", "space", "step(-1)", "next", "", _E, only_in=(Place.CHOICE,)),
    Action("editor.remove-item", "ctrl+k", "remove_item", "remove", "", _E, only_in=_LIST),
    Action("editor.item-up", "shift+up", "carry_item(-1)", "move up", "", _E, only_in=_LIST),
    Action("editor.item-down", "shift+down", "carry_item(1)", "move down", "", _E, only_in=_LIST),
    Action("editor.item-left", "left", "move(-1)", "left", "", _E, only_in=_LIST),
    Action("editor.item-right", "right", "move(1)", "right", "", _E, only_in=_LIST),
    Action("editor.item-start", "home", "move_to(0)", "start", "", _E, only_in=_LIST),
    Action("editor.item-end", "end", "move_to(-1)", "end", "", _E, only_in=_LIST),
    Action("editor.item-backspace", "backspace", "delete(-1)", "delete left", "", _E, only_in=_LIST),
    Action("editor.item-delete", "delete", "delete(0)", "delete", "", _E, only_in=_LIST),
    Action("converter.cancel", "escape", "cancel", "cancel", "Leave the files as they are", _B),
    Action("review.restart", "ctrl+r", "restart", "write + restart",
           "In a review: write, and restart what reads it", _D, only_in=(Place.REVIEW,)),
    Action("dialog.yes", "y", "yes", "yes", "Do it", _D),
    Action("dialog.no", "escape,n", "no", "no", "Leave things as they are", _D),
    Action("dialog.scroll-down", "down,pagedown", "scroll_lines(4)", "down", "Scroll down",
           _D, only_in=(Place.BOX,)),
    Action("dialog.scroll-up", "up,pageup", "scroll_lines(-4)", "up", "Scroll up", _D, only_in=(Place.BOX,)),
    Action("dialog.other", "left,right", "other", "other", "The other button; enter presses it", _D),
    Action("help.close", "question_mark", "no", "close", "", _D, only_in=(Place.HELP,)),
)  # fmt: skip


def bindings(place: Place) -> list[BindingType]:
    """Textual bindings of the actions that work there."""
    return [
        Binding(
            action.keys,
            action.name,
            action.label,
            show=action.footer is not Footer.NO,
            tooltip=action.help,
            id=action.id,
        )
        for action in ACTIONS
        if action.keys and place in action.places
    ]


def offered_on(screen: Place) -> tuple[Action, ...]:
    """What the palette of a screen may offer."""
    return tuple(
        action
        for action in ACTIONS
        if action.palette and any(place.screen is screen for place in action.places)
    )


CHANGING_CALLS = frozenset(action.call for action in ACTIONS if action.changes)
"""Methods and parameters that a client which may only look must not run."""


def changing_keys(place: Place) -> Mapping[str, Sequence[tuple[str, tuple[object, ...]]]]:
    """The keys that would change the experiment there, with what they call."""
    found: dict[str, list[tuple[str, tuple[object, ...]]]] = {}
    for action in ACTIONS:
        if action.changes and place in action.places:
            for key in action.keys.split(","):
                found.setdefault(key, []).append(action.call)
    return found


_KEY_NAMES = {
    "question_mark": "?", "colon": ":", "exclamation_mark": "!", "escape": "esc", "asterisk": "*",
    "slash": "/", "number_sign": "#",
    "pagedown": "pgdn", "pageup": "pgup", "left_square_bracket": "[", "right_square_bracket": "]",
    "ampersand": "&", "comma": ",", "full_stop": ".", "plus": "+", "equals_sign": "=", "minus": "-",
    "less_than_sign": "<", "greater_than_sign": ">",
    "up": "↑", "down": "↓", "left": "←", "right": "→", "dollar_sign": "$",
    "backspace": "⌫", "delete": "del",
}  # fmt: skip


def key_text(keys: str) -> str:
    """Keys as a person reads them: `?`, `j / ↓`."""
    return " / ".join(_KEY_NAMES.get(key.strip(), key.strip()) for key in keys.split(","))
