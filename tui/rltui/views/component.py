"""Components, and what stands beside them: servers and logs of others, hosts, what is wrong with the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rltui.base.text import age, duration, quiet_s
from rltui.base.times import clock_text
from rltui.core.experiment.states import (
    ALIVE_STATES,
    COMPONENT_STATES,
    STALLED,
    ComponentBadge,
    ComponentState,
    Role,
    component_badge,
)
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.experiment.api import ComponentStatus, FollowedLog, HealthIssue


LINK_SIGN = "↗"
_WAITS = "waiting for "
_LONG_REASON = 56
"""A longer one has a line of its own."""
_SERVER_LABELS = {
    "unknown": Cell("◌ not checked yet", "faint"),
    "ready": Cell("● ready", "good"),
    "down": Cell("✗ down", "bad"),
    "refused": Cell("✗ refused", "bad"),
}
"""Signs and words by the state of an external server."""
_MOST_EDITS = 3
"""Named beside a trouble, the newest."""
_MOST_ISSUES = 1
"""Number of health issues below a log: one mostly brings others with it; `rltui status` has all."""
_SEPARATOR = Cell(" · ", "faint")


# --- components -------------------------------------------------------------------------------------------


class ListedComponent(NamedTuple):
    status: Mapping[str, Any]
    """`ComponentStatus`, as JSON has it."""
    has_reason: bool = True
    """True if its row tells the reason; otherwise another place tells it, or tells it better."""

    @property
    def role(self) -> Role:
        is_stalled = self.status["stalled"]
        return STALLED.role if is_stalled else component_badge(self.status).role


def _signed_id(component: ListedComponent, _: float) -> Cell:
    badge = component_badge(component.status)
    return Cell(f"{badge.sign} {component.status['id']}", component.role, len(badge.sign))


def _state(component: ListedComponent, _: float) -> Cell:
    state = component_badge(component.status).word
    stalled = f" {STALLED.sign} {STALLED.word}" if component.status["stalled"] else ""
    return Cell(f"{state}{stalled}", component.role)


def _uptime_text(component: ListedComponent, _: float) -> str:
    uptime_s = component.status["uptime_s"]
    return "" if uptime_s is None else duration(uptime_s)


def _port_text(component: ListedComponent, _: float) -> str:
    status = component.status
    return f":{status['port']}" if status["port"] is not None and status["state"] in ALIVE_STATES else ""


def _number_text(number: int | None) -> str:
    return "" if number is None else str(number)


def _now_text(component: ListedComponent, now: float) -> str:
    """Text of the current work, or of the awaited event: `restarts in 12s · exited 1`, `1.2k tok/s`."""
    status = component.status
    texts = [retry_text(status, now)] if status["state"] == "backoff" else []
    if host := status.get("host"):
        texts.extend(host_texts(host, now))
    texts.extend(status["facts"])
    if component.has_reason and (reason := status["reason"]) and not is_long(reason):
        texts.append(reason)
    return " · ".join(texts)


def is_long(reason: str) -> bool:
    """It has a line of its own."""
    return len(reason) > _LONG_REASON


VIEW: View[ListedComponent] = View(
    key=lambda component: str(component.status["id"]),
    columns=(
        Column("component", _signed_id),
        Column("state", _state),
        Column("for", _uptime_text, is_right=True),
        Column("pid", lambda component, _: _number_text(component.status["pid"]), is_right=True, goes=1),
        Column(
            "attempt", lambda component, _: _number_text(component.status["attempt"]), is_right=True, goes=3
        ),
        Column("port", _port_text, is_right=True, goes=2),
        Column("now", _now_text, least=30),
    ),
)


def badge_of(status: ComponentStatus) -> ComponentBadge:
    host = None if status.host is None else {"phase": status.host.phase}
    fields = {"state": status.state, "kind": status.kind, "lost": status.lost, "host": host}
    return component_badge(fields)


def component_state_text(status: ComponentStatus, now: float) -> str:
    """`● ready 41m`, `✓ exited 0`, `↻ backoff 12s`, `✗ failed code 1`."""
    badge = badge_of(status)
    extra = ""
    match status.state:
        case ComponentState.READY | ComponentState.STARTING:
            uptime_s = status.uptime_s if status.started_at is None else now - status.started_at
            extra = "" if uptime_s is None else age(uptime_s)
        case ComponentState.EXITED | ComponentState.FAILED:
            extra = exit_text(status)
        case ComponentState.BACKOFF:
            extra = "" if status.retry_at is None else duration(status.retry_at - now)
    return f"{badge.sign} {badge.word} {extra}".rstrip()


def exit_text(status: ComponentStatus) -> str:
    """`0`, `code 1`, `SIGKILL`, or empty where it is unknown."""
    if status.signal:
        return status.signal
    if status.exit_code is None:
        return ""
    return "0" if status.exit_code == 0 else f"code {status.exit_code}"


def component_title(
    status: ComponentStatus, now: float, fits: Callable[[str], bool] = lambda _: True
) -> tuple[list[Cell], bool]:
    """The title of a component's pane, one cell behind the other, and whether it tells the whole reason.

    Most important first: the border cuts off what has no room. Of a reason that does not fit only the part
    before its first colon is told; that of a failure is always told below.
    """
    role = badge_of(status).role
    cells = [Cell(status.id, "head"), Cell(" "), Cell(component_state_text(status, now), role)]
    if status.host is not None and status.state in ALIVE_STATES:
        for text in host_texts(status.host.to_plain(), now):
            is_lost = text.startswith(STALLED.sign)
            cells += [_SEPARATOR, Cell(text, STALLED.role if is_lost else None)]
    if status.stalled:
        cells += [_SEPARATOR, Cell(f"{STALLED.sign} {STALLED.word}", STALLED.role)]
    reason = (status.reason or "").strip()
    is_told = not reason
    if reason and status.state is not ComponentState.FAILED:
        for text in (reason, reason.partition(": ")[0]):
            longer = [*cells, *_behind_state(status.state, text)]
            if fits("".join(cell.text for cell in longer)):
                cells, is_told = longer, text == reason
                break
    if status.port is not None and status.state in ALIVE_STATES:
        cells += [_SEPARATOR, Cell(f":{status.port}", "faint")]
    for fact in status.facts:
        cells += [_SEPARATOR, Cell(fact.strip())]
    return cells, is_told


def _behind_state(state: ComponentState, reason: str) -> list[Cell]:
    """The reason behind the state's word: `◌ waiting for inference`, `↻ backoff 12s · exited 1`."""
    if reason.startswith(_WAITS) and state is ComponentState.WAITING:
        return [Cell(f" for {reason.removeprefix(_WAITS)}", COMPONENT_STATES[state].role)]
    return [_SEPARATOR, Cell(reason)]


