from __future__ import annotations

import asyncio

from rltui.daemon.events import BACKLOG, Broadcast, Message, Subscription


async def take(subscription: Subscription, count: int) -> list[Message]:
    taken: list[Message] = []
    async for message in subscription:
        taken.append(message)
        if len(taken) == count:
            break
    return taken


async def test_subscriber_gets_the_current_state_first_and_then_changes() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe([("status", b"1"), ("gpus", b"2")])
    broadcast.publish("journal", lambda: b"3")
    assert await take(subscription, 3) == [("status", b"1"), ("gpus", b"2"), ("journal", b"3")]


async def test_slow_subscriber_sees_only_the_newest_state_and_every_entry() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe([])
    for number in range(100):
        broadcast.publish("status", lambda number=number: str(number).encode())  # type: ignore[misc]
        broadcast.publish("journal", lambda number=number: str(number).encode())  # type: ignore[misc]
    messages = await take(subscription, 101)
    assert messages[0] == ("status", b"99")
    assert [value for kind, value in messages if kind == "journal"] == [str(n).encode() for n in range(100)]


async def test_backlog_is_bounded() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe([])
    for number in range(BACKLOG + 10):
        broadcast.publish("journal", lambda number=number: str(number).encode())  # type: ignore[misc]
    messages = await take(subscription, BACKLOG)
    assert messages[0] == ("journal", b"10")


async def test_nothing_is_encoded_when_nobody_listens() -> None:
    broadcast = Broadcast()
    broadcast.publish("status", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    subscription = broadcast.subscribe([])
    broadcast.unsubscribe(subscription)
    broadcast.publish("status", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    assert len(broadcast) == 0


async def test_waiting_subscriber_is_woken() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe([])
    waiting = asyncio.create_task(take(subscription, 1))
    await asyncio.sleep(0)
    broadcast.publish("alert", lambda: b"x")
    assert await asyncio.wait_for(waiting, 5) == [("alert", b"x")]
