"""Every key, once: bindings, footer, help and palette are derived from this table.

One key has one meaning on all main screens; the screen and the focus decide only what it is done to. A new
action is an entry here and the `action_…` methods it names on the screens and widgets of its places; where
an action that is there already means the same, the new one is a further `Use` of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from textual.actions import parse
from textual.binding import Binding, BindingType

from rltui.ui.key_names import key_text


class Scope(StrEnum):
    """What an action is about; the value is the heading in the help."""

    GLOBAL = "Everywhere"
    SCREENS = "Screens"
    MOVING = "Moving"
    LOOKING = "What is shown"
    PICKING = "What is under the cursor"
    COMPONENTS = "Components"
    KNOBS = "Knobs and config"
    LOGS = "Logs"
    CHARTS = "Charts"
    EDITOR = "In the knob editor"
    ARRANGE = "While arranging panels"
    COLUMNS = "In the dialog for columns"
    DIALOG = "In dialogs"


class KeyContext(Enum):
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
    ARRANGE = "line for arranging panels"
    QUEUE = "queue screen"
    COMPARE = "comparison screen"
    BOX = "every dialog"
    DIALOG = "dialog with buttons"
    REVIEW = "review of edits"
    HELP = "help"
    HELP_LINE = "line of the help"
    MESSAGES = "list of messages"
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
    """Whether the footer shows a key, and what gives way where it is too narrow."""

    NO = 0
    FIRST_TO_GO = 1
    YES = 2
    LAST_TO_GO = 3


class _Keyed:
    __slots__ = ()
    id: str
    label: str

    @property
    def keys(self) -> str:
        """As they are mapped now."""
        return keys_of(self.id)

    @property
    def shown_keys(self) -> str:
        """As a person reads them; `:shell` where only the palette has it."""
        return key_text(self.keys) if self.keys else f":{self.label}"


@dataclass(frozen=True, slots=True)
class Use(_Keyed):
    """An action in some places: what it is done to there. What is left empty is as the action has it."""

    places: tuple[KeyContext, ...]
    name: str = ""
    """Method without `action_`, with its parameters if it has any; empty: the last word of the id."""
    label: str = ""
    """One or two words for the footer."""
    help: str = ""
    """A sentence for help and palette."""
    footer: Footer = Footer.NO
    palette: bool = True
    """The palette of its screens offers it, when it makes sense, unless it offers the action nowhere."""
    changes: bool = False
    """Changes the experiment, so a client that may only look has it not; as do all uses of such an action."""
    id: str = ""
    """Of its action, as all below: told by that."""

    @property
    def call(self) -> tuple[str, tuple[object, ...]]:
        """Method, without `action_`, and parameters, as `check_action` takes them."""
        _, method, parameters = parse(self.name)
        return method, parameters


@dataclass(frozen=True, slots=True)
class Action(_Keyed):
    id: str
    """Stable: keymaps name it."""
    default_keys: str
    """Textual key names, comma-separated; the first one is shown. Empty: by the palette alone."""
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence for help and palette; empty where the field or dialog itself says what the key does."""
    scope: Scope
    uses: tuple[Use, ...]
    palette: bool = True
    changes: bool = False
    """Changes the experiment wherever it works."""

    def __post_init__(self) -> None:
        method = self.id.rpartition(".")[2].replace("-", "_")
        completed = (
            replace(
                use,
                id=self.id,
                name=use.name or method,
                label=use.label or self.label,
                help=use.help or self.help,
                palette=self.palette and use.palette,
                changes=self.changes or use.changes,
            )
            for use in self.uses
        )
        object.__setattr__(self, "uses", tuple(completed))

    @property
    def places(self) -> tuple[KeyContext, ...]:
        return tuple(dict.fromkeys(place for use in self.uses for place in use.places))


_O, _KNOBS, _LOG, _CONFIG = KeyContext.OVERVIEW, KeyContext.KNOB_TABLE, KeyContext.LOG, KeyContext.CONFIG
_GPUS, _CHECKPOINTS, _EVALS, _METRICS = (
    KeyContext.GPUS,
    KeyContext.CHECKPOINTS,
    KeyContext.EVALS,
    KeyContext.METRICS,
)
_EVENTS, _LOGS, _ROLLOUTS = KeyContext.EVENTS, KeyContext.LOGS, KeyContext.ROLLOUTS
_RUNS, _QUEUE, _COMPARE = KeyContext.RUNS, KeyContext.QUEUE, KeyContext.COMPARE
_OF_ONE = (_O, _LOGS, _CONFIG, _GPUS, _METRICS, _EVENTS, _CHECKPOINTS, _EVALS, _ROLLOUTS)
"""The main screens that show the experiment that is open."""
SCREENS = (*_OF_ONE, _RUNS, _QUEUE, _COMPARE)
"""The main screens, which the number keys go to and work on."""
PANES: Mapping[KeyContext, tuple[KeyContext, ...]] = {_O: (_LOG, _KNOBS), _LOGS: (_LOG,)}
"""What has keys of its own on a main screen."""
_LISTS = (_KNOBS, _CONFIG, _GPUS, _CHECKPOINTS, _EVALS, _EVENTS, _RUNS, _QUEUE, _COMPARE, KeyContext.MESSAGES)
"""Where a cursor goes from row to row."""
_ASKING = (KeyContext.EVALUATE, KeyContext.FORK)
_STEPPED = (KeyContext.NUMBER, KeyContext.CHOICE, KeyContext.LIST)
_LIST = (KeyContext.LIST,)
_PALETTE, _HELP = (KeyContext.PALETTE,), (KeyContext.HELP,)
_YES, _KEPT, _SPARE = Footer.YES, Footer.LAST_TO_GO, Footer.FIRST_TO_GO


def _screen(id: str, keys: str, label: str, help: str, *uses: Use, name: str = "") -> Action:  # noqa: A002
    """One that leads to a main screen, from each of them; `uses`: where that is another one."""
    special = tuple(place for use in uses for place in use.places)
    name = name or f"show_screen('{id}')"
    usual = Use(tuple(place for place in SCREENS if place not in special), name)
    return Action(f"screen.{id}", keys, label, help, Scope.SCREENS, (usual, *uses))


def _moving(id: str, keys: str, label: str, help: str, *uses: Use) -> Action:  # noqa: A002
    """One that nobody looks for by name."""
    return Action(id, keys, label, help, Scope.MOVING, uses, palette=False)


