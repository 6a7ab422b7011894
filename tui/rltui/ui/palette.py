"""The palette: the table of actions, as far as they make sense now."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from rltui.ui.actions import ACTIONS, Action, key_text


class ActionCommands(Provider):
    """Offers each action whose `check_action` says yes."""

    def _offered(self) -> Iterator[Action]:
        for action in ACTIONS:
            if action.palette and self._possible(action):
                yield action

    def _possible(self, action: Action) -> bool:
        name: str = action.method
        parameters: tuple[object, ...] = ()
        if "(" in action.name:
            from textual.actions import parse

            _, name, parameters = parse(action.name)
        return self.screen.check_action(name, parameters) is True

    @staticmethod
    def _text(action: Action) -> str:
        return f"{action.help} ({key_text(action.keys)})"

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
