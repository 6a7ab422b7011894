"""Device memory that did not suffice: sizes as error texts give them. Pure."""

from __future__ import annotations

import re

from msgspec.structs import asdict

from rltui.base.text import GIB, gib
from rltui.core.gpu.report import OutOfMemory

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": GIB, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?) ?(bytes|KiB|MiB|GiB|TiB)")
_SMALL_BYTES = GIB // 10
"""Below this, `gib` would say 0.0."""

_ACCOMPANIED = frozenset({"load", "warm_up", "graph_capture", "other"})
"""For these kinds torch's own message stands beside vLLM's, and only torch's has the sizes."""


def size_bytes(text: str) -> int | None:
    """`5.31 GiB`, `20.00 MiB`, `512 bytes` as bytes; `None` for anything else."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else round(float(match[1]) * _UNITS[match[2]])


def size_text(size: int) -> str:
    """`70.1 GiB`, `20 MiB`, `0`."""
    if 0 < size < _SMALL_BYTES:
        return f"{max(1, round(size / (1 << 20)))} MiB"
    return f"{gib(size)} GiB" if size else "0"


def with_allocation_sizes(memory: OutOfMemory, allocation: OutOfMemory) -> OutOfMemory:
    """`memory` completed by torch's message about the same failure; set fields of `memory` win."""
    if memory.kind not in _ACCOMPANIED or allocation.kind != "allocation":
        return memory
    known = {name: value for name, value in asdict(memory).items() if value not in (None, "", ())}
    if memory.kind == "other":
        del known["kind"]
    return allocation.replace(**known)
