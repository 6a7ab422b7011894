"""The command line. This module and the parser import nothing heavy: `status` is often run in a loop."""

from __future__ import annotations

import importlib
import json
import os
import sys

from rltui.cli.parser import parse
from rltui.errors import ExitCode, RltuiError


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    module_name, function_name = arguments.handler
    try:
        handler = getattr(importlib.import_module(f"rltui.cli.{module_name}"), function_name)
        return int(handler(arguments))
    except RltuiError as error:
        _report(error, as_json=getattr(arguments, "json", False))
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted; what runs goes on", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has had enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)


def _report(error: RltuiError, *, as_json: bool) -> None:
    print(f"rltui: {error}", file=sys.stderr)
    if as_json:
        document = {"title": error.title, "details": error.details, "hint": error.hint}
        print(json.dumps({"error": document, "exit_code": int(error.exit_code)}))
