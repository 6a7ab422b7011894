"""Follow an experiment on stderr until it is where it should be."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from rltui.cli.status import SYMBOLS
from rltui.client.wire import Wire
from rltui.errors import ComponentFailedError, RltuiError
from rltui.services.log_tail import tail_lines

LAST_LINES = 8
LINE_WIDTH = 200
"""How much of a failed component's output is shown, in lines and in characters of each."""


def wait_until_settled(wire: Wire, components: set[str], *, timeout_s: float | None) -> dict[str, Any]:
    """Print every change of state; return the status when no component is on its way any more.

    Raises:
        ComponentFailedError: if one of `components` failed.
        RltuiError: if `timeout_s` passes first. What was started goes on.
    """
    timer = threading.Timer(timeout_s, wire.interrupt) if timeout_s is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        return _follow(wire, components)
    except TimeoutError:
        raise RltuiError(
            f"not ready after {timeout_s:g} s; it goes on", hint="look at it with `rltui status`"
        ) from None
    finally:
        if timer is not None:
            timer.cancel()


def _follow(wire: Wire, components: set[str]) -> dict[str, Any]:
    shown: dict[str, tuple[str, str | None]] = {}
    for kind, status in wire.events():
        if kind != "status":
            continue
        watched = [item for item in status["components"] if item["id"] in components]
        for item in watched:
            if shown.get(item["id"]) != (item["state"], item["reason"]):
                shown[item["id"]] = (item["state"], item["reason"])
                _print_change(item)
        failed = [item for item in watched if item["state"] == "failed"]
        if failed:
            raise _failure(failed)
        if not any(item["state"] in ("waiting", "starting", "stopping") for item in watched):
            return status
    raise RltuiError("the supervisor ended while we waited", hint="look with `rltui status`")


def _print_change(item: dict[str, Any]) -> None:
    reason = f": {item['reason']}" if item["reason"] else ""
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
