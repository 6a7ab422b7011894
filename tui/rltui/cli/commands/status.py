"""`status`: once; or as it changes, drawn in place, told in sentences, or as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rltui.base.text import count_text, duration
from rltui.base.times import clock_text
from rltui.cli.arguments import RUN, WATCH_S, interval_or_name, listing, watch
from rltui.cli.choosing import choose, meant
from rltui.cli.colour import style_line
from rltui.cli.command import Arguments, command, flag
from rltui.cli.output import print_json, print_rows, with_fields
from rltui.cli.status_text import as_text, document, gist_of, head_line, print_status
from rltui.cli.table import room, view_lines
from rltui.cli.terminal import InPlace, can_be_drawn_on, while_read
from rltui.client import launch
from rltui.client.statuses import brief, problem_row, row_of, rows_of
from rltui.client.transports.unix import CONNECT_TIMEOUT_S
from rltui.core import hints
from rltui.core.experiment.states import Reason, component_badge
from rltui.core.runs.state import Verdict, state_text
from rltui.errors import ConfigError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import BrokenExperiment, experiment_above, listed_experiments
from rltui.views.component import host_texts
from rltui.views.experiment import VIEW, exit_code, goal_text

_COLUMNS = VIEW.named(("name", "state", "step", "reward", "age", "framework", "output folder"))
_ENDED_RUNS = 5
"""Ended runs that are listed where nobody says how many."""
_STEPS_S = 60.0
"""Sentences about steps are so far apart: they come faster than anybody listens."""


@command(
    "status",
    RUN,
    watch(interval_or_name),
    flag("--plain", "sentences instead of tables; with --watch, one per change"),
    flag("--brief", "state, step, reward and concerns alone; with --json at most 1 kB"),
    flag("--all", "without RUN: all ended runs"),
    *listing(
        f"without RUN: number of ended runs (default: {_ENDED_RUNS})",
        "one JSON document on stdout; with --watch, one per line",
    ),
    examples=(
        "status",
        "status demo --brief --json",
        "status demo -w 5",
    ),
)
def show_status(arguments: Arguments) -> int:
    """Show one run; without a name all that are alive, and the newest ended."""
    interval_s = arguments.watch
    if isinstance(interval_s, str):  # `status -w NAME`
        if arguments.run is not None:
            raise UsageError(f"not a number of seconds: {interval_s}", hint=str(hints.STATUS_WATCH))
        arguments.run, interval_s = interval_s, WATCH_S
    if interval_s is not None or arguments.plain:
        records = [target.record for target in meant(arguments)]
        return _watch(records, interval_s, arguments)
    if arguments.brief:
        return _print_brief(arguments)
    if arguments.run is not None:
        return _print_one(_named_row(arguments), arguments)
    if not arguments.json and not arguments.all and (here := experiment_above(Path.cwd())) is not None:
        return _print_one(row_of(here, timeout_s=CONNECT_TIMEOUT_S), arguments)
    _print_runs(arguments)
    return 0


def _named_row(arguments: Arguments) -> dict[str, Any]:
    """The status of the named run, also of one whose folder is gone."""
    try:
        return row_of(choose(arguments).record, timeout_s=CONNECT_TIMEOUT_S)
    except ConfigError as error:
        from rltui.services.runs.catalog import UnreadableRunError  # knows the index

        if not isinstance(error, UnreadableRunError):
            raise
        row = error.run
        problem = ConfigError(row.reason.text, hint=error.hint)
        return problem_row(row.name, row.folder, Verdict(row.state, row.reason), problem)


def _print_one(status: dict[str, Any], arguments: Arguments) -> int:
    if arguments.fields:
        print_json(with_fields([document(status)], arguments.fields)[0])
    else:
        print_status(status, as_json=arguments.json)
    return exit_code(status["state"], Reason.parse(status["reason"]))


def _print_brief(arguments: Arguments) -> int:
    """Print the least of the run that is named, else of all that live."""
    records = [target.record for target in meant(arguments)]
    rows = rows_of(records)
    if not arguments.json:
        print("\n".join(head_line(row) for row in rows))
    else:
        documents = with_fields(list(map(brief, records, rows)), arguments.fields)
        print_json(documents[0] if arguments.run is not None else {"runs": documents})
    codes = [exit_code(row["state"], Reason.parse(row["reason"])) for row in rows]
    return codes[0] if arguments.run is not None else 0


def _print_runs(arguments: Arguments) -> None:
    """Print the runs that are alive, or else the newest, each with its components; and a table of others that
    have ended.
    """
    experiments = listed_experiments()
    broken = [item for item in experiments if isinstance(item, BrokenExperiment)]
    records = [item for item in experiments if isinstance(item, ExperimentRecord)]
    candidates = launch.with_processes(records)
    living_rows = [row for row in rows_of(candidates) if _is_alive(row)]
    alive = {row["experiment"] for row in living_rows}
    ended = [record for record in records if record.name not in alive]
    shown = ended if arguments.all else ended[: arguments.limit or _ENDED_RUNS]
    ended_rows = rows_of([*broken, *shown])
    if arguments.json:
        documents = [*map(document, [*living_rows, *ended_rows])]
        print_rows(arguments, "runs", documents, is_limited=True)
        return
    if not experiments:
        print(f"no runs yet; start one: {hints.UP}, or {hints.DEMO}")
        return
    if not living_rows and len(broken) < len(ended_rows):
        living_rows = [ended_rows.pop(len(broken))]
    blocks = _blocks(living_rows)
    if ended_rows:
        blocks.append("".join(f"{line}\n" for line in list_lines(ended_rows, width=room())))
    print("\n".join(blocks), end="")
    if len(shown) < len(ended):
        more = count_text(len(ended) - len(shown), "more ended run")
        print(f"{more}: {hints.STATUS_ALL}, or {hints.RUNS}")
    if len(alive) > 1:
        print(f"{len(alive)} are running; to stop all: {hints.DOWN_ALL}")


def _is_alive(row: Mapping[str, Any]) -> bool:
    return bool(row["alive"]) or row.get("transaction") is not None


def list_lines(rows: Sequence[Mapping[str, Any]], *, width: int | None = None) -> list[str]:
    """A table of runs; what is wrong with some of them comes after it."""
    lines = view_lines(_COLUMNS, rows, time.time(), width=width)
    for row in rows:
        if problem := row.get("problem"):
            lines.append(style_line(f"⚠ {row['experiment']}: {problem['title']}"))
            lines += [style_line(f"  → {problem['hint']}")] if problem["hint"] else []
    return lines


def _blocks(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [as_text(row, width=room()) for row in rows]


def _watch(records: Sequence[ExperimentRecord], interval_s: float | None, arguments: Arguments) -> int:
    """Print the statuses until ctrl+c, or until nobody reads them; once, where `interval_s` is `None`."""
    with nullcontext() if interval_s is None else while_read():
        if arguments.json:
            for rows in _statuses(records, interval_s):
                documents = [*map(document, rows)]
                print_json({"runs": documents} if arguments.run is None else documents[0])
        elif arguments.plain or not can_be_drawn_on(sys.stdout):
            sentences = [Sentences(f"{record.name}: " if len(records) > 1 else "") for record in records]
            for rows in _statuses(records, interval_s):
                for sentences_of_run, row in zip(sentences, rows, strict=True):
                    for sentence in sentences_of_run.about(row, time.time()):
                        print(sentence, flush=True)
        else:
            area = InPlace(sys.stdout)
            for rows in _statuses(records, interval_s):
                area.draw("\n".join(_blocks(rows)).splitlines())
    return 0


def _statuses(
    records: Sequence[ExperimentRecord], interval_s: float | None
) -> Iterator[list[dict[str, Any]]]:
    due = time.monotonic()
    while True:
        yield rows_of(records)
        if interval_s is None:
            return
        due = max(due + interval_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


class Sentences:
    """Tells what is new in each status in sentences: for screen readers, and for logs."""

    def __init__(self, prefix: str = "") -> None:
        """`prefix`: goes before each sentence, after the time."""
        self._prefix = prefix
        self._reported: dict[str, object] = {}
        """Subject → gist of its last sentence; a new gist makes another sentence."""
        self._started_at: dict[str, float] = {}
        """Component id → time since which it is on its way up."""
        self._steps_at = 0.0

    def about(self, status: Mapping[str, Any], now: float) -> Iterator[str]:
        """Sentences about changes since the last status, as `14:02:11 trainer is running after 12s.`; at
        first, about all.
        """
        clock = clock_text(now)
        sentences = {key: (gist, text) for key, gist, text in self._sentences(status, now)}
        for key in self._reported.keys() - sentences.keys():
            del self._reported[key]  # it is over, and is told again if it comes back
        for key, (gist, text) in sentences.items():
            if self._reported.get(key) != gist:
                self._reported[key] = gist
                yield f"{clock} {self._prefix}{text}."

    def _sentences(self, status: Mapping[str, Any], now: float) -> Iterator[tuple[str, object, str]]:
        """Subject, gist and sentence of each fact."""
        name = status["experiment"]
        if problem := status.get("problem"):
            yield "run", problem["title"], f"{name} is {status['state']}: {problem['title']}"
            return
        state = state_text(status["state"], Reason.parse(status["reason"]))
        yield "run", state, f"{name} {'has ' if state.startswith('failed') else 'is '}{state}"
        if under_way := status.get("transaction"):
            yield "transaction", under_way, f"in progress: {under_way}"
        for component in status["components"]:
            yield component["id"], gist_of(component), self._component(component, now)
            if component["stalled"]:
                evidence = component.get("evidence") or "no progress"
                yield f"{component['id']} stalled", True, f"warning: {component['id']} is stalled: {evidence}"
        if status["alive"]:
            for concern in status.get("progress", {}).get("concerns", ()):
                yield concern["word"], True, f"warning: {concern['word']}: {concern['text']}"
        if orphan_count := len(status.get("orphans", ())):
            processes = "process" if orphan_count == 1 else "processes"
            yield (
                "orphans",
                orphan_count,
                f"warning: {orphan_count} leftover {processes}, see {hints.ORPHANS(name=name)}",
            )
        if status["step"]:
            if now - self._steps_at >= _STEPS_S:
                self._steps_at = now
            yield "step", status["step"] if not status["alive"] else self._steps_at, _steps(status)

    def _component(self, component: Mapping[str, Any], now: float) -> str:
        id_, reason, host = component["id"], component["reason"], component.get("host")
        state = component_badge(component).word
        verbs = {
            "exited": "is done",
            "failed": "has failed",
            "lost": "is lost",
            "backoff": "has failed and restarts",
        }
        text = f"{id_} {verbs.get(state, f'is {state}')}"
        if state in ("waiting", "pending", "starting"):
            self._started_at.setdefault(id_, now)
        elif (started_at := self._started_at.pop(id_, None)) is not None and state in ("ready", "running"):
            text += f" after {duration(now - started_at)}"
        if (component["attempt"] or 0) > 1:
            text += f", attempt {component['attempt']}"
        details = ", ".join([*([reason] if reason else []), *(host_texts(host, now) if host else [])])
        return f"{text}: {details}" if details else text


def _steps(status: Mapping[str, Any]) -> str:
    most = f" of {status['max_steps']}" if status["max_steps"] is not None else ""
    return ", ".join(filter(None, (f"step {status['step']}{most}", goal_text(status))))
