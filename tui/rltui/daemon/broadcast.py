"""Hand every change to every subscriber, newest value first where one cannot keep up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

from rltui.core.api import EventKind

Message = tuple[EventKind, bytes]
"""Kind and the encoded value."""

STATES: frozenset[EventKind] = frozenset({"status", "gpus", "knobs"})
"""Kinds of which only the newest value matters."""
BACKLOG = 1000
"""Most journal entries and alerts kept for a subscriber that does not read; the oldest are dropped."""


class Subscription:
    """What one subscriber has yet to receive. Bounded: a slow one costs nothing and slows nobody."""

    def __init__(self) -> None:
        self._latest: dict[EventKind, bytes] = {}
        self._queue: deque[Message] = deque(maxlen=BACKLOG)
        self._filled = asyncio.Event()
        self._closed = False

    def put(self, message: Message) -> None:
        """Add a message; a state replaces an older one not yet taken."""
        kind, value = message
        if kind in STATES:
            self._latest[kind] = value
        else:
            self._queue.append(message)
        self._filled.set()

    def close(self) -> None:
        """End with what is there now."""
        self._closed = True
        self._filled.set()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self._closed or self._filled.is_set():
            await self._filled.wait()
            self._filled.clear()
            pending = [*self._latest.items(), *self._queue]
            self._latest.clear()
            self._queue.clear()
            for message in pending:
                yield message


class Broadcast:
    """The subscriptions, and the current state that a new one receives first."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, current: Iterable[Message]) -> Subscription:
        """A new subscription that begins with `current`. No change between the two is missed."""
        subscription = Subscription()
        for message in current:
            subscription.put(message)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscriber that hung up."""
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Let every subscription end once its subscriber has what there is."""
        for subscription in self._subscriptions:
            subscription.close()

    def publish(self, kind: EventKind, encode: Callable[[], bytes]) -> None:
        """Send a value to all. Encoded once, and only if somebody listens."""
        if not self._subscriptions:
            return
        message = (kind, encode())
        for subscription in self._subscriptions:
            subscription.put(message)
