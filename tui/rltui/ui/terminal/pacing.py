"""How often a terminal is painted: by what the line takes, and at once where a person waits."""

from __future__ import annotations

from collections import deque
from statistics import median

FAST_BYTES_PER_S = 8000
SLOW_BYTES_PER_S = 3500
"""What frames that nobody asked for may take, on a slow line."""
LONGEST_PAUSE_S = 0.5
"""Between such frames where the line is not slow, however large the screen."""
SLOW_ANSWER_S = 0.15
"""A line that takes longer to show a frame and to say so is slow."""
PATIENCE_S = 3.0
"""A terminal that has not answered by then does not answer at all."""
WINDOW_BYTES = 8192
"""Written and not shown yet: more than that waits, also where a person waits, or keys would queue up."""


class Pacing:
    """Says when the next frame may be written. After each the terminal is asked whether it is shown."""

    def __init__(self) -> None:
        self._unanswered: deque[tuple[float, int]] = deque()
        self._answers_s: deque[float] = deque(maxlen=5)
        self._next_at = 0.0
        self._asks = True

    @property
    def asks(self) -> bool:
        """Whether to ask after a frame: not where no answer came."""
        return self._asks

    @property
    def is_slow(self) -> bool:
        """Whether the line is noticed as slow."""
        return bool(self._answers_s) and median(self._answers_s) > SLOW_ANSWER_S

    def wait_s(self, now: float, *, hurry: bool) -> float:
        """Seconds until a frame may be written; 0 means now. An answer may shorten it."""
        if self._unanswered and now - self._unanswered[0][0] >= PATIENCE_S:
            self._unanswered.clear()
            self._asks = False
        left = self._unanswered[0][0] + PATIENCE_S - now if self._unanswered else 0.0
        if hurry:
            return left if sum(size for _, size in self._unanswered) >= WINDOW_BYTES else 0.0
        return max(0.0, self._next_at - now, left)

    def wrote(self, now: float, size: int) -> None:
        """A frame of `size` bytes, and the question after it if `asks`."""
        if self._asks:
            self._unanswered.append((now, size))
        pause_s = size / SLOW_BYTES_PER_S if self.is_slow else min(LONGEST_PAUSE_S, size / FAST_BYTES_PER_S)
        self._next_at = max(now, self._next_at) + pause_s

    def answered(self, now: float) -> None:
        """The terminal has shown the oldest frame it was asked about."""
        self._asks = True
        if self._unanswered:
            self._answers_s.append(now - self._unanswered.popleft()[0])
