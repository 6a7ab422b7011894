"""Packets both ways over two pipes, such as those of ssh: compressed, in pieces, never much of it under way.

Each direction begins with a line of text (`Hello`), behind whatever a login shell printed before. Then it
is one zstd stream of pieces: channel, kind, length, bytes. A packet is the pieces of a channel up to one
that is marked as its last; those of several channels take turns, so that a long answer does not hold up a
short one. What was not acknowledged is bounded, as ssh alone would take megabytes in advance on a slow line.
"""

from __future__ import annotations

import json
import os
import select
import struct
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import zstandard

from rltui.base.protocol import plain
from rltui.errors import RltuiError

_Item = TypeVar("_Item")

LINK_VERSION = 2
"""Raised when the other end of the previous version would misunderstand a packet."""
_MARK = b"rltui-link "
_LONGEST_NOISE = 256 << 10
"""Most bytes before the hello."""
_LONGEST_HELLO = 4096
_LONGEST_REASON = 200
_LONGEST_PACKET = 256 << 20
"""Bytes, of all packets together that have not come to their ends."""
_MOST_CHANNELS = 4096
"""Most channels with an incomplete packet."""
_PIECE = struct.Struct("!IBI")
_LAST = 0x80
_PIECE_BYTES = 8 << 10
_UNDER_WAY_BYTES = 64 << 10
"""Compressed bytes that the other end has not acknowledged: more than a second of a line of 50 kB/s, and what
lets a line with 50 ms between question and answer carry a megabyte per second."""
_ACKNOWLEDGED_BYTES = 16 << 10
_READ_BYTES = 64 << 10
_UNPACKED_BYTES = 2 << 10
"""Most bytes of one decompression: the worst packet that fits expands to a few dozen MB."""
_LEVEL = 5


class PacketKind(IntEnum):
    CALL = 1
    CANCEL = 2
    ITEM = 3
    RESULT = 4
    """An answer, or the end of one."""
    ERROR = 5
    ACKNOWLEDGED = 6


class Packet(NamedTuple):
    channel: int
    """The number of the call that this packet is, or answers."""
    kind: PacketKind
    data: Any = None
    """JSON values, with NaN, or values that `plain` turns into such."""
    blob: bytes = b""
    """Bytes that would be long in JSON."""


class NoHelloError(RltuiError):
    """The other end closed, or said something else for long. `output`: that. `is_late`: it has not closed."""

    def __init__(self, output: bytes, *, is_late: bool = False) -> None:
        super().__init__("no answer from rltui there")
        self.output, self.is_late = output, is_late


