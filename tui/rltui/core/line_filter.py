"""Which lines of a log to show."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rltui.core.levels import Level, detect_level


@dataclass(slots=True)
class LineFilter:
    """Accepts lines that match `pattern` anywhere and are of `level` or more severe; both are optional.

    Feed it the sanitised lines of one log in order: a line without a level, such as one of a traceback, has
    that of the line before. What precedes the first level counts as `info`.
    """

    pattern: re.Pattern[str] | None = None
    level: Level | None = None
    _current: Level = field(default=Level.INFO, init=False)

    @property
    def is_open(self) -> bool:
        """Whether every line passes."""
        return self.pattern is None and self.level is None

    def accepts(self, text: str) -> bool:
        """Say whether the next line is to be shown."""
        if self.level is not None:
            self._current = detect_level(text) or self._current
            if self._current.severity < self.level.severity:
                return False
        return self.pattern is None or self.pattern.search(text) is not None