def _own(
    id: str,  # noqa: A002
    keys: str,
    name: str,
    label: str,
    help: str,  # noqa: A002
    scope: Scope,
    places: tuple[KeyContext, ...],
) -> Action:
    """One of a dialog or a field."""
    return Action(id, keys, label, help, scope, (Use(places, name),), palette=False)


_AR, _AP = Scope.ARRANGE, (KeyContext.ARRANGE,)
_CO, _E, _D, _CP, _F = Scope.COLUMNS, Scope.EDITOR, Scope.DIALOG, (KeyContext.COLUMNS,), (KeyContext.FIELD,)

ACTIONS: tuple[Action, ...] = (
    Action("help", "question_mark", "help", "Show which keys work here, and what the symbols mean",
           Scope.GLOBAL, (Use(SCREENS, "show_help", footer=_KEPT),)),
    Action("palette", "colon,ctrl+p", "command", "Find anything by a few letters: an action, a knob, a run",
           Scope.GLOBAL,
           (Use(SCREENS, "app.command_palette", footer=_KEPT),), palette=False),
    Action("open", "enter", "open", "Open what is under the cursor, or do what it is for", Scope.PICKING, (
        Use((_KNOBS,), "edit", label="edit", help="Edit the knob under the cursor",
            palette=False, changes=True),
        Use((_CONFIG,), "edit", label="edit", help="Edit the knob; from a problem, go to its knob",
            palette=False, changes=True),
        Use((_CHECKPOINTS,), "go_back_to", label="go back", footer=_YES, changes=True,
            help="Restart the run from the checkpoint under the cursor, plan first"),
        Use((_EVALS,), "read_samples", label="samples", footer=_YES,
            help="Read the samples of the evaluation under the cursor"),
        Use((_METRICS,), "toggle_zoom", label="zoom", footer=_YES, help="One chart in full, and back to all"),
        Use((_EVENTS,), "jump", label="go there", footer=_YES,
            help="To that moment: in the log of the component, or on the charts"),
        Use((_LOGS,), "open_found", footer=_YES, palette=False,
            help="Open the log where the line was found"),
        Use((_ROLLOUTS,), "read", label="read", footer=_YES,
            help="Read the sample under the cursor on the whole screen; of a group, list its samples"),
        Use((_RUNS,), footer=_KEPT,
            help="Open the run under the cursor, from its files where nothing of it lives; a sweep unfolds"),
        Use((_QUEUE,), "open_queued", footer=_YES, help="Look at the run under the cursor"),
        Use((_COMPARE,), "curves", label="curves", footer=_YES,
            help="Lay the curves of these runs over each other: x by step or by time"),
        Use((KeyContext.MESSAGES,), "read", label="read", footer=_YES, palette=False, help="Read it in full"),
    )),
    Action("component.start", "s", "start",
           "Start the selected component, at once where it would start again later", Scope.COMPONENTS, (
        Use((_O,), "request('start')", footer=_YES),
        Use((_EVALS,), "evaluate", label="evaluate", footer=_YES,
            help="Start an evaluation: of the newest weights, a checkpoint, the base model or any other"),
        Use((_CHECKPOINTS,), "evaluate", label="evaluate", footer=_YES,
            help="Start an evaluation of the checkpoint under the cursor"),
    ), changes=True),
    Action("component.stop", "x", "stop", "Stop the selected component, plan first", Scope.COMPONENTS, (
        Use((_O,), "request('stop')", footer=_YES),
        Use((_EVALS,), "cancel_eval", label="cancel", footer=_YES,
            help="Take the evaluation under the cursor from the queue, or end it"),
    ), changes=True),
    Action("component.restart", "r", "restart",
           "Restart the selected component and what must restart with it, plan first", Scope.COMPONENTS, (
        Use((_O,), "request('restart')", footer=_YES),
        Use((_QUEUE,), "change('retry')", label="retry", footer=_YES,
            help="Let it wait again after it failed or was stopped; config files count as they are now"),
    ), changes=True),
    Action("component.restart-menu", "R", "restart…",
           "Choose what to restart: set or all, from checkpoint or from scratch", Scope.COMPONENTS,
           (Use((_O,)),), changes=True),
    Action("component.fix", "F", "fix memory",
           "After an out-of-memory error: choose an edit that helps, plan first", Scope.COMPONENTS,
           (Use((_O,), "fix_memory", footer=_YES),), changes=True),
    Action("component.kill", "X", "kill", "Kill the selected component's whole tree at once",
           Scope.COMPONENTS, (Use((_O,), "request('kill')"),), changes=True),
    Action("component.start-all", "S", "start all", "Start everything, plan first", Scope.COMPONENTS, (
        Use((_O,), "request('start-all')"),
        Use((_QUEUE,), "change('resume')", label="go on", footer=_YES, help="Let the queue start runs again"),
    ), changes=True),
    Action("component.stop-all", "D", "stop all", "Stop everything, plan first", Scope.COMPONENTS, (
        Use((_O,), "request('stop-all')"),
        Use((_QUEUE,), "change('pause')", label="pause", footer=_YES,
            help="Start nothing of the queue any more; what runs goes on"),
    ), changes=True),
    Action("component.inference", "i", "inference", "Go to inference", Scope.COMPONENTS,
           (Use((_O, _LOGS), "focus_component('inference')"),)),
    Action("component.orchestrator", "o", "orchestrator", "Go to orchestrator", Scope.COMPONENTS,
           (Use((_O, _LOGS), "focus_component('orchestrator')"),)),
    Action("component.trainer", "t", "trainer", "Go to trainer", Scope.COMPONENTS,
           (Use((_O, _LOGS), "focus_component('trainer')"),)),
    Action("component.attach", "a", "attach", "Attach to the raw terminal of the component",
           Scope.COMPONENTS, (Use((_O,), "attach_component"),)),
    Action("component.full-log", "L", "full log", "Open the log of the selected component in full width",
           Scope.COMPONENTS, (
        Use((_O,), "show_full_log"),
        Use((_EVENTS,), "jump_to('logs')", label="log", footer=_YES, help="To that moment in the log"),
    )),
    Action("component.script", "J", "job script",
           "Show the script with which the selected component was submitted to SLURM", Scope.COMPONENTS,
           (Use((_O,), "show_script"),)),
    Action("component.shell", "", "shell",
           "Open a shell with the folder, variables and devices of the selected component",
           Scope.COMPONENTS, (Use((_O,), "open_shell"),), changes=True),
    Action("process.free", "K", "leftovers",
           "End processes that outlived their component: names them, and asks", Scope.COMPONENTS, (
        Use((_O,), "free_orphans", footer=_YES),
        Use((_GPUS,), "free_process", label="end", footer=_YES,
            help="End the process under the cursor, if it is nobody else's: names it, and asks"),
    ), changes=True),
    Action("edit", "e", "edit", "Edit the knob under the cursor", Scope.KNOBS, (
        Use((_O,), "edit_knob", footer=_YES,
            help="Edit the knob under the cursor; from a component, one of those that it reads"),
        Use((_CONFIG,), "edit_knob", footer=_YES),
        Use((_RUNS,), "tag", label="tags", help="Edit the tags", footer=_YES),
    ), changes=True),
    Action("knob.apply", "A", "apply",
           "Write what was collected and restart what reads the changed knobs, so that they count",
           Scope.KNOBS, (Use((_O, _CONFIG), "apply_knobs", footer=_YES),), changes=True),
    Action("undo", "u", "undo", "Take the last edit of the config back, plan first", Scope.KNOBS, (
        Use((_O, _CONFIG), "undo_edit", footer=_YES),
        Use((_RUNS,), footer=_YES, help="Take back the last change of tags, note, mark, archive or trash"),
        Use((_CHECKPOINTS,), "bring_back", label="bring back", footer=_SPARE,
            help="Bring back what a restart has set aside: choose which, plan first"),
    ), changes=True),
    Action("redo", "U,ctrl+y", "redo", "Make the edit again that was taken back", Scope.KNOBS,
           (Use((_O, _CONFIG), "redo_edit"),), changes=True),
    Action("knob.roll-back", "B", "roll back",
           "Take back the edit that a component or the run did not survive, and restart: after a collapse "
           "from the last good checkpoint", Scope.KNOBS,
           (Use((_O, _CONFIG), footer=_YES),), changes=True),
    Action("knob.diff", "d", "differs",
           "Show where the files differ from what runs, and a copy from its original", Scope.KNOBS,
           (Use((_O,), "show_pending", footer=_SPARE), Use((_CONFIG,), "show_pending", footer=_YES))),
    Action("knob.convert", "C", "convert", "Count the batch in tokens instead of rollouts, or back",
           Scope.KNOBS, (Use((_O,), "convert_batch"), Use((_CONFIG,), "convert_batch", footer=_YES)),
           changes=True),
    Action("knob.editor", "dollar_sign", "editor",
           "Edit a config file in $VISUAL or $EDITOR; what comes back is checked first", Scope.KNOBS,
           (Use((_O, _CONFIG), "edit_outside"),), changes=True),
    Action("knob.focus", "ctrl+k", "knobs", "Go to the knobs", Scope.KNOBS, (Use((_O,), "focus_knobs"),)),
    Action("filter", "f", "filter", "Only some of what there is, by kind, and all again", Scope.LOOKING, (
        Use((_LOG,), "cycle_level", label="level", palette=False,
            help="Only warnings and errors, only errors, or all lines"),
        Use((_CONFIG,), "toggle_changed", label="only changed", footer=_YES,
            help="Only what is changed, collected or wrong, and all again"),
        Use((_EVENTS,), "choose_kind", label="kind", footer=_YES,
            help="Only events of one kind or component, only what the charts mark, or all again"),
        Use((_ROLLOUTS,), "narrow", footer=_YES,
            help="Only truncated ones, only failed ones, only those of groups without spread, and all again"),
        Use((_COMPARE,), "toggle_all_keys", label="all keys", footer=_YES,
            help="Only the config keys that differ, or also those that are alike"),
        Use((_METRICS,), "switch('marks')", label="marks", footer=_SPARE,
            help="Marks of what happened, or none"),
        Use((_CHECKPOINTS,), "narrow", footer=_SPARE,
            help="Only complete ones, only those that something is said of, and all again"),
        Use((_RUNS,), "show_archived", label="archived", footer=_SPARE,
            help="List the archived too, or no more"),
    )),
    Action("sort", "greater_than_sign", "sort", "Sort by the next column or order", Scope.LOOKING, (
        Use((_EVALS,), "sort(1)", footer=_YES,
            help="By what was evaluated, the newest first, or the highest reward first"),
        Use((_CHECKPOINTS,), "sort(1)", footer=_SPARE,
            help="The newest first, or the highest reward, evaluation or size first"),
        Use((_ROLLOUTS,), "sort(1)", footer=_YES,
            help="Sort by arrival, worst or best reward, advantage, length, or group"),
        Use((_RUNS,), "sort(1)", footer=_YES, help="Sort by the next column"),
    )),
    Action("sort.back", "less_than_sign", "sort back", "Sort by the column or order before", Scope.LOOKING,
           (Use((_CHECKPOINTS, _EVALS, _ROLLOUTS, _RUNS), "sort(-1)"),)),
    Action("sort.reverse", "I", "invert", "The other way round", Scope.LOOKING,
           (Use((_RUNS,), "reverse"),)),
    Action("sort.choose", "", "sort by", "Choose the column to sort by", Scope.LOOKING,
           (Use((_RUNS,), "choose_order"),)),
    Action("search", "slash", "search", "Search, and go from match to match", Scope.LOOKING, (
        Use((_LOG,), footer=_YES, palette=False,
            help="Search the log: text or a regular expression, in a thread; esc ends it"),
        Use((_CONFIG,), footer=_YES,
            help="Search keys, meanings and values, also of keys outside the knob table"),
        Use((_METRICS,), footer=_YES,
            help="Any series, by a regular expression for titles and names"),
        Use((_EVENTS,), footer=_YES, help="Only events with some words, also in the diffs of edits"),
        Use((_ROLLOUTS,), footer=_YES, help="Only samples whose text matches a regular expression"),
        Use((_RUNS,), "filter", label="filter", footer=_YES,
            help="Only some: a part of the name, tag:baseline, reward > 0.8 and lr < 1e-5"),
    )),
    Action("group", "b", "group", "Fold or group what belongs together, and unfold it", Scope.LOOKING, (
        Use((_LOG,), "toggle('raw')", label="unfold", palette=False,
            help="Every line, also repeated ones, states of progress bars, what is said at every step, "
                 "tracebacks of more ranks"),
        Use((_EVENTS,), "fold", label="fold", footer=_SPARE,
            help="Hide what stands below the events, diffs and stacks, and show it again"),
        Use((_ROLLOUTS,), "toggle_groups", label="groups", footer=_YES,
            help="List the groups, each with the mean and spread of its rewards, or the samples"),
        Use((_ROLLOUTS,), "toggle_tools", label="tools", footer=_YES,
            help="While reading: unfold what tools got and answered, and fold it"),
        Use((_RUNS,), footer=_YES,
            help="Forks below their parents, the runs of a sweep below its name; or all by themselves"),
    )),
    Action("columns", "vertical_line", "columns",
           "Choose the columns, also config keys and metrics; they are kept", Scope.LOOKING,
           (Use((_RUNS,), "choose_columns", footer=_YES),)),
    Action("compare", "c", "compare", "Put it beside another", Scope.PICKING, (
        Use((_RUNS,), footer=_YES,
            help="The marked ones beside each other: keys that differ, metrics, curves, rollouts"),
        Use((_ROLLOUTS,), footer=_YES,
            help="Read it side by side with the marked one, else with the same prompt at another step"),
        Use((_EVALS,), "choose_baseline", label="baseline", footer=_YES,
            help="Compare all with the evaluation under the cursor; again, with the base model"),
    )),
    Action("mark", "m", "mark", "Mark it, or take its mark away", Scope.PICKING, (
        Use((_LOG,), palette=False, help="Mark the line, or take its mark away"),
        Use((_ROLLOUTS,), help="Mark the sample, to compare or to write it"),
        Use((_RUNS,), footer=_YES,
            help="Mark the run under the cursor: what follows is done to all that are marked"),
    )),
    Action("mark.go", "apostrophe", "to mark", "Go to a mark", Scope.PICKING, (
        Use((_LOG,), "next_mark", palette=False, help="To the mark above, round and round"),
        Use((_EVENTS,), "jump_to('metrics')", label="chart", footer=_YES,
            help="To that moment on the charts, where it is a mark"),
    )),
    Action("select", "v", "select", "Select lines: up and down, then copy or write them", Scope.PICKING,
           (Use((_LOG,), palette=False),)),
    Action("copy", "y", "copy", "Copy what is under the cursor", Scope.PICKING, (
        Use((_LOG,), palette=False, help="Copy what is selected, or the lines in view"),
        Use((_O, _CONFIG), help="Copy the knob under the cursor, as a line of a TOML file"),
        Use((_RUNS, _CHECKPOINTS), help="Copy the folder of what is under the cursor"),
        Use((_ROLLOUTS,), help="Copy the sample under the cursor, not wrapped"),
        Use((_GPUS, _EVALS, _EVENTS, _QUEUE, _COMPARE)),
        Use((KeyContext.MESSAGES,), footer=_YES, palette=False),
    )),
    Action("write", "W", "write", "Write it into a file", Scope.PICKING, (
        Use((_LOG,), "save", palette=False, help="Write the selected lines, or those in view, into a file"),
        Use((_O, _CONFIG), "review_edits", footer=_YES, changes=True,
            help="Review the collected edits as one diff, and write them"),
        Use((_METRICS,), "save", label="save", footer=_YES, help="Save the chosen chart as SVG and CSV"),
        Use((_ROLLOUTS,), footer=_YES,
            help="Write the marked samples, or this one, into a new file: JSONL or Markdown"),
        Use((_RUNS,), "export", label="report", footer=_SPARE,
            help="Write a report into a new folder: Markdown, curves, configs, rollouts"),
        Use((_CHECKPOINTS,), "publish", label="publish", changes=True,
            help="Upload the weights of the step under the cursor to the hub: asks where, shows what"),
    )),
    Action("pin", "p", "pin", "Keep it first, or no more", Scope.PICKING, (
        Use((_METRICS,), footer=_YES, help="Keep the chosen chart first, or no more"),
        Use((_KNOBS,), footer=_YES, help="Keep the knob first, with the layout, or no more"),
    )),
    Action("best", "asterisk", "best", "Mark as the best, or no more", Scope.PICKING,
           (Use((_RUNS,), "mark_best", footer=_SPARE),), changes=True),
    Action("hide", "H", "hide", "Hide it, or show it again", Scope.PICKING, (
        Use((_O,), "hide_pane", label="hide panel", help="Hide the panel that has the keys"),
        Use((_RUNS,), "archive", label="archive", footer=_YES, changes=True,
            help="Archive it: list it no more, or again"),
    )),
    Action("remove", "delete,backspace", "remove", "Take it away", Scope.PICKING, (
        Use((_O, _CONFIG), "drop_edit", label="drop", footer=_YES,
            help="Forget the collected edit under the cursor"),
        Use((_CHECKPOINTS,), "prune", label="prune", footer=_YES,
            help="Delete old checkpoints: choose what to keep, plan first"),
        Use((_RUNS,), "trash", label="trash", footer=_YES,
            help="Put it into the trash, folder and all: asks"),
        Use((_QUEUE,), "change('remove')", footer=_YES,
            help="Do not start it; or forget that it has ended. Its run stays"),
    ), changes=True),
    Action("fork", "Y", "fork",
           "Start another run with the config of this one, changed, or from a checkpoint", Scope.PICKING, (
        Use((_O,)),
        Use((_RUNS,), help="Start another run with its config, changed, or from a checkpoint"),
        Use((_CHECKPOINTS,),
            help="Start another run from the checkpoint under the cursor; this one is left alone"),
    ), changes=True),
    Action("note", "number_sign", "note", "Note something: kept with the events, a mark on the charts",
           Scope.GLOBAL, (
        Use(tuple(place for place in _OF_ONE if place is not _EVENTS)),
        Use((_EVENTS,), footer=_YES),
        Use((_RUNS,), "describe", footer=_YES, help="Say something of the run", changes=True),
    )),
    _screen("overview", "1", "overview", "Go to the overview, all panes", name="show_overview"),
    _screen("logs", "2", "logs",
            "Open the log screen: all components merged by time, or one in full width"),
    _screen("gpus", "3", "GPUs", "Open the GPU screen: figures, processes, memory over time"),
    _screen("metrics", "4", "metrics", "Open the metrics screen: charts of the whole run"),
    _screen("rollouts", "5", "rollouts",
            "Open the rollout screen: what the model wrote at each step, and its rewards",
            Use((_COMPARE,), "show_screen('rollouts')", footer=_YES,
                help="The rollouts of the first run; compared there with the same prompt in another run")),
    _screen("config", "6", "config",
            "Open the config screen: every key with its meaning, default and running value"),
    _screen("runs", "7", "runs", "Open the runs screen: all runs there are, to look at another one"),
    _screen("events", "8", "events",
            "Open the events screen: starts, crashes, edits with their diffs, alerts, notes"),
    _screen("checkpoints", "9", "checkpoints",
            "Open the checkpoint screen: what the run can go back to, and what may go"),
    _screen("evals", "V", "evaluations", "Open the evaluation screen: base, SFT, checkpoints, runs"),
    _screen("queue", "Q", "queue", "Open the queue: runs that wait for GPUs, and start by themselves",
            Use((_RUNS,), "show_screen('queue')", footer=_YES)),
    Action("logs.search-all", "ctrl+f", "search all", "Search the logs of all components and attempts",
           Scope.LOGS, (Use(_OF_ONE, "search_all"),)),
    Action("links", "O", "links", "Open or copy the address of a page about the run: W&B, a dashboard",
           Scope.GLOBAL, (Use(_OF_ONE, "open_links", footer=_SPARE),)),
    Action("messages", "exclamation_mark", "messages",
           "Read again all that was said: alerts, errors, what was done", Scope.GLOBAL,
           (Use(SCREENS, "show_messages"), Use((KeyContext.MESSAGES,), "no", palette=False))),
    Action("theme", "ctrl+t", "theme", "Change the colours", Scope.GLOBAL,
           (Use(SCREENS, "app.command_palette('*')"),)),
    _moving("pane.next", "tab", "next pane", "Go to the next pane or list",
            Use((_O, _ROLLOUTS), "focus_beside(1)"),
            Use((_CONFIG,), "switch_list", label="problems", footer=_YES,
                help="To the problems, where enter jumps to the knob, and back"),
            Use((_GPUS,), "app.focus_next"),
            Use((_LOGS,), "show_beside(1)", label="next log", footer=_YES,
                help="The next component's log")),
    _moving("pane.previous", "shift+tab", "previous pane", "Go to the previous pane or list",
            Use((_O, _ROLLOUTS), "focus_beside(-1)"),
            Use((_CONFIG,), "switch_list"),
            Use((_GPUS,), "app.focus_previous"),
            Use((_LOGS,), "show_beside(-1)", label="log before",
                help="The log of the component before")),
    Action("zoom", "z", "zoom", "Give the pane the whole screen, and back", Scope.LOOKING, (
        Use((_O,), footer=_YES),
        Use((_METRICS,), "toggle_zoom", palette=False, help="One chart in full, and back to all"),
    )),
    Action("panels.arrange", "ctrl+w", "arrange", "Move, resize, hide and show panels; kept with the layout",
           Scope.LOOKING, (Use((_O,), "arrange"),)),
    Action("panels.all", "", "all panels", "Show the panels that were hidden", Scope.LOOKING,
           (Use((_O,), "show_all_panes"),)),
    Action("panels.charts", "", "charts", "Charts beside the other panels, or no more", Scope.LOOKING,
           (Use((_O,), "toggle_charts"),)),
    Action("panels.usual", "", "usual panels", "All panels as the layout has them", Scope.LOOKING,
           (Use((_O,), "usual_panes"),)),
    _moving("cursor.down", "down", "down", "A line down",
            Use(_LISTS, "cursor(1)"),
            Use((_ROLLOUTS,), "cursor(1)", help="Next step, sample or line"),
            Use((_LOG,), "move_rows(1)"),
            Use((_METRICS,), "move(0, 1)", help="The chart below; zoomed, the next one")),
    _moving("cursor.up", "up", "up", "A line up",
            Use(_LISTS, "cursor(-1)"),
            Use((_ROLLOUTS,), "cursor(-1)", help="Previous step, sample or line"),
            Use((_LOG,), "move_rows(-1)"),
            Use((_METRICS,), "move(0, -1)", help="The chart above; zoomed, the one before")),
    _moving("cursor.next", "j", "next", "The next one: component, knob, row, chart",
            Use((_O,), "select_beside(1)", help="Select the next component"),
            Use((*_LISTS, _ROLLOUTS), "cursor(1)"),
            Use((_METRICS,), "move(0, 1)")),
    _moving("cursor.previous", "k", "previous", "The one before: component, knob, row, chart",
            Use((_O,), "select_beside(-1)", help="Select the previous component"),
            Use((*_LISTS, _ROLLOUTS), "cursor(-1)"),
            Use((_METRICS,), "move(0, -1)")),
    _moving("cursor.left", "left,h", "left", "To the left",
            Use((_LOG,), "move_sideways(-1)"),
            Use((_METRICS,), "move(-1, 0)", help="The chart at the left; zoomed, read further back"),
            Use((_ROLLOUTS,), "next_sample(-1)", help="The previous sample, also while reading"),
            Use((_RUNS,), "fold(True)", help="Hide what stands below the line, or below its parent"),
            Use((_COMPARE,), "shift(-1)", help="The runs further left")),
    _moving("cursor.right", "right,l", "right", "To the right",
            Use((_LOG,), "move_sideways(1)"),
            Use((_METRICS,), "move(1, 0)", help="The chart at the right; zoomed, read further on"),
            Use((_ROLLOUTS,), "next_sample(1)", help="The next sample, also while reading"),
            Use((_RUNS,), "fold(False)", help="Show what stands below the line"),
            Use((_COMPARE,), "shift(1)", help="The runs further right")),
    _moving("page.down", "pagedown,space", "page down", "A page down",
            Use((*_LISTS, _ROLLOUTS), "page(1)"), Use((_LOG,), "move_pages(1)")),
    _moving("page.up", "pageup", "page up", "A page up",
            Use((*_LISTS, _ROLLOUTS), "page(-1)"), Use((_LOG,), "move_pages(-1)")),
    _moving("page.half-down", "ctrl+d", "half page down", "Half a page down; a page in a list",
            Use((*_LISTS, _ROLLOUTS), "page(1)"), Use((_LOG,), "move_pages(0.5)")),
    _moving("page.half-up", "ctrl+u", "half page up", "Half a page up; a page in a list",
            Use((*_LISTS, _ROLLOUTS), "page(-1)"), Use((_LOG,), "move_pages(-0.5)")),
    _moving("cursor.first", "g,home", "first", "To the beginning",
            Use((*_LISTS, _ROLLOUTS), "cursor_to_end(False)"), Use((_LOG,), "to_start")),
    _moving("cursor.last", "G,end", "last", "To the end",
            Use((*(place for place in _LISTS if place is not _EVENTS), _ROLLOUTS), "cursor_to_end(True)"),
            Use((_EVENTS,), "cursor_to_end(True)", help="To the newest event, and those to come"),
            Use((_LOG,), "to_end", help="To the newest line, and stick to those to come")),
    _moving("move.up", "shift+up", "move up", "Carry it further up",
            Use((_QUEUE,), "change('move', 'up')", label="earlier", footer=_YES, changes=True,
                help="Let it start earlier")),
    _moving("move.down", "shift+down", "move down", "Carry it further down",
            Use((_QUEUE,), "change('move', 'down')", label="later", footer=_YES, changes=True,
                help="Let it start later")),
    _moving("move.first", "shift+home", "move first", "Carry it to the beginning",
            Use((_QUEUE,), "change('move', 'first')", label="first", footer=_SPARE, changes=True,
                help="Let it start next")),
    _moving("earlier", "left_square_bracket", "earlier", "The one before in time",
            Use((_LOG,), "attempt(-1)", label="earlier attempt", help="The log of the attempt before"),
            Use((_ROLLOUTS,), "go_to_step(1)", label="earlier step",
                help="The same list at the next earlier step; in a comparison, the prompt at the next step "
                     "beyond"),
            Use((_METRICS,), "mark(-1)", label="marks", footer=_YES,
                help="Read at the mark before: edit, restart, crash, checkpoint, alert, note")),
    _moving("later", "right_square_bracket", "later", "The next one in time",
            Use((_LOG,), "attempt(1)", label="later attempt", help="The log of the attempt after"),
            Use((_ROLLOUTS,), "go_to_step(-1)", label="later step",
                help="The same list at the next later step"),
            Use((_METRICS,), "mark(1)", label="next mark", help="Read at the next mark")),
    _moving("find.next", "n", "next match", "To the next one that was found",
            Use((_LOG,), "next_match(1)", help="To the next match below"),
            Use((_ROLLOUTS,), "next_sample(1)",
                help="The next sample, of those found if there was a search")),
    _moving("find.previous", "N", "match before", "To the one found before",
            Use((_LOG,), "next_match(-1)", help="To the match above"),
            Use((_ROLLOUTS,), "next_sample(-1)",
                help="The previous sample, of those found if there was a search")),
    Action("find.only", "ampersand", "only matches", "Only the lines that match, or all", Scope.LOGS,
           (Use((_LOG,), "toggle_only", palette=False),)),
    Action("find.errors", "E", "errors",
           "To the newest error, in whichever log has one; again to the one before; next and previous match"
           " go on from there",
           Scope.LOGS, (Use((_LOG,), footer=_SPARE, palette=False), Use((_O,), palette=False))),
    Action("all", "0", "all", "All of it", Scope.LOOKING, (
        Use((_LOGS,), "show_merged", label="merged", footer=_YES, help="All components in one, by time"),
        Use((_METRICS,), "reset", footer=_SPARE, help="The whole run, read at its end"),
        Use((_GPUS,), "scale(2)", help="Memory over all the time that is known"),
        Use((_ROLLOUTS,), "toggle_all",
            help="Also the samples that no batch took, and only the batch again"),
    )),
    Action("whole", "T", "whole", "As it was written, or as it is best read", Scope.LOOKING, (
        Use((_LOG,), "toggle('whole')", label="whole lines", palette=False,
            help="Lines as they were written, or a narrow column before messages and figures by short names"),
        Use((_ROLLOUTS,), "toggle_raw", label="raw",
            help="The record as it was written, or the conversation"),
    )),
    Action("log.wrap", "w", "wrap", "Break long lines or cut them", Scope.LOGS,
           (Use((_LOG,), "toggle('wrap')", footer=_SPARE, palette=False),)),
    Action("log.follow", "ctrl+g", "follow", "Stick to the newest lines, or stay", Scope.LOGS,
           (Use((_LOG,), "toggle_follow", palette=False),)),
    Action("log.pager", "P", "pager", "Open the log's file in $PAGER", Scope.LOGS,
           (Use((_LOG,), palette=False),)),
    Action("scale.closer", "plus,equals_sign", "closer", "See less of the time", Scope.CHARTS, (
        Use((_METRICS,), "scale(0.5)", footer=_SPARE,
            help="See less of the run, around the cursor or up to the end"),
        Use((_GPUS,), "scale(0.5)", footer=_YES, help="Memory over the last ten minutes"),
    )),
    Action("scale.wider", "minus", "wider", "See more of the time", Scope.CHARTS, (
        Use((_METRICS,), "scale(2)", footer=_SPARE, help="See more of the run"),
        Use((_GPUS,), "scale(2)", footer=_YES, help="Memory over all the time that is known"),
    )),
    Action("read.back", "comma", "read", "Read all series at a step: further back", Scope.CHARTS,
           (Use((_METRICS,), "cursor(-1)", footer=_YES),), palette=False),
    Action("read.on", "full_stop", "read", "Read all series at a step: further on", Scope.CHARTS,
           (Use((_METRICS,), "cursor(1)"),), palette=False),
    Action("pan.back", "shift+left", "pan back", "What came before", Scope.CHARTS,
           (Use((_METRICS,), "pan(-1)"),), palette=False),
    Action("pan.on", "shift+right", "pan on", "What came after", Scope.CHARTS,
           (Use((_METRICS,), "pan(1)"),), palette=False),
    Action("chart.smooth", "M", "smooth", "Means of the last 5, 20 or 100 points, and the points themselves",
           Scope.CHARTS, (Use((_METRICS,), "switch('smoothing')", footer=_YES),)),
    Action("chart.axis", "at", "step/time", "By step or by time", Scope.CHARTS,
           (Use((_METRICS,), "switch('by_time')", footer=_YES),)),
    Action("chart.log", "circumflex_accent", "log", "The chosen chart's scale: linear or logarithmic",
           Scope.CHARTS, (Use((_METRICS,), "switch('log')", footer=_YES),)),
    Action("chart.outliers", "percent_sign", "outliers", "Cut outliers off, and show them", Scope.CHARTS,
           (Use((_METRICS,), "switch('robust')", footer=_SPARE),)),
    Action("back", "escape", "back", "Back: from a search, a zoom, a selection; then to the overview",
           Scope.GLOBAL, (
        Use((_O,), "show_overview", help="Back from zoom to all panes"),
        Use((_GPUS, _CHECKPOINTS, _EVALS), "show_overview", label="overview", footer=_YES,
            help="Back to the overview"),
        Use((_QUEUE,), "show_screen('runs')", label="runs", footer=_YES, help="Back to the runs"),
        Use((_LOGS,), "leave", footer=_YES,
            help="End the search, back to what was found, or to the overview"),
        Use((_LOG,), "leave", label="all lines",
            help="End the search, show all lines, forget the matches"),
        Use((_CONFIG,), label="overview", footer=_YES, help="End the search; back to the overview"),
        Use((_EVENTS,), label="overview", footer=_YES,
            help="End the search, show all again; back to the overview"),
        Use((_METRICS,), label="overview", footer=_YES,
            help="End the filter, then the zoom; back to the overview"),
        Use((_ROLLOUTS,), footer=_YES,
            help="End the search, the comparison, the reading; back to the overview"),
        Use((_RUNS,), help="End the filter, take the marks away; back"),
        Use((_COMPARE,), label="runs", footer=_YES, help="Back to the runs"),
    ), palette=False),
    Action("detach", "q", "detach", "Leave; everything keeps running", Scope.GLOBAL,
           (Use(SCREENS, "app.detach", footer=_KEPT),)),
    Action("tour", "", "tour", "Show the five steps for who is new here", Scope.GLOBAL,
           (Use(_OF_ONE, "show_tour"),)),
    Action("interrupt", "ctrl+c", "interrupt", "Stops nothing: says how to leave", Scope.GLOBAL,
           (Use(SCREENS, "app.explain_interrupt"),), palette=False),
    _own("arrange.left", "h,left", "move('left')", "left", "To the column at the left", _AR, _AP),
    _own("arrange.down", "j,down", "move('down')", "down", "Carry it further down", _AR, _AP),
    _own("arrange.up", "k,up", "move('up')", "up", "Carry it further up", _AR, _AP),
    _own("arrange.right", "l,right", "move('right')", "right", "To the column at the right", _AR, _AP),
    _own("arrange.higher", "plus", "resize(0, 1)", "higher", "More rows for it", _AR, _AP),
    _own("arrange.lower", "minus", "resize(0, -1)", "lower", "Fewer rows", _AR, _AP),
    _own("arrange.wider", "greater_than_sign", "resize(1, 0)", "wider", "A wider column", _AR, _AP),
    _own("arrange.narrower", "less_than_sign", "resize(-1, 0)", "narrower", "A narrower one", _AR, _AP),
    _own("arrange.hide", "x", "hide", "hide", "Hide it", _AR, _AP),
    _own("arrange.charts", "c", "charts", "charts", "Show charts beside the others, or no more", _AR, _AP),
    _own("arrange.all", "a", "show_all", "all", "Show what was hidden", _AR, _AP),
    _own("arrange.usual", "0,equals_sign", "usual", "as usual", "As the layout has them", _AR, _AP),
    _own("arrange.next", "tab,w", "focus_beside(1)", "next", "Go on with the next panel", _AR, _AP),
    _own("arrange.previous", "shift+tab", "focus_beside(-1)", "previous", "The panel before", _AR, _AP),
    _own("arrange.end", "escape,enter,ctrl+w,q", "end", "end", "That is all", _AR, _AP),
    _own("columns.toggle", "space", "show_column", "show or not", "Show the column, or no more", _CO, _CP),
    _own("columns.left", "shift+up", "carry(-1)", "left", "Further to the left", _CO, _CP),
    _own("columns.right", "shift+down", "carry(1)", "right", "Further to the right", _CO, _CP),
    _own("columns.usual", "backspace", "usual", "usual", "The usual ones", _CO, _CP),
    _own("columns.field", "tab,shift+tab", "other_field", "add",
         "A line for a metric or a config key, and back", _CO, _CP),
    _own("columns.keep", "enter", "keep", "keep", "These columns", _CO, _CP),
    _own("columns.cancel", "escape", "cancel", "cancel", "The columns as they were", _CO, _CP),
    _own("columns.down", "down,j", "cursor(1)", "down", "", _CO, _CP),
    _own("columns.up", "up,k", "cursor(-1)", "up", "", _CO, _CP),
    _own("columns.page-down", "pagedown", "page(1)", "page down", "", _CO, _CP),
    _own("columns.page-up", "pageup", "page(-1)", "page up", "", _CO, _CP),
    _own("editor.write", "enter", "answer('write')", "write", "Write the file, restart nothing", _E, _F),
    _own("editor.write-restart", "ctrl+r", "answer('restart')", "write + restart",
         "Write the file and restart what reads the knob", _E, _F),
    _own("editor.collect", "ctrl+n", "answer('collect')", "collect",
         "Write nothing yet: collect it, to be written with others", _E, _F),
    _own("editor.unset", "ctrl+x", "unset", "default",
         "Take the key out of the file, so that the default counts", _E, _F),
    _own("editor.cancel", "escape", "cancel", "cancel", "Leave the file as it is", _E, (KeyContext.EDITOR,)),
    _own("editor.more", "up", "step(1)", "more", "One step up, or the choice before", _E, _STEPPED),
    _own("editor.less", "down", "step(-1)", "less", "One step down, or the next choice", _E, _STEPPED),
    _own("editor.double", "asterisk", "scale(2)", "×2", "Twice the number", _E, (KeyContext.NUMBER,)),
    _own("editor.halve", "slash", "scale(0.5)", "÷2", "Half the number", _E, (KeyContext.NUMBER,)),
    _own("editor.finer-less", "left", "move(-0.01)", "-0.01", "", _E, (KeyContext.FRACTION,)),
    _own("editor.finer-more", "right", "move(0.01)", "+0.01", "", _E, (KeyContext.FRACTION,)),
    _own("editor.next-choice", "space", "step(-1)", "next", "", _E, (KeyContext.CHOICE,)),
    _own("editor.remove-item", "ctrl+k", "remove_item", "remove", "", _E, _LIST),
    _own("editor.item-up", "shift+up", "carry_item(-1)", "move up", "", _E, _LIST),
    _own("editor.item-down", "shift+down", "carry_item(1)", "move down", "", _E, _LIST),
    _own("editor.item-left", "left", "move(-1)", "left", "", _E, _LIST),
    _own("editor.item-right", "right", "move(1)", "right", "", _E, _LIST),
    _own("editor.item-start", "home", "move_to(0)", "start", "", _E, _LIST),
    _own("editor.item-end", "end", "move_to(-1)", "end", "", _E, _LIST),
    _own("editor.item-backspace", "backspace", "delete(-1)", "delete left", "", _E, _LIST),
    _own("editor.item-delete", "delete", "delete(0)", "delete", "", _E, _LIST),
    _own("converter.cancel", "escape", "cancel", "cancel", "", _D, (KeyContext.CONVERTER,)),
    _own("note.cancel", "escape", "cancel", "cancel", "", _D, (KeyContext.NOTE,)),
    _own("evaluate.cancel", "escape", "cancel", "cancel", "", _D, _ASKING),
    _own("evaluate.next", "down", "step(1)", "next", "", _D, _ASKING),
    _own("evaluate.previous", "up", "step(-1)", "previous", "", _D, _ASKING),
    _own("review.restart", "ctrl+r", "restart", "write + restart",
         "In a review: write, and restart what reads it", _D, (KeyContext.REVIEW,)),
    _own("dialog.yes", "y", "yes", "yes", "Do it", _D, (KeyContext.DIALOG,)),
    _own("dialog.no", "escape,n", "no", "no", "Leave things as they are", _D, (KeyContext.DIALOG,)),
    _own("dialog.scroll-down", "down,pagedown", "scroll_lines(4)", "down", "Scroll down",
         _D, (KeyContext.BOX,)),
    _own("dialog.scroll-up", "up,pageup", "scroll_lines(-4)", "up", "Scroll up", _D, (KeyContext.BOX,)),
    _own("dialog.other", "left,right", "other", "other button", "The other button; enter presses it",
         _D, (KeyContext.DIALOG,)),
    _own("tour.next", "enter,right", "tour(1)", "next", "", _D, (KeyContext.TOUR,)),
    _own("tour.back", "left", "tour(-1)", "back", "", _D, (KeyContext.TOUR,)),
    _own("tour.end", "escape", "end_tour", "end", "", _D, (KeyContext.TOUR,)),
    _own("palette.choose", "enter", "choose", "choose", "", _D, _PALETTE),
    _own("palette.cancel", "escape", "cancel", "cancel", "", _D, _PALETTE),
    _own("palette.down", "down,ctrl+n", "cursor(1)", "down", "", _D, _PALETTE),
    _own("palette.up", "up,ctrl+p", "cursor(-1)", "up", "", _D, _PALETTE),
    _own("palette.page-down", "pagedown", "page(1)", "page down", "", _D, _PALETTE),
    _own("palette.page-up", "pageup", "page(-1)", "page up", "", _D, _PALETTE),
    _own("help.all", "question_mark", "screen.show_all", "all", "", _D,
         (KeyContext.HELP, KeyContext.HELP_LINE)),
    _own("help.close", "escape", "close", "close", "", _D, _HELP),
    _own("help.down", "down", "scroll_page(2)", "down", "", _D, _HELP),
    _own("help.up", "up", "scroll_page(-2)", "up", "", _D, _HELP),
    _own("help.page-down", "pagedown", "scroll_page(16)", "page down", "", _D, _HELP),
    _own("help.page-up", "pageup", "scroll_page(-16)", "page up", "", _D, _HELP),
)  # fmt: skip