@contextmanager
def decoding(whose: str) -> Iterator[None]:
    """Around what takes apart an answer of `whose`, which may have any shape.

    Raises:
        RltuiError: in place of what taking apart another shape raises.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise RltuiError(
            f"invalid answer from {whose}",
            details=[f"{type(error).__name__}: {error}"[:_LONGEST_REASON]],
            hint="the two ends may have different versions of rltui; install the same version",
        ) from error


@dataclass(frozen=True, slots=True)
class Hello:
    version: str
    """The version of its rltui."""
    link: int
    api: int
    """`PROTOCOL_VERSION` of the API, whose values the frames carry."""
    is_agent: bool = False
    """An agent is at this end."""
    name: str = ""
    """The name that whoever is at this end goes by; empty: none of their own."""

    def line(self) -> bytes:
        fields = {"version": self.version, "link": self.link, "api": self.api}
        fields |= {"agent": self.is_agent, "name": self.name}
        return _MARK + json.dumps(fields).encode() + b"\n"


def read_hello(descriptor: int, within_s: float | None = None) -> tuple[Hello, bytes]:
    """The other end's hello, and the bytes that came behind it.

    Bytes before it are passed over. `within_s`: time limit.

    Raises:
        NoHelloError: if the other end hangs up, or sends nothing of the kind.
    """
    data, until = b"", None if within_s is None else time.monotonic() + within_s
    while len(data) < _LONGEST_NOISE:
        _, mark, after_mark = data.partition(_MARK)
        line, newline, remaining = after_mark.partition(b"\n")
        if mark and newline:
            try:
                fields = json.loads(line[:_LONGEST_HELLO])
                hello = Hello(str(fields["version"]), int(fields["link"]), int(fields["api"]))
                name = str(fields.get("name", ""))  # earlier versions say neither
                return replace(hello, is_agent=fields.get("agent") is True, name=name), remaining
            except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
                break
        if until is not None and not _is_readable(descriptor, until - time.monotonic()):
            raise NoHelloError(data, is_late=True)
        if not (more := os.read(descriptor, _READ_BYTES)):
            break
        data += more
    raise NoHelloError(data)


def _is_readable(descriptor: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1000))


class _Pending(NamedTuple):
    kind: PacketKind
    content: memoryview
    on_sent: Callable[[], None] | None


class Frames:
    """Messages over a pair of descriptors, which it closes. `send` is for any thread, `receive` for one."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        """Sends at once; what is received begins behind the other end's hello (`hear`)."""
        self._reading, self._writing = read_fd, write_fd
        self._came = b""
        self._pending: OrderedDict[int, deque[_Pending]] = OrderedDict()
        """Channel → its unsent packets, in the order of the turns."""
        self._changed = threading.Condition()
        self._is_closed = False
        self._under_way = 0
        self._unacknowledged = 0
        """Bytes that were read since the last acknowledgement."""
        self._compressing = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._decompressing = zstandard.ZstdDecompressor().decompressobj()
        self._buffer = bytearray()
        self._partial_packets: dict[int, bytearray] = {}
        self._partial_bytes = 0
        self.bytes_sent = self.bytes_received = 0
        """Compressed, for measurements."""
        self._sender = threading.Thread(target=self._send_on, name="link", daemon=True)
        self._sender.start()

    # --- to the other end ---------------------------------------------------------------------------------

    def send(self, packet: Packet, on_sent: Callable[[], None] | None = None) -> None:
        """Have it sent in its turn. `on_sent` is called, in another thread, when all of it was, or never will
        be.
        """
        text = b"" if packet.data is None else json.dumps(packet.data, default=plain).encode()
        content = memoryview(struct.pack("!I", len(text)) + text + packet.blob)
        with self._changed:
            if self._is_closed:
                if on_sent is not None:
                    on_sent()
                return
            queue = self._pending.setdefault(packet.channel, deque())
            queue.append(_Pending(packet.kind, content, on_sent))
            self._changed.notify_all()

    def drop(self, channel: int) -> None:
        """Nobody waits any more for what is to be sent there; what has begun is finished."""
        with self._changed:
            if (queue := self._pending.get(channel)) is not None:
                while len(queue) > 1:
                    if (on_sent := queue.pop().on_sent) is not None:
                        on_sent()

    def _send_on(self) -> None:
        try:
            while (data := self._next_piece()) is not None:
                content, on_sent = data
                while content:
                    content = content[os.write(self._writing, content) :]
                if on_sent is not None:
                    on_sent()
        except OSError:  # the other end is gone, which `receive` tells
            pass
        finally:
            self.stop()
            os.close(self._writing)

    def _next_piece(self) -> tuple[memoryview, Callable[[], None] | None] | None:
        """The next piece, compressed, and whom to tell; `None` at the end."""
        with self._changed:
            self._changed.wait_for(self._may_send)
            if self._is_closed:
                return None
            channel, queue = self._pending.popitem(last=False)
            pending = queue.popleft()
            piece, remaining = pending.content[:_PIECE_BYTES], pending.content[_PIECE_BYTES:]
            if remaining:
                queue.appendleft(pending._replace(content=remaining))
            if queue:
                self._pending[channel] = queue
            kind = pending.kind if remaining else pending.kind | _LAST
            data = self._compressing.compress(_PIECE.pack(channel, kind, len(piece)) + piece)
            data += self._compressing.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            self._under_way += len(data)
            self.bytes_sent += len(data)
            return memoryview(data), None if remaining else pending.on_sent

    def _may_send(self) -> bool:
        """Acknowledgements always: both ends might wait for each other's."""
        if self._is_closed or not self._pending:
            return self._is_closed
        if self._under_way < _UNDER_WAY_BYTES:
            return True
        if _CONTROL in self._pending:
            self._pending.move_to_end(_CONTROL, last=False)
            return True
        return False

    # --- from the other end -------------------------------------------------------------------------------

    def read_hello_line(self, within_s: float | None = None) -> Hello:
        """The hello of the other end, which comes before anything can be received. `within_s`: so long it is
        waited for.

        Raises:
            NoHelloError: as `read_hello`.
        """
        hello, self._came = read_hello(self._reading, within_s)
        return hello

    def receive(self) -> Packet | None:
        """The next packet; `None` where the other end has closed.

        Raises:
            RltuiError: for what cannot be understood.
        """
        try:
            while True:
                while (packet := self._next_packet()) is None:
                    data = self._came or os.read(self._reading, _READ_BYTES)
                    if not data:
                        return None
                    self._came = data[_UNPACKED_BYTES:]
                    self._take(data[:_UNPACKED_BYTES])
                if packet.kind is not PacketKind.ACKNOWLEDGED:
                    return packet
                with self._changed:
                    self._under_way -= int(packet.data)
                    self._changed.notify_all()
        except OSError:
            return None
        except _NO_PACKETS as error:
            raise RltuiError(f"invalid data from the other end: {error}") from None

    def _take(self, data: bytes) -> None:
        self.bytes_received += len(data)
        self._unacknowledged += len(data)
        if self._unacknowledged >= _ACKNOWLEDGED_BYTES:
            self.send(Packet(_CONTROL, PacketKind.ACKNOWLEDGED, self._unacknowledged))
            self._unacknowledged = 0
        self._buffer += self._decompressing.decompress(data)

    def _next_packet(self) -> Packet | None:
        """The next packet in the buffer; `None` where none is complete."""
        while len(self._buffer) >= _PIECE.size:
            channel, tagged_length, length = _PIECE.unpack_from(self._buffer)
            end = _PIECE.size + length
            if length > _PIECE_BYTES:
                raise ValueError(f"a piece of {length} bytes")
            if len(self._buffer) < end:
                return None
            buffer = self._partial_packets.setdefault(channel, bytearray())
            buffer += self._buffer[_PIECE.size : end]
            del self._buffer[:end]
            self._partial_bytes += length
            if self._partial_bytes > _LONGEST_PACKET or len(self._partial_packets) > _MOST_CHANNELS:
                raise ValueError(f"packets of more than {_LONGEST_PACKET} bytes, or very many")
            if tagged_length & _LAST:
                del self._partial_packets[channel]
                self._partial_bytes -= len(buffer)
                (length,) = struct.unpack_from("!I", buffer)
                text = bytes(buffer[4 : 4 + length])
                return Packet(
                    channel,
                    PacketKind(tagged_length & ~_LAST),
                    json.loads(text) if text else None,
                    bytes(buffer[4 + length :]),
                )
        return None

    # --- the end ------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Send nothing any more; the other end sees the end. For any thread."""
        with self._changed:
            self._is_closed = True
            for queue in self._pending.values():
                for pending in queue:
                    if pending.on_sent is not None:
                        pending.on_sent()
            self._pending.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Send nothing any more. For the thread that receives, which is told nothing any more."""
        self.stop()
        os.close(self._reading)


def chunks(items: list[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield `items` in lists of at most `size`, for a packet each; one empty list if there are none."""
    yield from (items[start : start + size] for start in range(0, len(items) or 1, size))


_NO_PACKETS = (zstandard.ZstdError, ValueError, TypeError, ArithmeticError, struct.error, RecursionError)
"""Errors that decoding of invalid bytes raises."""
_CONTROL = 0
"""The channel of what no call is about."""
