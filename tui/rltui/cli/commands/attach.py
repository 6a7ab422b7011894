"""`attach`: the tmux pane of a component, or a shell where a component runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rltui.base.template import Missing
from rltui.cli.arguments import COMPONENT, RUN, after_dashes
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, argument, command, flag, section
from rltui.cli.terminal import while_read
from rltui.cli.waiting import is_component_alive, request_plan, wait_for_components
from rltui.client import launch
from rltui.core import hints
from rltui.errors import ConflictError, ExitCode, RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import known_experiments, run_command


@command(
    "attach",
    RUN,
    COMPONENT,
    flag("--readonly", "show the terminal, send no keys"),
    section(
        "shell",
        flag("--shell", "open a shell in the environment of the component (default: trainer)"),
        argument(
            "--workspace", "FOLDER", "open a shell in this checkout, without a run", completes="folders"
        ),
        flag("--detach", "start the shell; show it later with `attach -c shell`"),
    ),
    examples=(
        "attach demo/trainer",
        "attach demo -c inference --readonly",
        "attach --shell -- nvidia-smi",
    ),
    epilog="With --shell, a command after -- runs instead of $SHELL.",
    grammar=after_dashes,
)
def attach(arguments: Arguments) -> int:
    if arguments.shell:
        return _shell(arguments)
    if arguments.workspace or arguments.detach or arguments.rest:
        raise UsageError("--workspace, --detach and -- need --shell", hint=str(hints.SHELL(name=None)))
    record, components = choose(arguments, acts=True)
    if len(components) != 1:
        raise UsageError(
            "attach shows one component", hint=f"name it: {run_command(hints.ATTACH_TO, record.name)}"
        )
    return _show_pane(record, components[0], readonly=arguments.readonly)


def _show_pane(record: ExperimentRecord, component: str, *, readonly: bool = False) -> int:
    argv = launch.attach_command(record, component, readonly=readonly)
    if not sys.stdin.isatty():
        raise UsageError(
            "attach needs a terminal",
            hint=f"read the log instead: {hints.LOGS(component=component, name=record.name)}",
        )
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)


def _shell(arguments: Arguments) -> int:
    """Start a shell, unless it lives, and become tmux that shows it; without a terminal, pass on what the
    command prints and how it ends. Before there is a run: become the command, where a checkout is.
    """
    from rltui.client.manual_components import SHELL, login_shell, shell_request, tokens
    from rltui.services.runs.observed import refuse_observed

    if arguments.workspace or not (arguments.run or known_experiments()):
        _become(Path(arguments.workspace or "."), arguments.rest or (login_shell(),))
    record, components = choose(arguments, acts=True)
    if len(components) > 1:
        raise UsageError(
            "a shell has the environment of one component",
            hint=f"name one: {run_command(hints.ATTACH_TO, record.name)}",
        )
    like = components[0] if components else None
    refuse_observed(record)
    request = shell_request(record, like=like, command=arguments.rest)
    with launch.connect_or_start(record) as wire:
        if not is_component_alive(wire.call("status"), SHELL):
            wire.call("tokens", tokens())
            request_plan(wire, "execute", request)
            wait_for_components(wire, {SHELL}, timeout_s=None)
        elif like or arguments.rest:
            raise ConflictError(
                f"{record.name} has a shell already",
                hint=f"to show it: {hints.SHELL(name=record.name)}; for a new one, end it with exit, "
                f"or {hints.STOP(components=SHELL, name=record.name)}",
            )
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if arguments.rest and not arguments.detach and not has_terminal:
        return _pass_on(record)
    if arguments.detach or not has_terminal:
        print(f"to type into it: {hints.ATTACH(component=SHELL, name=record.name)}", file=sys.stderr)
        return 0
    return _show_pane(record, SHELL)


def _become(workspace: Path, command: Sequence[str]) -> NoReturn:
    """The command, in the environment of the checkout that is in `workspace`, or near."""
    from rltui.frameworks import registry
    from rltui.services.experiment.checkout import NearbyCheckout

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
        f"no run, and no checkout in {workspace} or above",
        hint=f"name a checkout: {hints.SHELL_IN}",
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
        raise RltuiError("exit code unknown", hint=f"see: {hints.LOGS(component=SHELL, name=record.name)}")
    if attempt.error:
        print(f"rltui: {attempt.error}", file=sys.stderr)
    return attempt.exit_code