_remapped: dict[str, str] = {}
"""Keys that a person has chosen, by the ids of the actions; empty takes them away."""
_DEFAULT_KEYS = {action.id: action.default_keys for action in ACTIONS}
ACTION_IDS = _DEFAULT_KEYS.keys()
NO_KEY = "none"
"""Stands for no key, which Textual's bindings and keymaps cannot say: no key has that name."""


def remap(keys: Mapping[str, str]) -> None:
    """From now on these actions have these keys; all others those of the table. One app has the terminal."""
    _remapped.clear()
    _remapped.update(keys)


def keys_of(action_id: str) -> str:
    """Textual key names, comma-separated, as they are mapped now; empty: by the palette alone."""
    return _remapped.get(action_id, _DEFAULT_KEYS[action_id])


class _Keys(dict[str, str]):
    """Of actions, by their ids with underscores."""

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


def uses(place: KeyContext | None = None) -> Iterator[Use]:
    """All uses in the table's order, or those in one place."""
    for action in ACTIONS:
        yield from (use for use in action.uses if place is None or place in use.places)


def bindings(place: KeyContext, *, priority: bool = False) -> list[BindingType]:
    """Textual bindings of what works there, with the keys of the table; a keymap overrides them.

    `priority`: before what the focused widget has on these keys.
    """
    return [
        Binding(
            _DEFAULT_KEYS[use.id] or NO_KEY,
            use.name,
            use.label,
            show=use.footer is not Footer.NO,
            tooltip=use.help,
            id=use.id,
            priority=priority,
        )
        for use in uses(place)
    ]


def offered_on(screen: KeyContext) -> tuple[Use, ...]:
    return tuple(use for use in uses() if use.palette and any(place.screen is screen for place in use.places))


def offered_in(pane: KeyContext) -> tuple[Use, ...]:
    named = {action.id for action in ACTIONS if action.palette}
    return tuple(use for use in uses(pane) if use.id in named and not use.palette)


CHANGING_CALLS = frozenset(use.call for use in uses() if use.changes)
"""Methods and parameters that a client which may only look must not run."""


def changing_keys(place: KeyContext) -> Mapping[str, Sequence[tuple[str, tuple[object, ...]]]]:
    """The keys that would change the experiment there, with what they call."""
    found: dict[str, list[tuple[str, tuple[object, ...]]]] = {}
    for use in uses(place):
        if use.changes and use.keys:
            for key in use.keys.split(","):
                found.setdefault(key, []).append(use.call)
    return found