def component_notes(status: ComponentStatus, *, has_reason: bool) -> list[Cell]:
    """Lines below its log: the reason unless the title has it, signs of a stall, the worst health issue."""
    badge = badge_of(status)
    lines = []
    if status.reason and not has_reason:
        lines.append(Cell(f"{badge.sign} {status.reason}", badge.role))
    if status.stalled and status.evidence:
        lines.append(Cell(f"{STALLED.sign} {status.evidence}", STALLED.role))
    for issue in status.concerns[:_MOST_ISSUES]:
        role: Role = "bad" if issue.severity == "error" else "busy"
        lines.append(Cell(f"{STALLED.sign} {concern_text(issue)}", role))
    return lines


def retry_text(status: Mapping[str, Any], now: float) -> str:
    """When a component in back-off starts again: `restarts in 12s`."""
    retry_at = status.get("retry_at")
    return "restarts" if retry_at is None else f"restarts in {duration(retry_at - now)}"


# --- log files of others ----------------------------------------------------------------------------------


def _log_state(log: Mapping[str, Any], now: float) -> Cell:
    """The state of a file that somebody else writes, and for how long it is quiet."""
    if log["path"] is None:
        return Cell("◌ no file yet")
    quiet = quiet_s(log["changed_at"], now)
    return Cell("● growing", "good") if quiet is None else Cell(f"○ quiet {duration(quiet)}", "faint")


