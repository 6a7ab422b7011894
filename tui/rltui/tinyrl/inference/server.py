"""The inference program: port first, then memory check, model, engine, HTTP.

Wording and arithmetic of the check follow vLLM 0.14 to 0.18 (`v1/worker/utils.py`, `gpu_worker.py`): a share
of the device's total memory, free at start and held for life.
"""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import uvicorn

from rltui.base.text import GIB
from rltui.tinyrl import TinyrlError
from rltui.tinyrl.config import InferenceSection, RlConfig
from rltui.tinyrl.device import device
from rltui.tinyrl.inference.app import Served, build_app
from rltui.tinyrl.inference.engine import BatchingEngine, SlotCache
from rltui.tinyrl.inference.listener import socket_error
from rltui.tinyrl.inference.statistics import log, report_forever
from rltui.tinyrl.language import ChatTokenizer
from rltui.tinyrl.model import load_model, read_shape

_ENGINE_CHECK_S = 1.0


def budget_bytes(total_bytes: int, utilization: float) -> int:
    """Memory that an instance may hold: its share of total memory, whatever others use."""
    return math.ceil(total_bytes * utilization)


def startup_error(*, free_bytes: int, total_bytes: int, utilization: float, device: str) -> str | None:
    """VLLM's message if less memory is free than the budget, else `None`."""
    budget = budget_bytes(total_bytes, utilization)
    if free_bytes >= budget:
        return None
    return (
        f"Free memory on device {device} ({free_bytes / GIB:.2f}/{total_bytes / GIB:.2f} GiB) on"
        " startup is less"
        f" than desired GPU memory utilization ({utilization}, {budget / GIB:.2f} GiB). Decrease GPU memory"
        " utilization or reduce GPU memory used by other processes."
    )


def startup_summary(*, free_bytes: int, total_bytes: int, utilization: float) -> str:
    """VLLM's line about the figures of its check, once that has been passed."""
    budget = budget_bytes(total_bytes, utilization)
    return (
        f"Free memory on device ({free_bytes / GIB:.2f}/{total_bytes / GIB:.2f} GiB) on startup."
        f" Desired GPU memory utilization is ({utilization}, {budget / GIB:.2f} GiB)."
    )


def kv_pool_bytes(
    *, free_at_start_bytes: int, free_now_bytes: int, total_bytes: int, utilization: float
) -> int:
    """Bytes of the budget for keys and values after model and CUDA context have taken theirs."""
    used_bytes = free_at_start_bytes - free_now_bytes
    return max(0, budget_bytes(total_bytes, utilization) - used_bytes)


def _build_engine(config: InferenceSection, folder: Path, tokenizer: ChatTokenizer) -> BatchingEngine:
    """Load the model and reserve the cache; on a GPU as much as `gpu_memory_utilization` says.

    Raises:
        TinyrlError: no such model, or too little free GPU memory.
    """
    target = device()
    shape = read_shape(folder)
    max_len = config.model.max_model_len
    if max_len > shape.max_position_embeddings:
        raise TinyrlError(
            f"inference.model.max_model_len = {max_len} is above what {folder} was made for"
            f" (max_position_embeddings = {shape.max_position_embeddings}); set max_model_len <="
            f" {shape.max_position_embeddings}"
        )
    pool_bytes = None
    free_at_start, total = torch.cuda.mem_get_info(target) if target.type == "cuda" else (0, 0)
    if target.type == "cuda":
        problem = startup_error(
            free_bytes=free_at_start,
            total_bytes=total,
            utilization=config.gpu_memory_utilization,
            device=str(target),
        )
        if problem:
            raise TinyrlError(f"ValueError: {problem}")
    log(f"Starting to load model {folder}...")
    started = time.monotonic()
    model = load_model(folder, target)
    log(f"Loading weights took {time.monotonic() - started:.2f} seconds")
    if target.type == "cuda":
        pool_bytes = kv_pool_bytes(
            free_at_start_bytes=free_at_start,
            free_now_bytes=torch.cuda.mem_get_info(target)[0],
            total_bytes=total,
            utilization=config.gpu_memory_utilization,
        )
        log(f"Available KV cache memory: {pool_bytes / 2**30:.2f} GiB")
        log(
            startup_summary(
                free_bytes=free_at_start, total_bytes=total, utilization=config.gpu_memory_utilization
            )
        )
    cache = SlotCache(shape, config.max_num_seqs, max_len, target, pool_bytes)
    kind = "GPU" if target.type == "cuda" else "CPU"
    log(f"{kind} KV cache size: {cache.capacity_tokens:,} tokens")
    log(f"Maximum concurrency for {max_len:,} tokens per request: {cache.capacity_tokens / max_len:.2f}x")
    return BatchingEngine(model, cache, tokenizer.end_id)


class _Server(uvicorn.Server):
    """Ends with exit code 0 on SIGTERM and SIGINT; uvicorn's own handler would raise the signal again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


async def _serve(server: _Server, engine: BatchingEngine, listener: socket.socket) -> None:
    kind = "GPU" if torch.cuda.is_available() else "CPU"
    reporting = asyncio.create_task(report_forever(engine.statistics, kind))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not (await asyncio.wait([serving], timeout=_ENGINE_CHECK_S))[0]:
        server.should_exit = server.should_exit or engine.failure is not None
    reporting.cancel()
    await serving


def run(config: RlConfig, listener: socket.socket) -> int:
    """Serve until a signal; returns the exit code."""
    torch.set_num_threads(1)
    host, port = config.inference.server.host, config.inference.server.port
    folder = Path(config.model.name)
    log(f"tinyrl server, serving model {config.model.name}")
    read_shape(folder)  # a missing model gets its own message, before the tokenizer's
    tokenizer = ChatTokenizer(folder)
    engine = _build_engine(config.inference, folder, tokenizer)
    served = Served(engine, tokenizer, config.model.name, config.inference.gpu_memory_utilization)
    app = build_app(served)
    log(f"Starting vLLM server on http://{host}:{port}")
    server = _Server(
        uvicorn.Config(app, access_log=False, log_level="info", lifespan="on", timeout_graceful_shutdown=5)
    )
    try:
        listener.listen(2048)
    except OSError as error:
        raise socket_error(error, host, port) from error
    engine.start()
    try:
        asyncio.run(_serve(server, engine, listener))
    finally:
        engine.stop()
        listener.close()
    if engine.failure is not None:
        raise TinyrlError(f"EngineDeadError: {engine.failure!r}")
    log("[shutdown] API server: shutdown complete")
    return 0
