"""The tour: five steps for who sees the overview for the first time, each beside what it speaks of."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.events import Resize
from textual.geometry import Offset, Region, Size
from textual.widget import Widget
from textual.widgets import Static

from rltui.core import hints
from rltui.ui.actions import Scope, key_of, with_keys
from rltui.ui.key_bindings import own
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.body import PaneActions
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobPanel
from rltui.ui.widgets.panes import ReaderPane

_SIZE = Size(58, 5)
"""Of the box, with its border."""
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
        """The text with the keys as they are mapped now."""
        return with_keys(self.text)


STEPS = (
    TourStep(
        "Panes",
        "Each component has a pane with its log, live.\n"
        "{pane_next} next pane · {zoom} the whole screen · {search} search\n"
        "{component_start} start · {component_stop} stop · {component_restart} restart what is selected",
        ReaderPane,
    ),
    TourStep(
        "Knobs and plans",
        "{knob_focus} goes to the knobs, {open} edits one, checked.\n"
        "Before anything happens a plan shows what restarts and\n"
        "what that loses. {undo} takes an edit back.",
        KnobPanel,
    ),
    TourStep(
        "GPUs",
        "Whose memory it is, and how much each may take.\n"
        "{screen_gpus} has processes and history,\n"
        "{process_free} ends what outlived its component.",
        GpuPanel,
    ),
    TourStep(
        "Anything, by a few letters",
        "{palette} finds them all: actions, knobs, runs, checkpoints,\n"
        "themes, settings, words in the logs.\n"
        "{help} tells which keys work right here.",
        KeyBar,
    ),
    TourStep(
        "Leaving stops nothing",
        "{detach} leaves, a lost connection leaves: the run goes on.\n"
        f"`rltui` opens it again, `{hints.DOWN(name='NAME')}` ends it.\n"
        "{palette} tour shows these five steps again.",
        KeyBar,
    ),
)


def place_beside(target: Region, box: Size, screen: Size) -> Offset:
    """Where `box` covers nothing of `target`, if that can be: left, right, above, below; else its corner."""
    room = Region(0, 1, screen.width, screen.height - 2)
    candidates = (
        Offset(target.x - box.width, target.y + 1),
        Offset(target.right, target.y + 1),
        Offset(target.x + 2, target.y - box.height),
        Offset(target.x + 2, target.bottom),
    )
    for at in candidates:
        if room.contains_region(Region.from_offset(at, box)):
            return at
    corner = Offset(target.right - box.width - 1, target.bottom - box.height - 1)
    return Offset(
        max(0, min(corner.x, screen.width - box.width)), max(1, min(corner.y, room.bottom - box.height))
    )


class TourBox(Static):
    """Shows a step. It never has the focus: all keys but its own go where they always go."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.at = 0

    def on_mount(self) -> None:
        self.styles.width, self.styles.height = _SIZE
        self.show()

    def show(self) -> None:
        """The present step, beside what it speaks of."""
        step = STEPS[self.at]
        self.border_title = Content(f"{self.at + 1}/{len(STEPS)} {step.title}")
        back = f"{key_of('tour.back')} back · " if self.at else ""
        last = self.at == len(STEPS) - 1
        more = f"{key_of('tour.next')} {'done' if last else 'next'}"
        self.border_subtitle = Content(f"{more} · {back}{key_of('tour.end')} no more of this")
        self.update(Content(step.words))
        self.place()

    def place(self) -> None:
        shown = (each for each in self.screen.query(STEPS[self.at].beside) if each.region.area)
        region = next((each.region for each in shown), self.screen.region)
        self.offset = place_beside(region, _SIZE, self.app.size)


TOUR_KEYS = (
    own("tour.next", "enter,right", "tour(1)", "next", "", Scope.DIALOG),
    own("tour.back", "left", "tour(-1)", "back", "", Scope.DIALOG),
    own("tour.end", "escape", "end_tour", "end", "", Scope.DIALOG),
)  # fmt: skip


class TourActions(PaneActions):
    """The keys of the tour, which are its own only while it is shown."""

    @property
    def tour(self) -> TourBox | None:
        return next(iter(self.query(TourBox)), None)

    def on_resize(self, event: Resize) -> None:
        del event
        self.call_after_refresh(self.begin_tour)

    def on_screen_resume(self) -> None:
        """Somebody may have asked for it elsewhere."""
        self.begin_tour()

    def begin_tour(self) -> None:
        """Where it is wanted and there is room."""
        width, height = self.app.size
        has_room = width >= _LEAST_ROOM.width and height >= _LEAST_ROOM.height
        if (tour := self.tour) is not None:
            tour.place()
        elif self.home.wants_tour and has_room and self.is_current and self.shared.status is not None:
            self.mount(TourBox())
            self.refresh_bindings()

    def action_show_tour(self) -> None:
        self.home.wants_tour = True
        if (tour := self.tour) is None:
            self.begin_tour()
        else:
            tour.at = 0
            tour.show()

    def action_tour(self, steps: int) -> None:
        """On, or back; behind the last one it ends."""
        if (tour := self.tour) is None:
            return
        if tour.at + steps >= len(STEPS):
            self.action_end_tour()
            return
        tour.at = max(0, tour.at + steps)
        tour.show()

    def action_end_tour(self) -> None:
        if (tour := self.tour) is not None:
            tour.remove()
            self.home.wants_tour = False
            self.home.kept.note("tour", "seen")
            self.keep()
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Its keys are its own only while it is shown."""
        if action in ("tour", "end_tour"):
            return self.tour is not None and super().check_action(action, parameters)
        return super().check_action(action, parameters)
