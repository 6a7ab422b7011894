"""The outcome of an attempt whose processes are gone: by its record, its output and the kernel."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rltui.base.kinds import FLAG, INTEGER, TEXT, Kind, check_document
from rltui.core.experiment.api import ComponentStatus
from rltui.core.experiment.layout import ComponentSpec
from rltui.core.experiment.lifecycle import Ended, ExitInfo, Lifecycle, Spawned, advance
from rltui.core.experiment.states import ComponentState
from rltui.core.logs.failure_cause import LONGEST_TEXT, Cause, FailurePattern, find_cause
from rltui.core.logs.lines import LINE_BREAK, decode_line, plain_text
from rltui.errors import RltuiError
from rltui.frameworks.failures import CHILD_KILLED
from rltui.hosts.shim import oom as kernel
from rltui.services import processes
from rltui.services.experiment.files import ControlFolder
from rltui.services.own_files import read_own, write_atomically
from rltui.services.processes import AttemptRecord
from rltui.services.redaction import without_secrets


@dataclass(frozen=True, slots=True)
class OomKills:
    """The kernel's counter of processes killed for lack of memory; only an increase is meaningful."""

    count: int
    is_own: bool
    """True for this process's control group, as of a container; else the machine's."""


def oom_kills() -> OomKills | None:
    """The counter now; `None` if the kernel does not tell."""
    kills = kernel.oom_kills()
    return None if kills is None else OomKills(kills[0], is_own=kills[1])


def killed_since(before: OomKills | None) -> Literal["own", "machine", ""] | None:
    """The counter that has increased since `before`: the own one explains why one of our processes was
    killed, the machine's only perhaps. `None`: unknown.
    """
    now = oom_kills()
    if before is None or now is None:
        return None
    return ("own" if now.is_own else "machine") if now.count > before.count else ""


_KERNEL_FILE = "kernel.json"
"""In the folder of an attempt: the kernel's counter at its start, and at its end what became of it."""


def note_oom_kills(folder: Path) -> None:
    """Store the kernel's counter with the attempt that starts now."""
    if (kills := oom_kills()) is not None:
        _save_kernel_file(folder, {"boot": processes.boot_identity(), **asdict(kills)})


def host_oom_of(folder: Path) -> str | None:
    """The result of `killed_since` for the attempt, which has just ended, and is stored with it."""
    document = _kernel_file(folder)
    if document.get("boot") != processes.boot_identity():
        return None
    host_oom = killed_since(OomKills(document["count"], is_own=document["is_own"]))
    _save_kernel_file(folder, {**document, "host_oom": host_oom})
    return host_oom


def saved_host_oom(folder: Path) -> str | None:
    """The stored result; `None` if it is unknown."""
    host_oom = _kernel_file(folder).get("host_oom")
    return host_oom if host_oom in ("", *_OOM) else None


def _kernel_file(folder: Path) -> dict[str, Any]:
    try:
        document = check_document(json.loads(read_own(folder / _KERNEL_FILE)), _KERNEL_KINDS, frozenset())
    except (OSError, ValueError):
        return {}
    return document if {"count", "is_own"} <= document.keys() else {}


def _save_kernel_file(folder: Path, document: Mapping[str, Any]) -> None:
    with suppress(RltuiError):  # no room: the cause is less exact
        write_atomically(folder / _KERNEL_FILE, json.dumps(document).encode())


_KERNEL_KINDS: Mapping[str, Kind] = {
    "boot": TEXT, "count": INTEGER, "is_own": FLAG, "host_oom": TEXT.or_none,
}  # fmt: skip
TAIL_BYTES = 64 * 1024
"""Size of the end of a log that is read. vLLM writes 20 kB between the root cause and its end."""
_USAGE_ERROR = 2
"""Exit code of argparse, tyro and click for wrong arguments."""
_KILLED_CODE = 128 + 9
"""Exit code of a shell, or `uv run`, whose child was killed by SIGKILL."""

