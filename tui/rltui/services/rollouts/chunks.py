"""Files of records, one per line: read by offset, plain or zstandard, or from their newest line backwards."""

from __future__ import annotations

import os
import stat
import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from rltui.base.text import parse_whole_number
from rltui.errors import RltuiError
from rltui.services.logs.growing_file import json_value
from rltui.services.own_files import entry_names, open_regular

BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 256 << 20
_LARGEST_FRAME = 256 << 20
_CACHED_FRAMES = 3
_SEEK_FOOTER = struct.Struct("<IBI")
_SEEK_MAGIC = 0x8F92EAB1
_SKIPPABLE = 0x184D2A5E
"""Zstandard's seekable format: a skippable frame at the end lists the sizes of the others."""


def record(line: bytes) -> dict[str, Any] | None:
    value = json_value(line)
    return value if isinstance(value, dict) else None


def open_if_regular(path: Path) -> BufferedReader | None:
    """The file opened for reading; `None` if there is none, or it is not readable for us."""
    with suppress(OSError):
        return open_regular(path)
    return None


class NewestFirst:
    """Lines of a growing file: those at its end first, block by block to its start, then appended ones.

    Holds no descriptor between two reads. After the file was replaced or got shorter, reading starts again.
    """

    def __init__(self, path: Path, *, forward: bool = False, block_bytes: int = BLOCK_BYTES) -> None:
        """`forward`: read from its start on instead."""
        self.path = path
        self._forward, self._block_bytes = forward, block_bytes
        self._identity: tuple[int, int] | None = None
        self._start = self._stop = self._size = 0
        self.restarted = False
        """True if the last `read` found another file: earlier lines are void."""

    @property
    def is_behind(self) -> bool:
        """True if there was more to read, as of the last `read`."""
        return self._start > 0 or (self._forward and self._stop < self._size)

    def read(self) -> list[tuple[int, bytes]]:
        """The next complete lines with their offsets, in the order of the file; empty if there is none."""
        self.restarted = False
        with open_if_regular(self.path) or open(os.devnull, "rb") as file:  # noqa: PTH123 - as `open_if_regular`
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                self.restarted, self._identity = self._identity is not None, None
                self._start = self._stop = self._size = 0
                return []
            identity, self._size = (status.st_dev, status.st_ino), status.st_size
            if identity != self._identity or self._size < self._stop:
                self.restarted, self._identity = self._identity is not None, identity
                self._start = self._stop = 0 if self._forward else _last_line_end(file, self._size)
            return self._appended(file) or self._older(file)

    def _appended(self, file: BinaryIO) -> list[tuple[int, bytes]]:
        length = self._block_bytes
        while self._stop < self._size:
            data = os.pread(file.fileno(), length, self._stop)
            complete_length = data.rfind(b"\n") + 1
            if complete_length:
                start, self._stop = self._stop, self._stop + complete_length
                return _with_offsets(data[:complete_length], start)
            if len(data) < length or length >= _LONGEST_LINE:
                self._size = self._stop if len(data) < length else self._size  # an unfinished line is no news
                break
            length *= 4
        return []

    def _older(self, file: BinaryIO) -> list[tuple[int, bytes]]:
        length = self._block_bytes
        while self._start > 0:
            begin = max(0, self._start - length)
            data = os.pread(file.fileno(), self._start - begin, begin)
            cut = 0 if begin == 0 else data.find(b"\n") + 1
            if begin == 0 or 0 < cut < len(data):
                self._start = begin + cut
                return _with_offsets(data[cut:], self._start)
            length *= 4
        return []


def _with_offsets(data: bytes, offset: int) -> list[tuple[int, bytes]]:
    lines = []
    for line in data.split(b"\n")[:-1]:
        lines.append((offset, line))
        offset += len(line) + 1
    return lines


