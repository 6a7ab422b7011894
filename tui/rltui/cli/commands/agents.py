"""`agents`: what agents may do here, what they propose, and a pause for all of them."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

from rltui.base.text import count_text
from rltui.cli.arguments import JSON, NAMED_RUN, listing
from rltui.cli.choosing import choose_named, choose_run, ready_index
from rltui.cli.colour import style
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.output import print_json, print_rows
from rltui.cli.table import TableColumn, print_table, print_view
from rltui.core import hints

if TYPE_CHECKING:
    from rltui.client.agents import AgentsReport

_ID = re.compile(r"p\d+")
_TARGET = argument("run", "RUN", "run, or entry of the queue", completes="runs")


@command("agents status", JSON, examples=("agents", "agents status --json"))
def status(arguments: Arguments) -> int:
    from rltui.client.agents import report

    found = report()
    if arguments.json:
        print_json(found)
        return 0
    for label, text in _right_rows(found):
        print(f"{style(f'{label:<10}', 'faint')}{text}")
    if found.agents:
        print()
        rows = [[use.name, *map(str, (use.runs, use.trials, use.restarts))] for use in found.agents]
        numbers = (TableColumn(name, is_right=True) for name in ("RUNS", "QUEUE", "RESTARTS/H"))
        print_table((TableColumn("AGENT", least=8), *numbers), rows)
    _print_proposals(found)
    return 0


def _right_rows(found: AgentsReport) -> list[tuple[str, str]]:
    from rltui.core.experiment.rights import LEVELS

    rows = [("rights", f"{found.level}: {LEVELS[found.level]} ({found.source})")]
    for name, value in found.limits.items():
        if value not in (None, ["*"], {}):
            rows.append((name, _limit_text(value)))
    return rows


def _limit_text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {low:g} to {high:g}" for key, (low, high) in value.items())
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else f"{value}"


def _print_proposals(found: AgentsReport) -> None:
    from rltui.views.proposal import VIEW, of_entry, of_run

    rows = [*(of_run(item.run, item.proposal) for item in found.proposals), *map(of_entry, found.entries)]
    if rows:
        print()
        print_view(VIEW.columns, rows, time.time())


@command(
    "agents proposals",
    flag("--all", "also answered and expired ones"),
    *listing("only the newest"),
    examples=("agents proposals", "agents proposals --json"),
)
def proposals(arguments: Arguments) -> int:
    from rltui.client.agents import report

    found = report(answered=arguments.all)
    if arguments.json:
        print_rows(arguments, "proposals", found.proposals, more={"entries": found.entries}, keeps_last=True)
    elif not (found.proposals or found.entries):
        print("no proposals", file=sys.stderr)
    else:
        _print_proposals(found)
    return 0


@command(
    "agents accept",
    _TARGET,
    argument("id", "ID", "proposal (default: the only open one)", nargs="?", completes="proposals"),
    JSON,
    examples=("agents accept demo p1", "agents accept night-lr-1"),
)
def accept(arguments: Arguments) -> int:
    return _answer(arguments, accepted=True, id_=arguments.id, word="")


@command(
    "agents decline",
    _TARGET,
    argument("word", "ID|WORD", "proposal, and a word for the agent", nargs="*", completes="proposals"),
    JSON,
    examples=("agents decline demo p1 too early", "agents decline night-lr-1"),
)
def decline(arguments: Arguments) -> int:
    words = list(arguments.word)
    id_ = words.pop(0) if words and _ID.fullmatch(words[0]) else None
    return _answer(arguments, accepted=False, id_=id_, word=" ".join(words))


def _answer(arguments: Arguments, *, accepted: bool, id_: str | None, word: str) -> int:
    from rltui.client.agents import answer
    from rltui.client.queue import commands
    from rltui.services.runs.queue_file import read_queue

    done = "accepted" if accepted else "declined"
    proposed = [entry for entry in read_queue().entries if entry.is_proposed]
    document: object
    if id_ is None and any(arguments.run in (entry.id, entry.name, entry.group) for entry in proposed):
        answered = commands.answer(arguments.run, accepted=accepted, word=word)
        names = [entry.name for entry in answered]
        document, text = {"entries": names, "state": done}, ", ".join(names)
    else:
        proposal = answer(choose_named(arguments.run).record, id_, accepted=accepted, word=word)
        document, text = proposal, f"{proposal.id}: {proposal.text}"
    if arguments.json:
        print_json(document)
    else:
        print(f"{done}: {text}", file=sys.stderr)
    return 0


@command("agents budget", JSON, examples=("agents budget", "agents budget --json"))
def budget(arguments: Arguments) -> int:
    from rltui.client.agents import budget

    found = budget()
    if arguments.json:
        print_json(found)
    elif not (found.agents or found.people):
        print("no run has used a GPU", file=sys.stderr)
    else:
        columns = (
            TableColumn("WHO", least=8),
            TableColumn("GPU HOURS", is_right=True),
            TableColumn("LEFT", is_right=True),
            TableColumn("RUNS", least=12),
        )
        rows = [
            [
                f"{kind}{user.name}",
                f"{user.gpu_hours:.2f}",
                "" if user.left_hours is None else f"{user.left_hours:.2f}",
                ", ".join(use.run for use in user.runs),
            ]
            for kind, users in (("agent ", found.agents), ("", found.people))
            for user in users
        ]
        print_table(columns, rows)
    return 0


@command("agents pause", JSON, examples=("agents pause",))
def pause(arguments: Arguments) -> int:
    return _set_pause(arguments, is_paused=True)


@command("agents resume", JSON, examples=("agents resume",))
def resume(arguments: Arguments) -> int:
    return _set_pause(arguments, is_paused=False)


def _set_pause(arguments: Arguments, *, is_paused: bool) -> int:
    from rltui.client.agents import report
    from rltui.services.experiment.rights import set_pause

    set_pause(is_paused=is_paused)
    if arguments.json:
        print_json(report())
    elif is_paused:
        print(
            f"agents only look now; runs continue; to end the pause: {hints.AGENTS_RESUME}", file=sys.stderr
        )
    else:
        waiting = len(report().proposals)
        text = f"; {count_text(waiting, 'proposal')} waiting: {hints.PROPOSALS}" if waiting else ""
        print(f"agents have their rights again{text}", file=sys.stderr)
    return 0


@command(
    "agents rights",
    NAMED_RUN,
    argument(
        "level",
        "look|propose|act|default",
        "rights of agents on this run",
        nargs="?",
        completes="agent_levels",
    ),
    JSON,
    examples=("agents rights demo", "agents rights demo act", "agents rights demo default"),
)
def rights(arguments: Arguments) -> int:
    from pathlib import Path

    from rltui.core.experiment.rights import LEVELS
    from rltui.core.runs.row import RunChange
    from rltui.errors import UsageError
    from rltui.services.experiment.rights import granted
    from rltui.services.runs.organize import change_run

    index = ready_index()
    row, level = choose_run(index, arguments), arguments.level
    if level is not None:
        if level not in (*LEVELS, "default"):
            raise UsageError(f"unknown rights: {level}", hint=f"one of {', '.join(LEVELS)}, default")
        row = change_run(index, row, RunChange(rights="" if level == "default" else level))
    now = granted(Path(row.control) if row.control else None)
    if arguments.json:
        print_json({"run": row.name, "level": now.level, "source": now.source})
    else:
        print(f"{row.name}: {now.level}: {LEVELS[now.level]} ({now.source})")
    return 0