_OUTSIDE_SIGNALS = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Signals that others send, so that the output does not explain them."""
_USAGE = re.compile(r"^\s*usage: |\berror: |^Error\b|^\W*Usage: ", re.MULTILINE | re.IGNORECASE)
_ERROR_LINE = re.compile(r"^.*?\berror: (?P<what>[^\n]+)$", re.MULTILINE | re.IGNORECASE)
_OOM = {
    "own": Cause(
        "by the kernel's OOM killer: the machine, or its container, ran out of memory; reduce memory use",
        hopeless=True,
        code="oom_host",
    ),
    "machine": Cause(
        "possibly by the kernel's OOM killer, which killed a process on this machine; check `dmesg`",
        hopeless=False,
        code="oom_host",
    ),
}
"""Result of `killed_since` → cause."""


def cause_of_end(
    log: Path,
    *,
    exit_code: int | None,
    signal: str | None,
    patterns: Sequence[FailurePattern],
    host_oom: str | None,
) -> Cause | None:
    """The cause of the failure, `None` if unknown. Call it only for an attempt that was not asked to end.

    `host_oom`: result of `killed_since` for its lifetime. Reads at most `TAIL_BYTES` of `log`; an unreadable
    one counts as empty.
    """
    is_kill = signal == "SIGKILL" or exit_code == _KILLED_CODE
    if host_oom and is_kill:
        return _OOM[host_oom]
    if signal in _OUTSIDE_SIGNALS:
        return _outside_cause(host_oom) if is_kill else _outside("from outside")
    lines = last_lines(log)
    output = "\n".join(lines)
    if host_oom and re.search(CHILD_KILLED, output):
        return _OOM[host_oom]
    cause = find_cause(lines, patterns)
    if exit_code == _USAGE_ERROR and not (cause and cause.hopeless) and _USAGE.search(output):
        errors = [match["what"] for match in _ERROR_LINE.finditer(output)]
        statement = f": {' '.join(errors[-1].split())[:200]}" if errors else "; see the end of the log"
        return Cause(f"config error: wrong arguments{statement}", hopeless=True, code="config_rejected")
    return cause or (_outside_cause(host_oom) if is_kill else None)


def _outside_cause(host_oom: str | None) -> Cause:
    """The cause of a SIGKILL that the kernel did not send for lack of memory, as far as is known."""
    if host_oom is None:
        text = "from outside, or by the kernel's OOM killer; check `dmesg`"
    else:
        text = "from outside; the kernel's OOM killer did not run"
    return _outside(text)


def _outside(text: str) -> Cause:
    return Cause(text, hopeless=False, code="killed_outside", from_outside=True)


def last_lines(log: Path, *, end: int | None = None) -> list[str]:
    """The lines within the last `TAIL_BYTES`, sanitised, oldest first; one cut at its start is left out.

    `end`: size at which the file is considered to end.
    """
    return [text for line in _tail(log, end)[1] for text in _plain_lines(line)]


def numbered_lines(log: Path, *, end: int | None = None) -> list[tuple[int, str]]:
    """As `last_lines`, each with its number in the file, counted from 1. Reads the whole file."""
    start, lines = _tail(log, end)
    number, position = 1, 0
    with suppress(OSError), log.open("rb") as file:
        while position < start and (block := file.read(min(TAIL_BYTES, start - position))):
            number, position = number + block.count(b"\n"), position + len(block)
    return [(at, text) for at, line in enumerate(lines, number) for text in _plain_lines(line)]


def _plain_lines(line: bytes) -> list[str]:
    return plain_text(decode_line(line)).split(LINE_BREAK)


def _tail(log: Path, end: int | None) -> tuple[int, list[bytes]]:
    """Offset of the first complete line within the last `TAIL_BYTES`, and the lines from there on."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            size = size if end is None else min(size, end)
            file.seek(max(0, size - TAIL_BYTES))
            data = file.read(min(size, TAIL_BYTES))
    except OSError:
        return 0, []
    start, lines = size - len(data), data.split(b"\n")
    if size > TAIL_BYTES and len(lines) > 1:
        return start + len(lines[0]) + 1, lines[1:]
    return start, lines


logger = logging.getLogger(__name__)

MIN_KEPT_ATTEMPTS = 50
"""The newest of a component, which are always kept."""
MIN_RUNTIME_S = 60.0
"""An older attempt is kept if it ran this long."""


def exit_info(record: AttemptRecord | None) -> ExitInfo:
    """Unknown if nobody was there to record it, and nobody had requested it."""
    if record is None:
        return ExitInfo()
    if record.ended_at is None and record.state != "exited":
        return ExitInfo(on_request=record.stop_requested)
    return ExitInfo(
        code=record.exit_code, signal=record.signal, error=record.error, on_request=record.stop_requested
    )


