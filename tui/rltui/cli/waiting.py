"""Ask a supervisor for a plan, and follow on stderr until an experiment is where it should be."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rltui.base.text import duration
from rltui.cli.colour import style, style_diff, style_line
from rltui.cli.command import Arguments
from rltui.cli.progress import Waiting, call_after
from rltui.cli.status_text import gist_of, print_status
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.core.experiment.states import ALIVE_STATES, component_badge
from rltui.errors import ComponentFailedError, RltuiError
from rltui.services.experiment.registry import run_command
from rltui.views.component import host_texts, retry_text
from rltui.views.plan import plan_text

if TYPE_CHECKING:
    from rltui.core.experiment.api import Plan, Request

_LAST_LINES = 8
_LINE_WIDTH = 200
"""Characters of a line of a failed component's output."""
_ON_THE_WAY = ("waiting", "starting", "stopping", "backoff")
"""States that end without anybody doing something."""


def request_plan(wire: Wire, method: Literal["plan", "execute"], request: Request) -> Plan:
    from rltui.core.experiment.api import Plan

    return Plan.from_plain(wire.call(method, request.to_plain()))


def styled_plan_text(plan: Plan) -> str:
    """A plan in lines, its diff in colours; ends with a newline unless there is nothing to say."""
    lines = style_diff(plan.diff.rstrip("\n").split("\n")) if plan.diff else []  # only line feeds end a line
    body = plan_text(plan.replace(diff=""))
    return "".join(f"{line}\n" for line in lines) + "".join(map(style_line, body.splitlines(keepends=True)))


def tell_way_forward(plan: Plan, name: str) -> None:
    """After a rewind that moves checkpoints aside: the command that brings them back."""
    if any(step > (plan.lost.resume_step or 0) for step in plan.checkpoints) and plan.archived:
        print(f"to undo this rewind: {hints.GO_FORWARD(name=name)}", file=sys.stderr)


def should_wait(arguments: Arguments) -> bool:
    """Whether to wait: as it was said, or else where a person looks on."""
    if arguments.wait is None:
        return sys.stderr.isatty() and not arguments.json
    return bool(arguments.wait)


def wait_and_report(wire: Wire, components: set[str], arguments: Arguments, plan: Plan) -> None:
    """Wait for what a plan moves. With --json print the one document: the status then, and the plan.

    Raises:
        ComponentFailedError: if one of `components` failed, once that is printed.
    """
    try:
        status = wait_for_components(wire, components, timeout_s=None)
    except ComponentFailedError:
        if arguments.json:
            print_status({**wire.call("status"), "plan": plan}, as_json=True)
        raise
    if arguments.json:
        print_status({**status, "plan": plan}, as_json=True)


def wait_for_components(wire: Wire, components: set[str], *, timeout_s: float | None) -> dict[str, Any]:
    """Print every change of state; return the status when no component is on its way any more.

    Raises:
        ComponentFailedError: if one of `components` failed.
        RltuiError: if `timeout_s` passes first. What was started goes on.
    """
    try:
        with call_after(timeout_s, wire.interrupt):
            return _follow(wire, components)
    except TimeoutError:
        raise RltuiError(
            f"not ready after {timeout_s:g} s; still starting",
            hint=f"check `{hints.STATUS}`",
            code="timeout",
        ) from None


@contextmanager
def state_changes(components: set[str] | None = None) -> Iterator[StateChanges]:
    """Tell the changes of these components on stderr; `None`: of all, without their first states."""
    with Waiting() as waiting:
        yield StateChanges(waiting, components)


