"""The palette: the table of actions, as far as they make sense now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from inspect import unwrap

from textual import work
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.css.query import NoMatches

from rltui.ui.actions import Use, offered_on
from rltui.ui.requests import MainScreen
from rltui.ui.screens.dialogs import AnsweredOnce

_gather_commands = unwrap(CommandPalette._gather_commands)  # noqa: SLF001 - overridden below


class Palette(CommandPalette, AnsweredOnce[None]):
    """Textual's palette, whose list takes keys once it is laid out: before, Textual has no lines to go to."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the list can answer yet."""
        if action == "command_list":
            return any(commands.scrollable_content_region for commands in self.query(CommandList))
        return super().check_action(action, parameters)

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP)  # noqa: SLF001 - what Textual cancels
    async def _gather_commands(self, search_value: str) -> None:
        """As Textual does; while palette or app are being closed, the parts it fills go at any time."""
        with suppress(NoMatches):
            await _gather_commands(self, search_value)


class ActionCommands(Provider):
    """Offers each action whose `check_action` says yes."""

    def _offered(self) -> Iterator[Use]:
        screen = self.screen
        if isinstance(screen, MainScreen):
            yield from (
                action for action in offered_on(screen.place) if screen.check_action(*action.call) is True
            )

    @staticmethod
    def _text(action: Use) -> str:
        return f"{action.help} ({action.shown_keys})"

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for action in self._offered():
            yield DiscoveryHit(self._text(action), partial(self.screen.run_action, action.name))

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for action in self._offered():
            if (score := matcher.match(self._text(action))) > 0:
                run = partial(self.screen.run_action, action.name)
                yield Hit(score, matcher.highlight(self._text(action)), run)
