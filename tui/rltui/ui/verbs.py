"""The actions that several screens have: one key, one verb; a screen only says what it is done to there."""

from __future__ import annotations

from rltui.ui.actions import Action, Scope

OPEN = Action("open", "enter", "open", "Open, edit or use the item under the cursor", Scope.PICKING)
COMPONENT_START = Action("component.start", "s", "start", "Start the selected component, or an evaluation",
                         Scope.COMPONENTS, changes=True)  # fmt: skip
COMPONENT_STOP = Action("component.stop", "x", "stop", "Stop the selected component or evaluation",
                        Scope.COMPONENTS, changes=True)  # fmt: skip
COMPONENT_RESTART = Action("component.restart", "r", "restart",
                           "Restart the selected component or queued run", Scope.COMPONENTS,
                           changes=True)  # fmt: skip
COMPONENT_INFERENCE = Action("component.inference", "i", "inference", "Select inference", Scope.COMPONENTS)
COMPONENT_ORCHESTRATOR = Action("component.orchestrator", "o", "orchestrator", "Select orchestrator",
                                Scope.COMPONENTS)  # fmt: skip
COMPONENT_TRAINER = Action("component.trainer", "t", "trainer", "Select trainer", Scope.COMPONENTS)
COMPONENT_FULL_LOG = Action("component.full-log", "L", "log", "Open the log in full width",
                            Scope.COMPONENTS)  # fmt: skip
PROCESS_FREE = Action("process.free", "K", "end", "End a leftover process; names it and asks first",
                      Scope.COMPONENTS, changes=True)  # fmt: skip
EDIT = Action("edit", "e", "edit", "Edit the knob, or the tags of the run", Scope.PICKING,
              changes=True)  # fmt: skip
UNDO = Action("undo", "u", "undo", "Undo the last change", Scope.PICKING, changes=True)
KNOB_DIFF = Action("knob.diff", "d", "diff", "Show differences: files, running config, original",
                   Scope.KNOBS)  # fmt: skip
KNOB_CONVERT = Action("knob.convert", "", "convert", "Count the batch in tokens, or in rollouts",
                      Scope.KNOBS, changes=True)  # fmt: skip
FILTER = Action("filter", "f", "filter", "Filter by kind", Scope.LOOKING)
SORT = Action("sort", "greater_than_sign", "sort", "Sort by the next column or order", Scope.LOOKING)
SORT_BACK = Action(
    "sort.back", "less_than_sign", "sort back", "Sort by the previous column or order", Scope.LOOKING
)
SEARCH = Action("search", "slash", "search", "Search as you type; enter keeps the search, esc cancels",
                Scope.LOOKING)  # fmt: skip
GROUP = Action("group", "b", "fold", "Fold related lines, or show every line", Scope.LOOKING)
DESCRIBE = Action("describe", "I", "describe", "Describe: command, variables, folder, pid, ports, attempts",
                  Scope.PICKING)  # fmt: skip
DASHBOARD = Action("dashboard", "O", "dashboard", "Show this in the web dashboard of the framework",
                   Scope.LOOKING)  # fmt: skip
COMPARE = Action("compare", "c", "compare", "Compare with others", Scope.PICKING)
MARK = Action("mark", "m", "mark", "Mark or unmark the item under the cursor", Scope.PICKING)
COPY = Action("copy", "y", "copy", "Copy the selection or the item under the cursor", Scope.PICKING)
WRITE = Action("write", "W", "write", "Write to a file: edits, lines, a chart, samples, a report",
               Scope.PICKING)  # fmt: skip
PIN = Action("pin", "p", "pin", "Pin to the top, or unpin", Scope.PICKING)
REMOVE = Action("remove", "delete,backspace", "remove", "Remove; asks first where files are deleted",
                Scope.PICKING, changes=True)  # fmt: skip