class StateChanges:
    """Tells each change of state once, with how long it took."""

    def __init__(self, waiting: Waiting, components: set[str] | None) -> None:
        self._components = components
        self._reported: dict[str, tuple[object, ...]] = {}
        self._is_first = components is None
        self._since: dict[str, float] = {}
        self._waiting = waiting

    def show(self, status: dict[str, Any]) -> list[dict[str, Any]]:
        """Tell what is new in `status`, and return its part about the components."""
        components = [
            item
            for item in status["components"]
            if self._components is None or item["id"] in self._components
        ]
        for item in components:
            if self._reported.get(item["id"]) != gist_of(item):
                self._reported[item["id"]] = gist_of(item)
                if not self._is_first:
                    self._print_line(item)
        self._is_first = False
        return components

    def _print_line(self, item: dict[str, Any]) -> None:
        id_, now, host = item["id"], time.monotonic(), item.get("host")
        badge = component_badge(item)
        since = self._since.setdefault(id_, now)
        is_on_the_way = item["state"] in _ON_THE_WAY
        if not is_on_the_way:
            del self._since[id_]
        took = now - since
        after = f" after {duration(took)}" if not is_on_the_way and took >= 1 else ""
        details = [item["reason"], *(host_texts(host, time.time()) if host else ())]
        reason = f": {' · '.join(filter(None, details))}" if any(details) else ""
        if item["state"] == "backoff":
            reason += f", {retry_text(item, time.time())}"
        sign = style(badge.sign, badge.role)
        self._waiting.show(
            id_, f"{sign} {id_} {badge.word}{after}{reason}", since=since if is_on_the_way else None
        )


def _follow(wire: Wire, components: set[str]) -> dict[str, Any]:
    down: dict[str, Any] = {}
    with state_changes(components) as changes:
        for status in wire.events("status"):
            current = changes.show(status)
            down = status.get("down") or {}
            if status.get("transaction"):  # what is to be started anew may still show how it ended before
                continue
            failed_components = [item for item in current if item["state"] == "failed"]
            if failed_components:
                raise failure(failed_components, status["experiment"])
            if not any(item["state"] in _ON_THE_WAY for item in current) or _is_queued(current):
                return status
    if down:
        raise RltuiError(f"the run was shut down by {down['by']}")
    raise RltuiError("the supervisor ended meanwhile", hint=f"check `{hints.STATUS}`")


def _is_queued(components: Sequence[Mapping[str, Any]]) -> bool:
    """True if all that is on its way waits for a queue elsewhere, perhaps for hours, or for what does."""
    on_the_way = [item for item in components if item["state"] in _ON_THE_WAY]
    hosts = [item.get("host") or {} for item in on_the_way if item["state"] != "waiting"]
    return bool(hosts) and all(host.get("phase") == "pending" and host["reason"] for host in hosts)


def failure(failed_components: list[dict[str, Any]], experiment: str) -> ComponentFailedError:
    """The first failure with its last words; the others usually follow from it."""
    component = failed_components[0]
    # What was never started has none.
    has_log = component["log"] is not None and Path(component["log"]).exists()
    see = run_command(
        hints.LOGS if has_log else hints.EVENTS, experiment, component=component["id"], lines=30
    )
    return ComponentFailedError(
        f"{component['id']} failed: {component['reason']}",
        details=_last_lines(component["log"], component.get("log_end")),
        hint=f"see: {see}",
    )


def _last_lines(log: str | None, end: int | None) -> list[str]:
    if log is None or not Path(log).exists():
        return []
    from rltui.services.logs.tail import tail_lines  # only of what failed
    from rltui.services.redaction import without_secrets

    if end is not None:  # what it said of our signal is not why
        from rltui.services.experiment.attempt_end import last_lines  # knows the words of every framework

        lines = [without_secrets(line) for line in last_lines(Path(log), end=end) if line]
        return [line[:_LINE_WIDTH] for line in lines[-_LAST_LINES:]]
    return [line[:_LINE_WIDTH] for line in tail_lines(Path(log), _LAST_LINES)]


def is_component_alive(status: Mapping[str, Any], component: str) -> bool:
    states = {item["id"]: item["state"] for item in status["components"]}
    return states.get(component) in {*ALIVE_STATES, "waiting"}
