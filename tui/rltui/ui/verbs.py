"""The actions that several screens have: one key, one meaning; a screen says what it is done to there."""

from __future__ import annotations

from rltui.ui.actions import Action, Scope

OPEN = Action("open", "enter", "open", "Open what is under the cursor, or do what it is for", Scope.PICKING)
COMPONENT_START = Action("component.start", "s", "start",
                         "Start the selected component, at once where it would start again later",
                         Scope.COMPONENTS, changes=True)  # fmt: skip
COMPONENT_STOP = Action("component.stop", "x", "stop", "Stop the selected component, plan first",
                        Scope.COMPONENTS, changes=True)  # fmt: skip
COMPONENT_RESTART = Action("component.restart", "r", "restart",
                           "Restart the selected component and what must restart with it, plan first",
                           Scope.COMPONENTS, changes=True)  # fmt: skip
COMPONENT_START_ALL = Action("component.start-all", "S", "start all", "Start everything, plan first",
                             Scope.COMPONENTS, changes=True)  # fmt: skip
COMPONENT_STOP_ALL = Action("component.stop-all", "D", "stop all", "Stop everything, plan first",
                            Scope.COMPONENTS, changes=True)  # fmt: skip
COMPONENT_INFERENCE = Action("component.inference", "i", "inference", "Go to inference", Scope.COMPONENTS)
COMPONENT_ORCHESTRATOR = Action("component.orchestrator", "o", "orchestrator", "Go to orchestrator",
                                Scope.COMPONENTS)  # fmt: skip
COMPONENT_TRAINER = Action("component.trainer", "t", "trainer", "Go to trainer", Scope.COMPONENTS)
COMPONENT_FULL_LOG = Action("component.full-log", "L", "full log",
                            "Open the log of the selected component in full width",
                            Scope.COMPONENTS)  # fmt: skip
PROCESS_FREE = Action("process.free", "K", "leftovers",
                      "End processes that outlived their component: names them, and asks", Scope.COMPONENTS,
                      changes=True)  # fmt: skip
EDIT = Action("edit", "e", "edit", "Edit the knob under the cursor", Scope.KNOBS, changes=True)
UNDO = Action("undo", "u", "undo", "Take the last edit of the config back, plan first", Scope.KNOBS,
              changes=True)  # fmt: skip
KNOB_DIFF = Action("knob.diff", "d", "differs",
                   "Show where the files differ from what runs, and a copy from its original",
                   Scope.KNOBS)  # fmt: skip
KNOB_CONVERT = Action("knob.convert", "C", "convert",
                      "Count the batch in tokens instead of rollouts, or back",
                      Scope.KNOBS, changes=True)  # fmt: skip
FILTER = Action("filter", "f", "filter", "Only some of what there is, by kind, and all again", Scope.LOOKING)
SORT = Action("sort", "greater_than_sign", "sort", "Sort by the next column or order", Scope.LOOKING)
SORT_BACK = Action("sort.back", "less_than_sign", "sort back", "Sort by the column or order before",
                   Scope.LOOKING)  # fmt: skip
SEARCH = Action("search", "slash", "search", "Search, and go from match to match", Scope.LOOKING)
GROUP = Action("group", "b", "group", "Fold or group what belongs together, and unfold it", Scope.LOOKING)
COMPARE = Action("compare", "c", "compare", "Put it beside another", Scope.PICKING)
MARK = Action("mark", "m", "mark", "Mark it, or take its mark away", Scope.PICKING)
MARK_GO = Action("mark.go", "apostrophe", "to mark", "Go to a mark", Scope.PICKING)
COPY = Action("copy", "y", "copy", "Copy what is under the cursor", Scope.PICKING)
WRITE = Action("write", "W", "write", "Write it into a file", Scope.PICKING)
PIN = Action("pin", "p", "pin", "Keep it first, or no more", Scope.PICKING)
HIDE = Action("hide", "H", "hide", "Hide it, or show it again", Scope.PICKING)
REMOVE = Action("remove", "delete,backspace", "remove", "Take it away", Scope.PICKING, changes=True)
FORK = Action("fork", "Y", "fork",
              "Start another run with the config of this one, changed, or from a checkpoint", Scope.PICKING,
              changes=True)  # fmt: skip
