"""The tour: five steps for who sees the overview for the first time, each beside what it speaks of."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Offset, Region, Size
from textual.widget import Widget
from textual.widgets import Static

from rltui.core import hints
from rltui.ui.actions import Scope, key_of, with_keys
from rltui.ui.base_screen import BaseScreen
from rltui.ui.key_bindings import own
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobPanel
from rltui.ui.widgets.panes import ReaderPane

_SIZE = Size(58, 5)
"""Size of the box, with its border."""
_LEAST_ROOM = Size(62, 14)
"""A smaller screen has no room for it: it comes when there is."""


@dataclass(frozen=True, slots=True)
class TourStep:
    title: str
    text: str
    """Three lines, as for `with_keys`."""
    beside: type[Widget]

    @property
    def words(self) -> str:
        return with_keys(self.text)


STEPS = (
    TourStep(
        "Panes",
        "Each component has a pane with its log, live.\n"
        "{pane_next} next pane · {zoom} the whole screen · {search} search\n"
        "{component_start} start · {component_stop} stop · {component_restart} restart the selected one",
        ReaderPane,
    ),
    TourStep(
        "Knobs and plans",
        "{knob_focus} goes to the knobs, {open} edits one.\n"
        "Before anything happens, a plan shows the restarts\n"
        "and the steps lost. {undo} undoes the last edit.",
        KnobPanel,
    ),
    TourStep(
        "GPUs",
        "Memory by component, with the budget of each.\n"
        "{screen_gpus} shows processes and history,\n"
        "{process_free} ends leftover processes.",
        GpuPanel,
    ),
    TourStep(
        "Find anything",
        "{palette} finds actions, knobs, runs, checkpoints,\n"
        "themes, settings and words in the logs.\n"
        "{help} shows the keys that work here.",
        KeyBar,
    ),
    TourStep(
        "Detaching stops nothing",
        "{detach} or a lost connection detaches; the run continues.\n"
        f"`rltui` opens it again, `{hints.DOWN(name='NAME')}` stops it.\n"
        "{palette} tour replays the tour.",
        KeyBar,
    ),
)


def place_beside(target: Region, box: Size, screen: Size) -> Offset:
    """Offset of `box` where it covers nothing of `target`: left, right, above, below; else in its corner."""
    room = Region(0, 1, screen.width, screen.height - 2)
    candidates = (
        Offset(target.x - box.width, target.y + 1),
        Offset(target.right, target.y + 1),
        Offset(target.x + 2, target.y - box.height),
        Offset(target.x + 2, target.bottom),
    )
    for offset in candidates:
        if room.contains_region(Region.from_offset(offset, box)):
            return offset
    corner = Offset(target.right - box.width - 1, target.bottom - box.height - 1)
    return Offset(
        max(0, min(corner.x, screen.width - box.width)), max(1, min(corner.y, room.bottom - box.height))
    )


class TourBox(Static):
    """Shows a step. It never has the focus: all keys but its own go where they always go."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.index = 0

    def on_mount(self) -> None:
        self.styles.width, self.styles.height = _SIZE
        self.show()

    def show(self) -> None:
        step = STEPS[self.index]
        self.border_title = Content(f"{self.index + 1}/{len(STEPS)} {step.title}")
        back = f"{key_of('tour.back')} back · " if self.index else ""
        last = self.index == len(STEPS) - 1
        more = f"{key_of('tour.next')} {'done' if last else 'next'}"
        self.border_subtitle = Content(f"{more} · {back}{key_of('tour.end')} skip the tour")
        self.update(Content(step.words))
        self.place()

    def place(self) -> None:
        targets = self.screen.query(STEPS[self.index].beside)
        region = next((widget.region for widget in targets if widget.region.area), self.screen.region)
        self.offset = place_beside(region, _SIZE, self.app.size)


TOUR_KEYS = (
    own("tour.next", "enter,right", "tour.go(1)", "next", "", Scope.DIALOG),
    own("tour.back", "left", "tour.go(-1)", "back", "", Scope.DIALOG),
    own("tour.end", "escape", "tour.end", "end", "", Scope.DIALOG),
)  # fmt: skip


class Tour:
    """The tour on a screen; its keys are bound only while it is shown."""

    def __init__(self, screen: BaseScreen) -> None:
        self._screen = screen
        self._app_state = screen.app_state

    @property
    def box(self) -> TourBox | None:
        return next(iter(self._screen.query(TourBox)), None)

    def allows(self, command: str, *arguments: object) -> bool:
        del arguments
        return command == "begin" or self.box is not None

    def show(self) -> None:
        """Begin, or put the box where it covers nothing: where the tour is wanted and there is room."""
        screen = self._screen
        width, height = screen.app.size
        has_room = width >= _LEAST_ROOM.width and height >= _LEAST_ROOM.height
        if (box := self.box) is not None:
            box.place()
        elif (
            self._app_state.wants_tour and has_room and screen.is_current and screen.state.status is not None
        ):
            screen.mount(TourBox())
            screen.refresh_bindings()

    def begin(self) -> None:
        self._app_state.wants_tour = True
        if (box := self.box) is None:
            self.show()
        else:
            box.index = 0
            box.show()

    def go(self, steps: int) -> None:
        if (box := self.box) is None:
            return
        if box.index + steps >= len(STEPS):
            self.end()
            return
        box.index = max(0, box.index + steps)
        box.show()

    def end(self) -> None:
        if (box := self.box) is not None:
            box.remove()
            self._app_state.wants_tour = False
            self._app_state.ui_state.note("tour", "seen")
            self._screen.keep()
            self._screen.refresh_bindings()
