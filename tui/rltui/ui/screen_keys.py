"""Which keys do something on a screen now, and what is said of those that do nothing."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol

from textual.widget import Widget

from rltui.client.experiment import Experiment
from rltui.ui.actions import CHANGING_CALLS, KeyContext, Use, changing_keys
from rltui.ui.keymap import idle_key
from rltui.ui.requests import OPENS_AGAIN
from rltui.ui.state import AppState

_OF_ONE_RUN = ("show_screen", "search_all", "commands.note", "commands.open_links", "charts.pin",
               "dashboard.show")  # fmt: skip
"""Actions that lead away from runs that are compared, or belong to one of them."""


class KeyedScreen(Protocol):
    """As `BaseScreen`, which has `ScreenKeys`."""

    place: ClassVar[KeyContext]
    app_state: AppState

    @property
    def experiment(self) -> Experiment: ...

    @property
    def focused(self) -> Widget | None: ...

    @property
    def pane_place(self) -> KeyContext | None: ...

    @property
    def readonly_text(self) -> str: ...

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None: ...

    def enabled(self, command: str, *arguments: object) -> bool: ...

    def notify(
        self,
        message: str,
        *,
        severity: Literal["information", "warning", "error"] = "information",
        markup: bool = True,
    ) -> None: ...


class ScreenKeys:
    def __init__(self, screen: KeyedScreen, *, is_compared: bool) -> None:
        """`is_compared`: the screen stands beside others on a comparison."""
        self._screen = screen
        self._is_compared = is_compared

    def allows(self, action: str, parameters: tuple[object, ...]) -> bool:
        """The arguments are those of `check_action`. A part of the screen is asked first (`allows`)."""
        screen, call = self._screen, (action, parameters)
        if call in CHANGING_CALLS and screen.readonly_text:
            is_readonly = screen.app_state.runs.readonly
            if is_readonly or call != OPENS_AGAIN or not screen.experiment.finished:
                return False
        command, arguments = (str(parameters[0]), parameters[1:]) if action == "command" else call
        if self._is_compared and command in _OF_ONE_RUN:
            return False
        owner, _, method = command.rpartition(".")
        allows = getattr(getattr(screen, owner), "allows", None) if owner else None
        return (allows is None or allows(method, *arguments)) and screen.enabled(command, *arguments)

    def can(self, use: Use) -> bool:
        """The key would do something now, on the screen or in the pane that has the keys."""
        screen = self._screen
        owner = screen.focused if screen.pane_place in use.places else screen
        return owner is None or owner.check_action(*use.call) is True

    def explain(self, key: str, *, is_bound: bool) -> None:
        """Say why the key does nothing: where it would change something, each time; else once."""
        screen = self._screen
        calls = changing_keys(screen.place).get(key, ()) if screen.readonly_text else ()
        explained_keys = screen.app_state.explained_keys
        if calls and not any(self.allows(*call) for call in calls):
            self.say_readonly()
        elif key not in explained_keys and not is_bound:
            explained_keys.add(key)
            screen.notify(idle_key(key, screen.place), markup=False)

    def say_readonly(self) -> None:
        self._screen.notify(self._screen.readonly_text, severity="warning", markup=False)
