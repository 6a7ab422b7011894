"""Requests of the other programs to the inference server."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx

from rltui.tinyrl import TinyrlError, log_lines

_READY_POLL_S = 0.25
_COMPLAIN_EVERY_S = 10.0
_READY_TIMEOUT_S = 1800.0
"""Same value as in prime-rl."""


def new_client(base_url: str) -> httpx.AsyncClient:
    """A client for one server; a completion may take as long as it takes."""
    return httpx.AsyncClient(base_url=base_url, timeout=httpx.Timeout(None, connect=5.0), trust_env=False)


async def wait_until_ready(client: httpx.AsyncClient, model_name: str) -> int | None:
    """Wait until the server is healthy and serves the model; returns its longest context, if the server
    reports it.

    Raises:
        TinyrlError: it serves another model, or did not come up in half an hour.
    """
    started = time.monotonic()
    next_complaint_s = _COMPLAIN_EVERY_S
    while True:
        try:
            health = await client.get("/health", timeout=5.0)
            problem = f"HTTP {health.status_code}"
            if health.status_code == 200:
                return await _context_of(client, model_name)
        except httpx.TransportError as error:
            problem = str(error) or type(error).__name__
        waited_s = time.monotonic() - started
        if waited_s > _READY_TIMEOUT_S:
            raise TinyrlError(f"Inference server is not ready after {waited_s:.0f} seconds. Aborting...")
        if waited_s > next_complaint_s:
            next_complaint_s += _COMPLAIN_EVERY_S
            log_lines.warning(
                f"Inference server was not reached after {waited_s:.0f} seconds (Error: {problem}) on"
                f" {client.base_url}"
            )
        await asyncio.sleep(_READY_POLL_S)


async def _context_of(client: httpx.AsyncClient, model_name: str) -> int | None:
    """Longest prompt plus completion that the server accepts for the model."""
    models = (await client.get("/v1/models", timeout=5.0)).json()
    cards = {card["id"]: card for card in models["data"]}
    if model_name not in cards:
        raise TinyrlError(
            f"the inference server on {client.base_url} serves {', '.join(cards)}, not model.name ="
            f" '{model_name}':"
            " restart it with this config, or point inference.server.port to the right one"
        )
    context = cards[model_name].get("max_model_len")
    return context if isinstance(context, int) else None


async def push_weights(client: httpx.AsyncClient, folder: Path) -> None:
    """Make the server load a folder of weights; absolute, as it may have been started elsewhere.

    Raises:
        httpx.TransportError: the server cannot be reached.
        TinyrlError: it could not load them.
    """
    response = await client.post("/update_weights", json={"weight_dir": str(folder)})
    if response.status_code != 200:
        raise TinyrlError(
            f"the inference server did not load {folder} (HTTP {response.status_code}): {response.text}"
        )
