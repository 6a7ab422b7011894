"""`rltui --host HOST …` runs the command on the other machine, or the TUI here on its experiments."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from rltui import paths, settings
from rltui.cli.arguments import KEYMAP, KEYMAP_VARIABLE
from rltui.cli.command import load
from rltui.client.transports.remote_machine import RemoteMachine, host_of
from rltui.core import hints
from rltui.core.command_list import is_command
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.services.actor import actor

_NO_PROGRAM, _NO_CONNECTION = 127, 255
"""Exit codes of a shell that finds no such command, and of ssh for failures of its own."""


def run_on_host(name: str, argv: Sequence[str]) -> int:
    """Run a command line on another machine.

    Raises:
        UsageError: for what is no host, or a command of this machine.
        RltuiError: if it cannot be reached, or has no rltui.
    """
    host = host_of(name, settings.load(paths.settings_file()).hosts)
    has_command = bool(argv) and is_command(argv[0])
    if has_command and load(argv[0]).is_local:
        raise UsageError(f"{argv[0]} works on this machine only", hint="leave --host out")
    if has_command or (argv and argv[0] in ("-h", "--help", "--version")):
        return _run(host, argv)
    return _show(host, argv)


def _run(host: RemoteMachine, argv: Sequence[str]) -> int:
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    command = host.running([host.rltui, *argv], terminal=terminal, env=actor().variables)
    sys.stdout.flush()
    interrupts: list[int] = []
    previous_handler = signal.signal(
        signal.SIGINT, lambda number, _: interrupts.append(number)
    )  # it is for the command
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise RltuiError(f"cannot run {command[0]}: {error.strerror}", hint="install OpenSSH") from error
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    if interrupts:
        return int(ExitCode.INTERRUPTED)
    if code == _NO_PROGRAM:
        raise host.without_rltui()
    if code == _NO_CONNECTION and host.is_ssh:
        raise RltuiError(f"cannot reach {host.name}", hint=f"check that `ssh {host.name}` works")
    return code if code >= 0 else 128 - code


def _show(host: RemoteMachine, argv: Sequence[str]) -> int:
    from rltui.cli.app import need_terminal, show_remote

    parser = argparse.ArgumentParser(prog="rltui --host HOST", add_help=False)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--readonly", action="store_true")
    KEYMAP.add_to(parser)
    arguments, unknown = parser.parse_known_args([*argv])
    name = arguments.name
    if unknown or name.endswith(".toml"):
        raise UsageError(
            f"not a run on {host.name}: {' '.join(argv)}",
            hint=f"to start one there: {hints.ON_HOST(host=host.name)}, with a path on {host.name}",
        )
    if arguments.keymap:
        os.environ[KEYMAP_VARIABLE] = arguments.keymap
    need_terminal()
    return show_remote(host, name, readonly=arguments.readonly)