def log_title(log: FollowedLog, now: float, fits: Callable[[str], bool] = lambda _: True) -> list[Cell]:
    """`trainer ● growing · logs/latest/trainer.log`. The file is left out where it does not fit."""
    state = _log_state(log.to_plain(), now)
    cells = [
        Cell((log.title or log.id).strip(), "head"),
        Cell(" "),
        state._replace(role=state.role or "faint"),
    ]
    longer = [*cells, _SEPARATOR, Cell(log.name.strip(), "faint")]
    return longer if log.name and fits("".join(cell.text for cell in longer)) else cells


LOGS: View[Mapping[str, Any]] = View(
    key=lambda log: str(log["id"]),
    columns=(
        Column("log", lambda log, _: str(log["id"])),
        Column("state", _log_state),
        Column("file", lambda log, _: str(log["name"] or log["wanted"][0]), least=14, cut="start"),
    ),
)
"""The JSON of `FollowedLog`: a file that no component here prints."""


# --- the run ----------------------------------------------------------------------------------------------


def concern_text(concern: HealthIssue) -> str:
    """One or two lines: the problem, the checkpoint to go back to, the edits since."""
    lines = [f"{concern.word}: {concern.evidence}"]
    if concern.last_good is not None:
        lines.append(f"last good checkpoint {concern.last_good}")
    if concern.edits:
        lines.append(f"edited since: {'; '.join(concern.edits[-_MOST_EDITS:])}")
    return " · ".join(lines)


def waits_text(waits: str, waits_for: str, share_frac: float) -> str:
    """The bottleneck in short: `trainer waits for a batch 62 %`."""
    return f"{waits} waits for {waits_for} {100 * share_frac:.0f} %"


def server_cells(server: Mapping[str, Any]) -> list[Cell]:
    """The form is `inference (external) ● ready · KV 41 % · http://gpu-2:8000/v1 · serves tiny`; of one that
    does not answer `teacher (external) ✗ down since 14:05:30 · http://… · scores rollouts · why`.
    """
    source = server["source"]
    origin = "external" if source in ("config", "--inference") else f"of {source}"
    label = _SERVER_LABELS[server["state"]]
    cells = [Cell(server["id"], "head"), Cell(f" ({origin}) ", "faint"), label]
    if server["since"] is not None and server["state"] != "ready":
        cells.append(Cell(f" since {clock_text(server['since'])}", label.role))
    cells += [Cell(f" · {fact}") for fact in server["facts"]]
    cells.append(Cell(f" · {server['url']}", "faint"))
    if server["used_for"]:
        cells.append(Cell(f" · {server['used_for']}", "faint"))
    if server["reason"]:
        cells.append(Cell(f" · {server['reason']}", label.role))
    elif server["models"]:
        model = server["model"] if server["model"] in server["models"] else server["models"][0]
        cells.append(Cell(f" · serves {model}", "faint"))
    return cells


def server_text(server: Mapping[str, Any]) -> str:
    return "".join(cell.text for cell in server_cells(server))


def host_texts(host: Mapping[str, Any], now: float) -> list[str]:
    """The forms are `job 1234 on node-[1-2]`, `waits for others, starts about 14:05`, `ends in 12m`."""
    starts = f"start {host['starts']}" if host["starts"] > 1 else ""
    texts = [host["where"], host["reason"], starts]
    if host["ends_at"] is not None and host["phase"] == "running":
        texts.append(f"ends in {duration(host['ends_at'] - now)}")
    if host["lost_at"] is not None:
        texts.insert(0, f"⚠ no answer for {duration(now - host['lost_at'])}: {host['problem']}")
    return [text for text in texts if text]
