"""Errors that a user sees: the event, its location, and advice."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line; part of its contract."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INVALID_CONFIG = 3
    CONFLICT = 4
    COMPONENT_FAILED = 5
    INTERRUPTED = 130


EXIT_MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "usage: unknown option, name or path, or not confirmed; nothing was done",
    ExitCode.INVALID_CONFIG: "invalid config or layout; nothing was written",
    ExitCode.CONFLICT: "conflict: a file has changed, or a name, port, folder or GPU is taken",
    ExitCode.COMPONENT_FAILED: "a component has failed; also the status of a failed or lost run",
    ExitCode.INTERRUPTED: "interrupted by ctrl+c; running components are unaffected",
}
"""Exit code → its meaning, in help, manual page and README."""


UNKNOWN_COMMAND = "unknown command"
"""Begins the error for a command that this version does not have; a newer client recognizes it by this."""


class RltuiError(Exception):
    """An expected failure. It is displayed in words, never as a traceback.

    `title` says what happened in one line, `details` adds evidence (a line each), `hint` says what to do.
    `code` is for programs: a row of `core/experiment/reason_codes.py`, by default that of the class.
    """

    exit_code: ExitCode = ExitCode.FAILED
    code: str = "error"

    def __init__(
        self, title: str, *, details: tuple[str, ...] | list[str] = (), hint: str = "", code: str = ""
    ) -> None:
        super().__init__(title)
        self.title = title
        self.details = tuple(details)
        self.hint = hint
        self.code = code or self.code

    def to_plain(self) -> dict[str, object]:
        """The error as `--json` has it."""
        return {"code": self.code, "title": self.title, "details": self.details, "hint": self.hint}

    def __str__(self) -> str:
        lines = [self.title, *(f"  {line}" for line in self.details)]
        if self.hint:
            lines.append(f"→ {self.hint}")
        return "\n".join(lines)


class UsageError(RltuiError):
    """The command was asked for something that does not make sense."""

    exit_code = ExitCode.USAGE
    code = "usage"


class ConfigError(RltuiError):
    """A config or layout is malformed or breaks a rule. Nothing was written."""

    exit_code = ExitCode.INVALID_CONFIG
    code = "invalid_config"


class NotFoundError(ConfigError):
    """A file, folder or layout that a command line names does not exist."""

    exit_code = ExitCode.USAGE
    code = "not_found"


class ConflictError(RltuiError):
    """Something else holds what is needed: a name, a port, an output folder, a changed file."""

    exit_code = ExitCode.CONFLICT
    code = "conflict"


class ComponentFailedError(RltuiError):
    """A component died or never became ready."""

    exit_code = ExitCode.COMPONENT_FAILED
    code = "component_failed"


class LinkDownError(RltuiError):
    """The machine cannot be reached at the moment; the owner of the connection tries again by itself. The
    title says which machine, and since when: nothing was asked, nothing done.
    """

    code = "unreachable"


ERROR_TYPES: dict[ExitCode, type[RltuiError]] = {
    kind.exit_code: kind
    for kind in (RltuiError, UsageError, ConfigError, ConflictError, ComponentFailedError)
}
"""Exit code that travels over the API → error class."""
