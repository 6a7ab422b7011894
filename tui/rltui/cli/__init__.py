"""The command line. This module and the parser import nothing heavy: `status` is often run in a loop."""

from __future__ import annotations

import errno
import gc
import os
import sys

from rltui.cli import terminal
from rltui.cli.arguments import KEYMAP_VARIABLE
from rltui.cli.colour import style, switch
from rltui.cli.global_options import appearance_of, host_of, reason_of
from rltui.cli.output import print_json
from rltui.cli.parser import parse
from rltui.errors import ExitCode, RltuiError, UsageError


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. Without `argv` it is that of this process."""
    if argv is None:
        terminal.require_utf8()
    out = terminal.guard()
    try:
        try:
            return _run(argv, out)
        finally:
            out.flush()
            switch(is_on=False)
    except (BrokenPipeError, terminal.BrokenStdout):  # the reader of a pipe (`| head`) has had enough
        terminal.abandon_output()
        return int(ExitCode.DONE)
    except terminal.UnwritableError as error:
        terminal.abandon_output()
        print(f"rltui: cannot write the output: {error}", file=sys.stderr)
        return int(ExitCode.FAILED)


def _run(argv: list[str] | None, out: terminal.CleanStream) -> int:
    out.is_json = False
    try:
        appearance, command_argv = appearance_of(sys.argv[1:] if argv is None else argv)
        terminal.guard(appearance.colours, is_ascii=appearance.is_ascii, is_quiet=appearance.is_quiet)
        host, command_argv = host_of(command_argv)
        if host:
            from rltui.cli.host import run_on_host  # the settings need pydantic

            return run_on_host(host, command_argv)
        reason, command_argv = reason_of(command_argv)
        if reason:
            from rltui.services.actor import give_reason

            give_reason(reason)
        out.is_json = "--json" in command_argv  # also of words that cannot be understood
        arguments = parse(command_argv)
        out.is_json = getattr(arguments, "json", False)
        if keymap := getattr(arguments, "keymap", None):  # found there by whatever opens the TUI in the end
            os.environ[KEYMAP_VARIABLE] = keymap
        if argv is None:
            gc.freeze()
            gc.enable()
        return int(arguments.handler(arguments))
    except RltuiError as error:
        return _report(error, as_json=out.is_json)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        path = f"{str(error.filename)[:60]} …"
        return _report(UsageError(f"file name too long: {path}"), as_json=out.is_json)
    except KeyboardInterrupt:
        print("interrupted; running components are unaffected", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)


def _report(error: RltuiError, *, as_json: bool) -> int:
    with terminal.spoken():
        print(f"{style('rltui:', 'bad')} {error}", file=sys.stderr)
    if as_json:
        print_json({"error": error, "exit_code": int(error.exit_code)})
    return int(error.exit_code)
