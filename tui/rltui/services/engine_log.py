"""What an engine measured of its memory, from the lines of its start. vLLM 0.10 to 0.32, and tinyrl.

The lines' shapes are in `reference/vllm.md`, section 4; every rank prints its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from rltui.core.failure_cause import LONGEST_LINE
from rltui.core.gpu.memory_user import EngineFigures
from rltui.core.text import GIB

LIMIT_BYTES = 4 << 20
"""Read of a log; a start of eight ranks with progress bars takes some hundred kB."""

_N = r"\d{1,15}(?:\.\d{1,15})?"
_VERSION = re.compile(
    r"(?:Initializing a V1 LLM engine \(v|vLLM API server version |vLLM server version )"
    r"(\d{1,9})\.(\d{1,9})(?!\d|\.dev)"
)
"""Not that of a build from a source tree without tags, 0.1.dev…, which says nothing."""
_UTILIZATION = re.compile(rf"non-default args: \{{.*?'gpu_memory_utilization': ({_N})")
_UTILIZATION_NOW = re.compile(rf"The current --gpu-memory-utilization=({_N}) is equivalent to")
_LOADED = re.compile(rf"Model loading took (-?{_N}) GiB(?: memory)? and [\d.]+ seconds")
_KV_MEMORY = re.compile(rf"Available KV cache memory: (-?{_N}) GiB")
_KV_SIZE = re.compile(r"GPU KV cache size: (\d[\d,]{0,20}) tokens")
_GRAPHS = re.compile(rf"Graph capturing finished in \d+ secs, took (-?{_N}) GiB")
_SUMMARY = re.compile(
    r"Free memory on device \([\d.]+/[\d.]+ GiB\) on startup\. Desired GPU memory utilization is "
    rf"\(({_N}), ({_N}) GiB\)"
)


def read_figures(log: Path, *, limit_bytes: int = LIMIT_BYTES) -> EngineFigures | None:
    """What stands within the first `limit_bytes`; `None` where that is nothing, or no file can be read.

    Of several ranks the most that one took, and the least that one had for its KV cache: vLLM makes all
    caches as small as that.
    """
    try:
        with log.open("rb") as file:
            lines = file.read(limit_bytes).decode(errors="replace").split("\n")
    except OSError:
        return None
    text = "\n".join(line[:LONGEST_LINE] for line in lines)
    summary = _SUMMARY.findall(text)
    used = [float(share) for share, _ in summary]
    used += [float(share) for pattern in (_UTILIZATION_NOW, _UTILIZATION) for share in pattern.findall(text)]
    version = _VERSION.search(text)
    figures = EngineFigures(
        budget_bytes=_bytes(min, (size for _, size in summary)),
        utilization=used[0] if used else None,
        weights_bytes=_bytes(max, _LOADED.findall(text)),
        kv_cache_bytes=_bytes(min, _KV_MEMORY.findall(text)),
        kv_cache_tokens=min((int(n.replace(",", "")) for n in _KV_SIZE.findall(text)), default=None),
        graphs_bytes=_bytes(max, _GRAPHS.findall(text)),
        version=(int(version[1]), int(version[2])) if version else None,
    )
    return None if figures == EngineFigures() else figures


def _bytes(choose: Callable[[list[float]], float], gibs: Iterable[str]) -> int | None:
    sizes = [float(size) for size in gibs]
    return max(0, round(choose(sizes) * GIB)) if sizes else None
