"""Queries to services: readiness, served models, metrics."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from rltui.core.experiment.layout import Ready
from rltui.core.experiment.servers import Answer, ServerAddress, ServerState, judge_server
from rltui.core.logs.failure_cause import LONGEST_LINE
from rltui.services.http import StatusError, get
from rltui.services.logs.growing_file import AppendedLines

_PROBE_TIMEOUT_S = 5.0
"""Limit of one HTTP or TCP probe."""
LOG_CHUNK = 1 << 20
"""Bytes of a log read at a time."""
_LINE_ENDS = re.compile(rb"[\r\n]")


class Probe:
    """Checks whether a component is ready. `ready` contains filled-in values, no placeholders."""

    def __init__(self, ready: Ready, log: Path) -> None:
        self._ready = ready
        self._log = AppendedLines(log, most_bytes=LOG_CHUNK, line_bytes=LOG_CHUNK)
        self._problem = ""

    async def is_ready(self) -> bool:
        """True if the component is ready now. Does not raise if it is not."""
        self._problem = ""
        try:
            if self._ready.http is not None:
                await asyncio.to_thread(get, self._ready.http, timeout_s=_PROBE_TIMEOUT_S)
                return True
            if self._ready.tcp is not None:
                host, _, port = self._ready.tcp.rpartition(":")
                try:
                    async with asyncio.timeout(_PROBE_TIMEOUT_S):
                        _, writer = await asyncio.open_connection(host.strip("[]") or "127.0.0.1", int(port))
                except ValueError as error:
                    raise OSError(str(error)) from error
                writer.close()
                return True
            if self._ready.file is not None:
                return await asyncio.to_thread(Path(self._ready.file).exists)
            return await asyncio.to_thread(self._log_matches)
        except OSError as error:
            self._problem = f": {error.strerror or str(error) or type(error).__name__}"
            return False

    def __str__(self) -> str:
        """Description of the check, and why it failed the last time."""
        for name in ("http", "tcp", "file", "log"):
            if (value := getattr(self._ready, name)) is not None:
                return f"{name} {value}{self._problem}"
        return "nothing"

    def _log_matches(self) -> bool:
        """Search the lines that were written since the last call; an unfinished one is searched again.

        A log that was truncated or replaced by a shorter one is read from its beginning.
        """
        pattern = re.compile((self._ready.log or "").encode(), re.MULTILINE)
        while data := self._log.read():
            if _any_matches(pattern, data):
                return True
        return _any_matches(pattern, self._log.unfinished)


def _any_matches(pattern: re.Pattern[bytes], data: bytes) -> bool:
    return any(pattern.search(line[:LONGEST_LINE]) for line in _LINE_ENDS.split(data))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The first model of an OpenAI-compatible server."""

    model: str
    context: int | None = None
    """Tokens of a prompt and its answer together; `None` if the server does not say."""


def served(base_url: str, *, timeout_s: float = 1.0, key: str = "") -> ServedModel | None:
    """The model of the server at a URL that ends in `/v1`, `None` without one. `key`: of its API."""
    try:
        answer = json.loads(get(f"{base_url}/models", timeout_s=timeout_s, limit_bytes=1 << 16, key=key))
        model = answer["data"][0]
        name, context = model["id"], model.get("max_model_len")
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    if not isinstance(name, str):
        return None
    return ServedModel(name, context if isinstance(context, int) else None)


def served_model(port: int) -> str | None:
    """The model that an OpenAI-compatible server on this machine's `port` serves, `None` without one."""
    model = served(f"http://127.0.0.1:{port}/v1")
    return None if model is None else model.model


_MOST_MODELS, _LONGEST_NAME = 200, 200
"""Limits of a server's list of models."""


def query_server(address: ServerAddress, key: str) -> Answer:
    """Query the models that a server serves; of an env server, whether it accepts connections. Never raises.
    Blocks.
    """
    if address.is_env_server:
        return _connect(address)
    try:
        content = get(f"{address.url}/models", timeout_s=_PROBE_TIMEOUT_S, limit_bytes=1 << 20, key=key)
        cards = json.loads(content)["data"]
        names = [card["id"][:_LONGEST_NAME] for card in cards[:_MOST_MODELS] if isinstance(card["id"], str)]
    except StatusError as error:
        return Answer(status=error.status, fault=str(error))
    except OSError as error:
        return Answer(fault=error.strerror or str(error) or type(error).__name__)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Answer(fault=f"no list of models at {address.url}/models")
    is_trained = not address.needed_for
    has_route = _has_route(f"{address.root}/update_weights", key) if is_trained else None
    return Answer(tuple(names), updates_weights=has_route)


def judged_servers(
    addresses: Sequence[ServerAddress],
) -> tuple[tuple[ServerAddress, ServerState, str | None], ...]:
    """The state of each server now, and the reason in words. Asks all at once, without a key: nobody has
    said yet that the addresses may have it. Blocks.
    """

    def judged(address: ServerAddress) -> tuple[ServerAddress, ServerState, str | None]:
        variable, answer = address.key_variable, query_server(address, "")
        if answer.status in (401, 403) and address.is_open and os.environ.get(variable):
            reason = f"the server requires an API key; a check does not send it the one in {variable}"
            return address, "unknown", reason
        return address, *judge_server(address, answer, key_is_set=False)

    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        return tuple(pool.map(judged, addresses))


def _connect(address: ServerAddress) -> Answer:
    url = urlsplit(address.url)
    try:
        socket.create_connection((url.hostname or "", url.port or 0), timeout=_PROBE_TIMEOUT_S).close()
    except OSError as error:
        return Answer(fault=error.strerror or str(error) or type(error).__name__)
    return Answer()


def _has_route(url: str, key: str) -> bool | None:
    """True if the URL accepts POST, judged by the server's status for GET; `None` if unknown."""
    try:
        get(url, timeout_s=_PROBE_TIMEOUT_S, key=key)
    except StatusError as error:
        return {HTTPStatus.METHOD_NOT_ALLOWED: True, HTTPStatus.NOT_FOUND: False}.get(
            HTTPStatus(error.status)
        )
    except OSError:
        return None
    return None


TIMEOUT_S = 5.0
"""A vLLM under load answers late: its API server shares a thread with thousands of requests."""
_LONGEST_ANSWER = 8 * 1024 * 1024
"""Limit of bytes to read; one engine's text has about 50 kB."""


async def read_exposition(url: str, *, key: str = "") -> bytes | None:
    """The current metrics of the server; `None` if it does not answer. Never raises."""
    try:
        return await asyncio.to_thread(get, url, timeout_s=TIMEOUT_S, limit_bytes=_LONGEST_ANSWER, key=key)
    except OSError:
        return None
