from __future__ import annotations

import contextlib
import math
import os
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
import zstandard

from rltui.client.transports.frames import Frames, Hello, NoHelloError, Packet, PacketKind, read_hello
from rltui.errors import RltuiError

HELLO = Hello("0.1.0", 1, 1)


@contextlib.contextmanager
def ends() -> Iterator[tuple[Frames, Frames]]:
    """Both ends of a line, of which the first is read by a thread that drops what comes."""
    (here_in, there_out), (there_in, here_out) = os.pipe(), os.pipe()
    here, there = Frames(here_in, here_out), Frames(there_in, there_out)
    reading = threading.Thread(target=lambda: [*iter(here.receive, None)])
    reading.start()
    try:
        yield here, there
    finally:
        there.close()
        reading.join(10)
        here.close()
        assert not reading.is_alive()


def taken(frames: Frames, count: int) -> list[Packet]:
    messages = []
    for _ in range(count):
        message = frames.receive()
        assert message is not None
        messages.append(message)
    return messages


def test_messages_arrive_as_they_were_sent() -> None:
    sent = [
        Packet(1, PacketKind.CALL, {"method": "plan", "params": {"path": "/a b", "at": 1.5}}),
        Packet(2, PacketKind.RESULT, None, b"\0\xff" * 9000),
        Packet(3, PacketKind.ITEM, ["é", None, math.inf], b"x"),
    ]
    with ends() as (here, there):
        for message in sent:
            here.send(message)
        assert sorted(taken(there, 3)) == sent
        here.send(Packet(1, PacketKind.RESULT, math.nan))
        assert math.isnan(taken(there, 1)[0].data)


def test_a_long_message_does_not_hold_up_a_short_one() -> None:
    with ends() as (here, there):
        here.send(Packet(1, PacketKind.RESULT, None, os.urandom(2_000_000)))
        here.send(Packet(2, PacketKind.RESULT, "short"))
        first, second = taken(there, 2)
        assert (first.data, second.channel, len(second.blob)) == ("short", 1, 2_000_000)


def test_little_is_under_way_until_the_other_end_takes_it() -> None:
    with ends() as (here, there):
        sent = threading.Event()
        here.send(Packet(1, PacketKind.ITEM, None, os.urandom(1_000_000)), sent.set)
        assert not sent.wait(0.2)
        assert here.bytes_sent < 150_000
        taken(there, 1)
        assert sent.wait(10)


def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    with ends() as (here, there):
        sentences: list[str] = []
        here.send(Packet(1, PacketKind.ITEM, "large", os.urandom(500_000)), lambda: sentences.append("large"))
        here.send(Packet(1, PacketKind.ITEM, "dropped"), lambda: sentences.append("dropped"))
        here.drop(1)
        here.send(Packet(2, PacketKind.RESULT, "next"))
        assert sentences == ["dropped"]
        assert {message.data for message in taken(there, 2)} == {"next", "large"}


def test_nonsense_is_told_in_words() -> None:
    reading, writing = os.pipe()
    other_in, other_out = os.pipe()
    frames = Frames(reading, other_out)
    os.write(writing, HELLO.line() + b"this is no stream")
    assert frames.read_hello_line() == HELLO
    with pytest.raises(RltuiError, match="invalid data from the other end"):
        frames.receive()
    frames.close()
    for descriptor in (writing, other_in):
        os.close(descriptor)


@pytest.mark.parametrize("noise", [b"", b"Last login: Mon\n", b"no line end", b"rltui-link\n\xff"])
def test_hello_is_found_behind_noise(noise: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, noise + HELLO.line() + b"what follows")
    assert read_hello(reading) == (HELLO, b"what follows")
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("output", [b"", b"bash: rltui: not found\n", b"rltui-link {}\n", b"rltui-link {\n"])
def test_no_hello_says_what_was_said(output: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, output)
    os.close(writing)
    with pytest.raises(NoHelloError) as caught:
        read_hello(reading)
    assert caught.value.output == output
    os.close(reading)


@contextlib.contextmanager
def stranger() -> Iterator[tuple[Frames, Callable[..., None]]]:
    """Frames that have heard a hello, and what says pieces to them: channel, kind, content."""
    reading, writing = os.pipe()
    other_in, other_out = os.pipe()
    frames = Frames(reading, other_out)
    compressing = zstandard.ZstdCompressor().compressobj()

    def say(channel: int, kind: int, content: bytes) -> None:
        piece = struct.pack("!IBI", channel, kind, len(content)) + content
        data = compressing.compress(piece) + compressing.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        os.write(writing, data)

    os.write(writing, HELLO.line())
    frames.read_hello_line()
    try:
        yield frames, say
    finally:
        os.close(writing)
        frames.close()
        os.close(other_in)


@pytest.mark.parametrize("answer", ["Infinity", "NaN", '"x"', "[]", "null", "1e999", "[" * 5000])
def test_an_acknowledgement_of_any_shape_is_told_in_words(answer: str) -> None:
    with stranger() as (frames, say):
        say(0, PacketKind.ACKNOWLEDGED | 0x80, struct.pack("!I", len(answer)) + answer.encode())
        with pytest.raises(RltuiError, match="invalid data from the other end"):
            frames.receive()


def test_packets_without_an_end_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.client.transports.frames._LONGEST_PACKET", 100_000)
    monkeypatch.setattr("rltui.client.transports.frames._MOST_CHANNELS", 50)
    with stranger() as (frames, say):
        for channel in range(1, 20):
            say(channel, PacketKind.ITEM, bytes(8000))
        with pytest.raises(RltuiError, match="packets of more than"):
            frames.receive()
    with stranger() as (frames, say):
        for channel in range(1, 60):
            say(channel, PacketKind.ITEM, b"")
        with pytest.raises(RltuiError, match="or very many"):
            frames.receive()


def test_a_hello_is_waited_for_as_long_as_was_said() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"Last login")
    with pytest.raises(NoHelloError) as caught:
        read_hello(reading, 0.05)
    assert (caught.value.is_late, caught.value.output) == (True, b"Last login")
    os.write(writing, HELLO.line())
    assert read_hello(reading, 10)[0] == HELLO
    for descriptor in (reading, writing):
        os.close(descriptor)
