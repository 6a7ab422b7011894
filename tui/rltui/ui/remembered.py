"""What screens keep of how a person left them, written a moment after it has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from rltui.client.protocol import Runs
from rltui.errors import RltuiError

logger = logging.getLogger(__name__)


class Remembered:
    """The values of one owner (`Runs.kept`). Who changes them calls `write` now and then, and at the end."""

    def __init__(self, runs: Runs, owner: str) -> None:
        """Blocking: it reads a small file."""
        self._runs, self._owner = runs, owner
        self.values: Mapping[str, Any] = dict(runs.kept(owner))
        self._changed: dict[str, Any] = {}

    def note(self, key: str, value: object) -> None:
        """Keep this from now on; plain JSON."""
        if self.values.get(key) != value:
            self.values = {**self.values, key: value}
            self._changed[key] = value

    async def write(self) -> None:
        """What has changed since, beside what another rltui has written meanwhile."""
        if self._changed:
            changed, self._changed = self._changed, {}
            await asyncio.to_thread(self._write, changed)

    def _write(self, changed: Mapping[str, Any]) -> None:
        try:
            self._runs.keep(self._owner, {**self._runs.kept(self._owner), **changed})
        except RltuiError as error:  # the screen is as it should be; the next one is as usual
            logger.warning("not kept: %s", error)
