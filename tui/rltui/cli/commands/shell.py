"""`shell`: a terminal where a component runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rltui.cli.arguments import NAME
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.commands.attach import show_pane
from rltui.cli.terminal import while_read
from rltui.cli.waiting import is_component_alive, request_plan, wait_for_first_attempt
from rltui.client import launch
from rltui.core import hints
from rltui.core.template import Missing
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.experiments import known_experiments


@command(
    "shell",
    argument(
        "--as",
        "C",
        "with the folder, variables and devices of this component (default: the one that trains)",
        dest="like",
        completes="components",
    ),
    argument(
        "--workspace",
        "DIR",
        "run nothing of an experiment: with the programs of this checkout",
        completes="folders",
    ),
    flag("--detach", "only start it; `rltui attach -c shell` shows it"),
    argument("command", "COMMAND", "after --: what to run (default: $SHELL)", nargs="*"),
    NAME,
)
def shell(arguments: Arguments) -> int:
    """Start one, unless it lives, and become tmux that shows it; without a terminal, pass on what the command
    prints and how it ends. Before there is a run: become the command, where a checkout is.
    """
    from rltui.client.manual_components import SHELL, login_shell, shell_request, tokens
    from rltui.services.runs.observed import refuse_observed

    if arguments.workspace or not (arguments.name or known_experiments()):
        _become(Path(arguments.workspace or "."), arguments.command or (login_shell(),))
    record = choose_experiment(arguments.name)
    refuse_observed(record)
    request = shell_request(record, like=arguments.like, command=arguments.command)
    with launch.connect_or_start(record) as wire:
        if not is_component_alive(wire.call("status"), SHELL):
            wire.call("tokens", tokens())
            request_plan(wire, "execute", request)
            wait_for_first_attempt(wire, {SHELL}, timeout_s=None)
        elif arguments.like or arguments.command:
            raise ConflictError(
                f"{record.name} has a shell already",
                hint=f"`{hints.SHELL(name=record.name)}` shows it; for another, leave that one with `exit`, "
                f"or `{hints.STOP(components='shell', name=record.name)}`",
            )
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if arguments.command and not arguments.detach and not has_terminal:
        return _pass_on(record)
    if arguments.detach or not has_terminal:
        print(f"to type into it: {hints.ATTACH(component='shell', name=record.name)}", file=sys.stderr)
        return 0
    return show_pane(record, SHELL)


def _become(workspace: Path, command: Sequence[str]) -> NoReturn:
    """The command, in the environment of the checkout that is in `workspace`, or near."""
    from rltui.frameworks import registry
    from rltui.services.checkout import NearbyCheckout

    workspace = workspace.absolute()
    for checkout_spec in registry.checkouts():
        nearby = NearbyCheckout(checkout_spec, workspace=workspace)
        if nearby.folder is None:
            continue
        run = nearby.run_prefix()
        if isinstance(run, Missing):
            raise RltuiError(run.reason, hint=run.hint)
        argv = (*run, *command)
        try:
            os.chdir(workspace)
            os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
        except OSError as error:
            raise RltuiError(f"cannot run {argv[0]} in {workspace}: {error.strerror}") from error
    raise UsageError(
        f"there is no experiment yet, and no checkout of a framework in {workspace} or above it",
        hint=f"name its folder: {hints.SHELL_IN}",
    )


def _pass_on(record: ExperimentRecord) -> int:
    """Print what the newest shell prints until it ends; its exit code."""
    from rltui.client.manual_components import SHELL
    from rltui.services.logs.tail import follow_lines
    from rltui.services.processes import read_attempt

    control, has_ended = record.control, threading.Event()
    number = control.attempts(SHELL)[-1]

    def wait() -> None:
        try:
            with launch.connect_or_start(record) as wire:
                next(True for status in wire.events("status") if not is_component_alive(status, SHELL))
        finally:
            has_ended.set()

    threading.Thread(target=wait, daemon=True).start()
    with while_read():
        for line in follow_lines(control.log_file(SHELL, number), 1 << 20, has_ended):
            print(line, flush=True)
    attempt = read_attempt(control.attempt_dir(SHELL, number))
    if attempt is not None and attempt.signal:
        return 128 + signal.Signals[attempt.signal]
    if attempt is None or attempt.exit_code is None:
        raise RltuiError(
            "how it ended is not known", hint=f"see: {hints.LOGS(component=SHELL, name=record.name)}"
        )
    if attempt.error:
        print(f"rltui: {attempt.error}", file=sys.stderr)
    return attempt.exit_code