def _last_line_end(file: BinaryIO, size: int) -> int:
    stop = size
    while stop > 0:
        begin = max(0, stop - BLOCK_BYTES)
        newline = os.pread(file.fileno(), stop - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        stop = begin
    return 0


def lines_at(path: Path, offsets: Iterable[int]) -> Iterator[bytes | None]:
    """The lines that begin there, `None` if there is no file or no complete line."""
    with open_if_regular(path) or open(os.devnull, "rb") as file:  # noqa: PTH123 - as `open_if_regular`
        for offset in offsets:
            file.seek(offset)
            yield file.readline(_LONGEST_LINE) or None


class Chunks:
    """A stream of records in numbered chunks, `00000.jsonl`, sealed ones as `00000.jsonl.zst`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._frames: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        """(Chunk, frame number) → the newest decompressed frames."""
        self._tables: dict[int, list[tuple[int, int, int, int]]] = {}
        """Chunk → for each frame: offset and size in the file, offset and size decompressed."""

    def numbers(self) -> list[int]:
        """Numbers of all chunks, ascending."""
        names = [name.partition(".") for name in entry_names(self._folder)]
        numbers = {parse_whole_number(stem) for stem, _, kind in names if kind in _KINDS}
        return sorted(number for number in numbers if number is not None)

    def line(self, chunk: int, offset: int) -> bytes | None:
        """The record at this offset, `None` if there is none.

        Raises:
            RltuiError: if a sealed chunk is damaged.
        """
        plain = next(lines_at(self._plain(chunk), [offset]))
        if plain is not None or not self._sealed(chunk).is_file():
            return plain
        line = b""
        for number, (_, _, start, size) in enumerate(self._frame_table(chunk)):
            if start + size <= offset or (start > offset and not line):
                continue
            data = self._frame(chunk, number)
            piece = data[max(0, offset - start) :]
            end = piece.find(b"\n")
            line += piece if end < 0 else piece[:end]
            if end >= 0 or len(line) > _LONGEST_LINE:
                break
        return line or None

    def lines(self, chunk: int) -> Iterator[tuple[int, bytes]]:
        """Every complete line with the offset of its start."""
        offset, file = 0, open_if_regular(self._plain(chunk))
        if file is not None:
            with file:
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    yield offset, line
                    offset += len(line)
            return
        if not self._sealed(chunk).is_file():
            return
        unfinished = b""
        for number in range(len(self._frame_table(chunk))):
            *complete, unfinished = (unfinished + self._frame(chunk, number)).split(b"\n")
            for line in complete:
                yield offset, line
                offset += len(line) + 1

    def _plain(self, chunk: int) -> Path:
        return self._folder / f"{chunk:05d}.jsonl"

    def _sealed(self, chunk: int) -> Path:
        return self._folder / f"{chunk:05d}.jsonl.zst"

    def _frame_table(self, chunk: int) -> list[tuple[int, int, int, int]]:
        table = self._tables.get(chunk)
        if table is None:
            path = self._sealed(chunk)
            file = open_if_regular(path)
            if file is None:
                return []
            with file:
                table = _seek_table(file) or [_single_frame(file, path)]
            self._tables[chunk] = table
        return table

    def _frame(self, chunk: int, number: int) -> bytes:
        key = (chunk, number)
        if key in self._frames:
            self._frames.move_to_end(key)
            return self._frames[key]
        path = self._sealed(chunk)
        position, _, _, size = self._frame_table(chunk)[number]
        file = open_if_regular(path)
        data = b"" if file is None else _decompress(file, position, size, path)
        self._frames[key] = data
        while len(self._frames) > _CACHED_FRAMES:
            self._frames.popitem(last=False)
        return data


_KINDS = ("jsonl", "jsonl.zst")


def _seek_table(file: BinaryIO) -> list[tuple[int, int, int, int]]:
    """The frames that the file lists itself; empty if it has no such list, or an invalid one."""
    size = os.fstat(file.fileno()).st_size
    footer = os.pread(file.fileno(), _SEEK_FOOTER.size, max(0, size - _SEEK_FOOTER.size))
    if len(footer) < _SEEK_FOOTER.size:
        return []
    count, flags, magic = _SEEK_FOOTER.unpack(footer)
    entry = 12 if flags & 0x80 else 8
    begin = size - _SEEK_FOOTER.size - count * entry
    if magic != _SEEK_MAGIC or begin < 8:
        return []
    kind, _ = struct.unpack("<II", os.pread(file.fileno(), 8, begin - 8))
    entries = os.pread(file.fileno(), count * entry, begin)
    table, position, start = [], 0, 0
    for number in range(count):
        length, decompressed = struct.unpack_from("<II", entries, number * entry)
        table.append((position, length, start, decompressed))
        position, start = position + length, start + decompressed
    return table if kind == _SKIPPABLE and position <= begin - 8 else []


def _single_frame(file: BinaryIO, path: Path) -> tuple[int, int, int, int]:
    """A file that is not seekable, as one frame."""
    import zstandard  # only where something is sealed

    size = 0
    try:
        with zstandard.ZstdDecompressor().stream_reader(
            file, read_across_frames=True, closefd=False
        ) as reader:
            while data := reader.read(BLOCK_BYTES):
                size += len(data)
    except zstandard.ZstdError as error:
        raise _damaged(path, error) from error
    return 0, os.fstat(file.fileno()).st_size, 0, size


def _decompress(file: BinaryIO, position: int, size: int, path: Path) -> bytes:
    import zstandard

    with file:
        if size > _LARGEST_FRAME:
            raise RltuiError(
                f"{path} is a single compressed block of {size >> 20} MiB",
                hint="decompress it in place: zstd -d --keep",
            )
        file.seek(position)
        try:
            with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
                return reader.read(size)
        except zstandard.ZstdError as error:
            raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RltuiError:
    return RltuiError(f"{path} is damaged", details=[str(error)], hint="its records cannot be read")
