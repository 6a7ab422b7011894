"""The keys that start, stop and restart components."""

from __future__ import annotations

from textual.reactive import reactive

from rltui.core.api import ComponentStatus, Status
from rltui.ui import requests, wishes
from rltui.ui.experiment_screen import ExperimentScreen
from rltui.ui.wishes import Wish


class ComponentActions(ExperimentScreen):
    """Turns keys into requests. A screen of it says which component is selected."""

    status: reactive[Status | None] = reactive(None, init=False, bindings=True)
    """The newest one."""

    @property
    def component(self) -> ComponentStatus | None:
        """The component that the keys act on."""
        raise NotImplementedError

    def carry_out(self, wish: Wish) -> None:
        """Plan it, ask where that is called for, and do it."""
        self.work(
            requests.carry_out(
                self.app,
                self.experiment,
                wish.request,
                wish.heading,
                verb=wish.verb,
                danger=wish.danger,
            )
        )

    def carry_out_action(self, action: str) -> None:
        """What `action` asks for now, if it asks for anything."""
        if (wish := wishes.wish(action, self.status, self.component)) is not None:
            self.carry_out(wish)

    def action_start_component(self) -> None:
        """A plain start needs no question; one that starts more shows its plan."""
        self.carry_out_action("start_component")

    def action_stop_component(self) -> None:
        """Plan first."""
        self.carry_out_action("stop_component")

    def action_kill_component(self) -> None:
        """Asks, default no."""
        self.carry_out_action("kill_component")

    def action_restart_component(self) -> None:
        """Plan first."""
        self.carry_out_action("restart_component")

    def action_start_all(self) -> None:
        """Plan first."""
        self.carry_out_action("start_all")

    def action_stop_all(self) -> None:
        """Plan first, default no."""
        self.carry_out_action("stop_all")

    def action_restart_menu(self) -> None:
        """Which components, and where trainers begin."""
        if (item := self.component) is not None:
            self.work(requests.restart_by_menu(self.app, self.experiment, item.id))

    def action_fix_component(self) -> None:
        """Which edit, then its plan."""
        if (item := self.component) is not None:
            self.work(requests.fix_memory(self.app, self.experiment, item))

    def component_sense(self, action: str) -> bool | None:
        """Whether a component key makes sense now; `None` for other keys."""
        return wishes.makes_sense(action, self.status, self.component)
