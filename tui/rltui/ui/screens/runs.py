"""The runs screen: living ones first, then all others. Binds and forwards."""

from __future__ import annotations

from typing import ClassVar

from rltui.core.runs import RunRow
from rltui.ui.actions import Place, bindings
from rltui.ui.screens.run_list import RunListScreen


class RunsScreen(RunListScreen):
    """Lies on the overview, or at the bottom where no experiment is open."""

    CSS_PATH: ClassVar = ["runs.tcss"]
    BINDINGS = bindings(Place.RUNS)
    place = Place.RUNS
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - as Textual declares it

    # which are meant

    @property
    def chosen(self) -> tuple[RunRow, ...]:
        """The marked ones; else the run under the cursor, or all of the sweep."""
        if self._marked:
            return tuple(row for row in self._known.rows if row.id in self._marked)
        line = self._table.line
        if line is None:
            return ()
        return line.members if line.row is None else (line.row,)

    def action_mark(self) -> None:
        """Mark it, or take its mark away; then on to the next. A heading: all of the sweep."""
        line = self._table.line
        if line is None:
            return
        ids = {line.row.id} if line.row is not None else {row.id for row in line.members}
        self._marked = self._marked - ids if ids <= self._marked else self._marked | ids
        self._show()
        self._table.move(1)

    # keys

    def action_open(self) -> None:
        """The run; of a heading, unfold or fold it."""
        line = self._table.line
        if line is not None and line.row is None:
            self.action_fold(line.key not in self._selection.folded)
        elif line is not None and line.row is not None:
            screen = "rollouts" if line.row.kind == "evaluation" else ""
            self.post_message(self.RunWanted(line.row.id, screen=screen))

    def action_back(self) -> None:
        """First the filter ends, then the marks go, then the screen."""
        if self._filter.has_class("-shown"):
            self._filter.value = ""
            self._filter.remove_class("-shown")
            self._table.focus()
        elif self._marked:
            self._marked = frozenset()
            self._show()
        elif self.home.shared is not None:
            self.action_show_overview()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what there is something to do for."""
        line = self._table.line
        match action:
            case "open" | "mark":
                possible = line is not None
            case "tag" | "mark_best" | "archive" | "trash":
                possible = bool(self.chosen)
            case "describe":
                possible = len(self.chosen) == 1
            case "undo":
                possible = self.can_undo
            case "filter" | "sort" | "reverse" | "group":
                possible = bool(self._known.rows)
            case "fold":
                possible = self._selection.view.is_grouped
            case _:
                possible = True
        return possible and super().check_action(action, parameters)