NOTE = Action("note", "number_sign", "note", "Note something: kept with the events, a mark on the charts",
              Scope.GLOBAL)  # fmt: skip
SCREEN_ROLLOUTS = Action("screen.rollouts", "5", "rollouts",
                         "Open the rollout screen: what the model wrote at each step, and its rewards",
                         Scope.SCREENS)  # fmt: skip
SCREEN_QUEUE = Action("screen.queue", "Q", "queue",
                      "Open the queue: runs that wait for GPUs, and start by themselves",
                      Scope.SCREENS)  # fmt: skip
MESSAGES = Action("messages", "exclamation_mark", "messages",
                  "Read again all that was said: alerts, errors, what was done", Scope.GLOBAL)  # fmt: skip
PANE_NEXT = Action("pane.next", "tab", "next pane", "Go to the next pane or list", Scope.MOVING)
PANE_PREVIOUS = Action("pane.previous", "shift+tab", "previous pane", "Go to the previous pane or list",
                       Scope.MOVING)  # fmt: skip
ZOOM = Action("zoom", "z", "zoom", "Give the pane the whole screen, and back", Scope.LOOKING)
CURSOR_DOWN = Action("cursor.down", "down", "down", "A line down", Scope.MOVING)
CURSOR_UP = Action("cursor.up", "up", "up", "A line up", Scope.MOVING)
CURSOR_NEXT = Action("cursor.next", "j", "next", "The next one: component, knob, row, chart", Scope.MOVING)
CURSOR_PREVIOUS = Action("cursor.previous", "k", "previous", "The one before: component, knob, row, chart",
                         Scope.MOVING)  # fmt: skip
CURSOR_LEFT = Action("cursor.left", "left,h", "left", "To the left", Scope.MOVING)
CURSOR_RIGHT = Action("cursor.right", "right,l", "right", "To the right", Scope.MOVING)
PAGE_DOWN = Action("page.down", "pagedown,space", "page down", "A page down", Scope.MOVING)
PAGE_UP = Action("page.up", "pageup", "page up", "A page up", Scope.MOVING)
PAGE_HALF_DOWN = Action("page.half-down", "ctrl+d", "half page down", "Half a page down; a page in a list",
                        Scope.MOVING)  # fmt: skip
PAGE_HALF_UP = Action("page.half-up", "ctrl+u", "half page up", "Half a page up; a page in a list",
                      Scope.MOVING)  # fmt: skip
CURSOR_FIRST = Action("cursor.first", "g,home", "first", "To the beginning", Scope.MOVING)
CURSOR_LAST = Action("cursor.last", "G,end", "last", "To the end", Scope.MOVING)
MOVE_UP = Action("move.up", "shift+up", "move up", "Carry it further up", Scope.MOVING)
MOVE_DOWN = Action("move.down", "shift+down", "move down", "Carry it further down", Scope.MOVING)
MOVE_FIRST = Action("move.first", "shift+home", "move first", "Carry it to the beginning", Scope.MOVING)
EARLIER = Action("earlier", "left_square_bracket", "earlier", "The one before in time", Scope.MOVING)
LATER = Action("later", "right_square_bracket", "later", "The next one in time", Scope.MOVING)
FIND_NEXT = Action("find.next", "n", "next match", "To the next one that was found", Scope.MOVING)
FIND_PREVIOUS = Action("find.previous", "N", "match before", "To the one found before", Scope.MOVING)
FIND_ERRORS = Action("find.errors", "E", "errors",
                     "To the newest error, in whichever log has one; again to the one before; next and "
                     "previous match go on from there", Scope.LOGS)  # fmt: skip
ALL = Action("all", "0", "all", "All of it", Scope.LOOKING)
WHOLE = Action("whole", "T", "whole", "As it was written, or as it is best read", Scope.LOOKING)
SCALE_CLOSER = Action("scale.closer", "plus,equals_sign", "closer", "See less of the time", Scope.CHARTS)
SCALE_WIDER = Action("scale.wider", "minus", "wider", "See more of the time", Scope.CHARTS)
BACK = Action("back", "escape", "back", "Back: from a search, a zoom, a selection; then to the overview",
              Scope.GLOBAL, palette=False)  # fmt: skip
HELP_ALL = Action("help.all", "question_mark", "all", "", Scope.DIALOG)