FORK = Action("fork", "Y", "fork", "Fork: start another run from this one", Scope.PICKING, changes=True)
STEP = Action("step", "J", "step", "Jump to a step; :120 does the same", Scope.GLOBAL)
NOTE = Action("note", "number_sign", "note", "Add a note to the run", Scope.GLOBAL)
CHARTS = Action("charts", "C", "charts", "Show the charts: with the panes, or at this event", Scope.CHARTS)
SCREEN_ROLLOUTS = Action("screen.rollouts", "5", "rollouts", "Rollouts: what the model wrote, with rewards",
                         Scope.SCREENS)  # fmt: skip
SCREEN_QUEUE = Action("screen.queue", "Q", "queue", "Queue: runs that start automatically", Scope.SCREENS)
MESSAGES = Action("messages", "exclamation_mark", "messages", "Show past messages: alerts, errors, actions",
                  Scope.GLOBAL)  # fmt: skip
PANE_NEXT = Action("pane.next", "tab", "next pane", "Go to the next pane, list or log", Scope.MOVING)
PANE_PREVIOUS = Action("pane.previous", "shift+tab", "previous pane", "Go to the previous pane, list or log",
                       Scope.MOVING)  # fmt: skip
ZOOM = Action("zoom", "z", "zoom", "Zoom the pane or chart to the whole screen, and back", Scope.LOOKING)
CURSOR_DOWN = Action("cursor.down", "down", "down", "Move down", Scope.MOVING)
CURSOR_UP = Action("cursor.up", "up", "up", "Move up", Scope.MOVING)
CURSOR_NEXT = Action("cursor.next", "j", "next", "Go to the next component, row or chart", Scope.MOVING)
CURSOR_PREVIOUS = Action("cursor.previous", "k", "previous", "Go to the previous component, row or chart",
                         Scope.MOVING)  # fmt: skip
CURSOR_LEFT = Action("cursor.left", "left,h", "left", "Move left; in a tree, fold", Scope.MOVING)
CURSOR_RIGHT = Action("cursor.right", "right,l", "right", "Move right; in a tree, unfold", Scope.MOVING)
PAGE_DOWN = Action("page.down", "pagedown,space", "page down", "Move down by a page", Scope.MOVING)
PAGE_UP = Action("page.up", "pageup", "page up", "Move up by a page", Scope.MOVING)
PAGE_HALF_DOWN = Action("page.half-down", "ctrl+d", "half page down", "Move down by half a page",
                        Scope.MOVING)  # fmt: skip
PAGE_HALF_UP = Action("page.half-up", "ctrl+u", "half page up", "Move up by half a page", Scope.MOVING)
CURSOR_FIRST = Action("cursor.first", "g,home", "first", "Go to the beginning", Scope.MOVING)
CURSOR_LAST = Action("cursor.last", "G,end", "last", "Go to the end; a log follows new lines from there",
                     Scope.MOVING)  # fmt: skip
EARLIER = Action("earlier", "left_square_bracket", "earlier", "Go to the earlier attempt, step or mark",
                 Scope.MOVING)  # fmt: skip
LATER = Action("later", "right_square_bracket", "later", "Go to the later attempt, step or mark",
               Scope.MOVING)  # fmt: skip
FIND_NEXT = Action("find.next", "n", "next match", "Go to the next match", Scope.MOVING)
FIND_PREVIOUS = Action("find.previous", "N", "previous match", "Go to the previous match", Scope.MOVING)
FIND_ERRORS = Action("find.errors", "E", "errors", "Go to the newest error in any log; again: the previous",
                     Scope.LOGS)  # fmt: skip
ALL = Action("all", "0", "all", "Show all: every component, the whole run, all samples", Scope.LOOKING)
WHOLE = Action("whole", "T", "raw", "Show the text as written, or formatted", Scope.LOOKING)
SCALE_CLOSER = Action("scale.closer", "plus,equals_sign", "closer", "Show less time", Scope.CHARTS)
SCALE_WIDER = Action("scale.wider", "minus", "wider", "Show more time", Scope.CHARTS)
BACK = Action("back", "escape", "back", "Go back: end a search or zoom, then leave the screen", Scope.GLOBAL,
              palette=False)  # fmt: skip
HELP_ALL = Action("help.all", "question_mark", "all", "", Scope.DIALOG)
