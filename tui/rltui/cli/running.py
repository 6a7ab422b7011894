"""`up`, `down`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rltui.cli.choosing import chosen_framework
from rltui.cli.status import as_text, read_status
from rltui.cli.terminal import confirm
from rltui.cli.waiting import StateChanges, wait_until_settled
from rltui.client import creation, launch
from rltui.client.down import take_down
from rltui.client.wire import Wire
from rltui.core.api import Plan, Request
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.services.config_files import named
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.experiments import forget
from rltui.wording import plan_text


def wish_of(arguments: argparse.Namespace) -> creation.Wish:
    """What the arguments of `up` and `open` ask for, once it is clear which framework the config is for."""
    checkpoint = getattr(arguments, "from_checkpoint", None)
    if checkpoint is not None and arguments.new:
        raise UsageError("a new run has no checkpoint to continue from", hint="leave out --new")
    earlier = "resume" if arguments.resume or checkpoint is not None else "new" if arguments.new else "ask"
    files = named([Path(name) for name in arguments.config])
    workspace = Path(arguments.workspace) if arguments.workspace else None
    return creation.Wish(
        config_files=files,
        layout=arguments.layout,
        framework=chosen_framework(files, arguments.layout, arguments.framework, workspace=workspace),
        name=arguments.name,
        output_dir=Path(arguments.output_dir) if arguments.output_dir else None,
        workspace=workspace,
        checkpoint=checkpoint,
        earlier_run=earlier,  # type: ignore[arg-type]  # one of three literals
        force=arguments.force,
    )


def up(arguments: argparse.Namespace) -> int:
    """Create and start an experiment without a terminal."""
    components = tuple(arguments.only.split(",")) if arguments.only else ()
    wish = wish_of(arguments)
    creation.trust_what_runs(wish)
    return start_headless(
        wish,
        Request(action="start", components=components, resume_step=arguments.from_checkpoint),
        wait=not arguments.no_wait,
        timeout_s=arguments.timeout,
        as_json=arguments.json,
    )


def start_headless(
    wish: creation.Wish,
    request: Request,
    *,
    wait: bool,
    timeout_s: float | None,
    as_json: bool,
) -> int:
    """Create, start, follow on stderr until all is ready, print the status on stdout.

    Where nothing can be started, or shall not be, nothing of it is left either.
    """
    begun: list[tuple[Wire, Plan, bool]] = []

    def begin(created: creation.Created) -> None:
        for note in created.notes:
            print(note, file=sys.stderr)
        wire = launch.reach(created.record)
        plan = Plan.model_validate(wire.call("plan", request.model_dump()))
        sys.stderr.write(plan_text(plan))
        is_safe = not any(verdict.is_bad for verdict in plan.memory)
        begun.append((wire, _executed(wire, request) if is_safe else plan, is_safe))

    created = creation.create(wish, begin)
    ((wire, plan, has_begun),) = begun
    with wire:
        if not has_begun:  # a person may take their time, and holds up nobody meanwhile
            try:
                is_meant = confirm("start all the same?")
                plan = _executed(wire, request) if is_meant else plan
            except (RltuiError, KeyboardInterrupt):
                creation.undo(created)
                raise
            if not is_meant:
                print("nothing was started", file=sys.stderr)
                creation.undo(created)
                return int(ExitCode.FAILED)
        if wait:
            status = wait_until_settled(wire, set(plan.start), timeout_s=timeout_s)
        else:
            status = wire.call("status")
    print(json.dumps(status, ensure_ascii=False) if as_json else as_text(status), end="\n" if as_json else "")
    return 0


def _executed(wire: Wire, request: Request) -> Plan:
    """The plan that is being carried out."""
    return Plan.model_validate(wire.call("execute", request.model_dump()))


def down(arguments: argparse.Namespace) -> int:
    """Stop everything of an experiment, its supervisor included. Of an observed run, only the observation."""
    record = launch.choose(arguments.experiment or arguments.name)
    tell = StateChanges()
    try:
        done = take_down(record, tell.show)
    except KeyboardInterrupt:
        print(
            f"interrupted; {record.name} goes on being stopped, see: rltui status {record.name}",
            file=sys.stderr,
        )
        return int(ExitCode.INTERRUPTED)
    if done.left:
        raise RltuiError(f"{record.name} is down, but cannot be ended:", details=done.left)
    status = read_status(record)
    ended = f"{record.name} is down; no process is left"
    if done.unseen:
        ended += f" on this machine. Whether what ssh ran has ended cannot be seen: {', '.join(done.unseen)}"
    if record.observed:
        forget(record)
        ended = f"{record.name} is not observed any more; the run in {record.run_dir} was left alone"
    elif aside := _set_aside(ControlFolder(Path(record.output_dir)).archive):
        print(aside, file=sys.stderr)
    print(json.dumps(status) if arguments.json else ended)
    return 0


def _set_aside(archive: Path) -> str:
    """What restarts moved out of the way of the run; empty where they did not."""
    from rltui.services.runs.disk import size_of, size_text

    size_bytes = size_of(archive)
    if not size_bytes:
        return ""
    return f"restarts have set {size_text(size_bytes)} aside in {archive}: remove what you do not need"