def explained(
    exit_info: ExitInfo,
    spec: ComponentSpec,
    log: Path,
    patterns: Sequence[FailurePattern],
    *,
    host_oom: str | None = None,
) -> ExitInfo:
    """`exit_info` with the cause from the end of the output.

    A requested end needs none; for a successful job, it may name who continues the work. Leaving a program in
    a terminal is a requested end, whatever the last command's code was.

    `host_oom`: as in `cause_of_end`.
    """
    if exit_info.on_request:
        return exit_info
    if spec.tty and exit_info.code is not None and exit_info.error is None:
        return replace(exit_info, on_request=True)
    if exit_info.code == 0 and spec.outcome:
        matches = list(re.finditer(spec.outcome, "\n".join(last_lines(log))))
        if not matches:
            return exit_info
        cause_text = without_secrets(matches[-1][0])[:LONGEST_TEXT]
        return replace(exit_info, cause=cause_text, cause_code="handed_on")
    if exit_info.code == 0 and spec.kind == "job":
        outcome = find_cause(last_lines(log), patterns, ends_well=True)
        if outcome is None:
            return exit_info
        return replace(exit_info, cause=without_secrets(outcome.text), cause_code=outcome.code)
    try:
        cause = cause_of_end(
            log, exit_code=exit_info.code, signal=exit_info.signal, patterns=patterns, host_oom=host_oom
        )
    except (ValueError, OverflowError):  # its line has a number that no computer holds
        cause = None
    if cause is None or (cause.from_outside and exit_info.cause):  # its host knows better
        return exit_info
    memory = cause.memory and cause.memory.replace(component=spec.id)
    return replace(
        exit_info,
        cause=without_secrets(cause.text),
        cause_code=cause.code,
        hopeless=cause.hopeless,
        memory=memory,
        from_outside=cause.from_outside,
    )


def finished_lifecycle(
    spec: ComponentSpec, record: AttemptRecord | None, log: Path, patterns: Sequence[FailurePattern]
) -> Lifecycle:
    waiting = Lifecycle(kind=spec.kind, state=ComponentState.WAITING)
    explained_exit = explained(exit_info(record), spec, log, patterns, host_oom=saved_host_oom(log.parent))
    return advance(advance(waiting, Spawned(epoch=0, ready=True)), Ended(epoch=0, exit=explained_exit))


def last_known(
    control: ControlFolder,
    spec: ComponentSpec,
    patterns: Sequence[FailurePattern],
    run_jobs: Collection[str],
) -> ComponentStatus:
    """The component as the files of its newest attempt show it; `ready` if a process of it lives."""
    numbers = control.attempts(spec.id)
    component = ComponentStatus(
        id=spec.id,
        kind=spec.kind,
        prepares=bool(spec.creates),
        writes_run=spec.id in run_jobs,
        manual=spec.is_manual,
    )
    if not numbers:
        return component
    record = processes.read_attempt(control.attempt_dir(spec.id, numbers[-1]))
    log = control.log_file(spec.id, numbers[-1])
    started_at = record.started_at if record is not None else None
    attempt = {"attempt": numbers[-1], "started_at": started_at, "log": str(log)}
    if record is None and not processes.has_record(log.parent):
        return component.replace(**attempt)  # its shim never ran
    if record is not None and record.is_alive:
        return component.replace(**attempt, state=ComponentState.READY)
    lifecycle = finished_lifecycle(spec, record, log, patterns)
    exit_info = lifecycle.exit or ExitInfo()
    end = {
        "state": lifecycle.state,
        "reason": lifecycle.reason,
        "code": lifecycle.reason_code,
        "exit_code": exit_info.code,
        "signal": exit_info.signal,
        "lost": exit_info.is_lost,
        "from_outside": exit_info.from_outside,
        "out_of_memory": exit_info.memory,
    }
    return component.replace(**attempt, **end)


def prune_attempts(control: ControlFolder, component: str) -> None:
    """Remove old attempts that failed early: those of a crash loop would fill the disk.

    One that ran for a while has a log that a person may want, and is kept, as are the newest.
    """
    for number in control.attempts(component)[:-MIN_KEPT_ATTEMPTS]:
        folder = control.attempt_dir(component, number)
        record = processes.read_attempt(folder)
        if record is None or record.ended_at is None:
            continue  # unreadable, or not ended as far as is known
        if record.ended_at - record.started_at >= MIN_RUNTIME_S or record.is_supervised:
            continue
        try:
            shutil.rmtree(folder)
        except OSError as error:
            logger.warning("cannot remove %s: %s", folder, error.strerror)
