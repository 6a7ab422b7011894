"""Follow an experiment on stderr until it is where it should be."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rltui.cli.status import SYMBOLS, retry_text
from rltui.client.wire import Wire
from rltui.errors import ComponentFailedError, RltuiError
from rltui.services.log_tail import tail_lines

LAST_LINES = 8
LINE_WIDTH = 200
"""How much of a failed component's output is shown, in lines and in characters of each."""
ON_THE_WAY = ("waiting", "starting", "stopping", "backoff")
"""States that end without anybody doing something."""


def wait_until_settled(wire: Wire, components: set[str], *, timeout_s: float | None) -> dict[str, Any]:
    """Print every change of state; return the status when no component is on its way any more.

    Raises:
        ComponentFailedError: if one of `components` failed.
        RltuiError: if `timeout_s` passes first. What was started goes on.
    """
    try:
        with limited(wire, timeout_s):
            return _follow(wire, components)
    except TimeoutError:
        raise RltuiError(
            f"not ready after {timeout_s:g} s; it goes on", hint="look at it with `rltui status`"
        ) from None


@contextmanager
def limited(wire: Wire, timeout_s: float | None) -> Iterator[None]:
    """Within, `wire.events()` raises `TimeoutError` once `timeout_s` has passed; `None`: never."""
    if timeout_s is None:
        yield
        return
    timer = threading.Timer(timeout_s, wire.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _follow(wire: Wire, components: set[str]) -> dict[str, Any]:
    shown: dict[str, tuple[str, str]] = {}
    for kind, status in wire.events():
        if kind != "status":
            continue
        watched = [item for item in status["components"] if item["id"] in components]
        for item in watched:
            if shown.get(item["id"]) != _gist(item):
                shown[item["id"]] = _gist(item)
                _print_change(item)
        if status.get("transaction"):  # what is to be started anew may still show how it ended before
            continue
        failed = [item for item in watched if item["state"] == "failed"]
        if failed:
            raise _failure(failed)
        if not any(item["state"] in ON_THE_WAY for item in watched):
            return status
    raise RltuiError("the supervisor ended while we waited", hint="look with `rltui status`")


def _gist(item: dict[str, Any]) -> tuple[str, str]:
    """State and reason without figures that only tick, such as free memory; failures are all told."""
    reason = item["reason"] or ""
    return item["state"], reason if item["state"] == "backoff" else re.sub(r"\d+\.\d+", "#", reason)


def _print_change(item: dict[str, Any]) -> None:
    reason = f": {item['reason']}" if item["reason"] else ""
    if item["state"] == "backoff":
        reason += f", {retry_text(item, time.time())}"
    print(f"{SYMBOLS.get(item['state'], '?')} {item['id']} {item['state']}{reason}", file=sys.stderr)


def _failure(failed: list[dict[str, Any]]) -> ComponentFailedError:
    """The first failure with its last words; the others usually follow from it."""
    first = failed[0]
    return ComponentFailedError(
        f"{first['id']} failed: {first['reason']}",
        details=_last_words(first["log"]),
        hint=f"see: rltui logs {first['id']} -n 30",
    )


def _last_words(log: str | None) -> list[str]:
    if log is None or not Path(log).exists():
        return []
    return [line[:LINE_WIDTH] for line in tail_lines(Path(log), LAST_LINES)]
