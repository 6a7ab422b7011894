"""Command lines of launchers that people paste, in the grammar of `rltui up`.

They import the standard library and texts alone: a command line is read at each start of rltui, which has no
time for the frameworks themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltui.frameworks.launchers import medarc, prime_rl
from rltui.frameworks.launchers.line import LauncherLine, Options

PREFIXES = frozenset({"uv", "run", "tinyrl", "vf-rl"}) | prime_rl.PREFIXES
"""Words before the first `@` that say nothing which the config does not."""
REFUSED = prime_rl.REFUSED
"""Programs of launchers that no line starts by itself."""
NOT_KEYS: Mapping[str, str] = prime_rl.NOT_KEYS
"""Options of launchers that are no keys of a config → what does their work here."""


def begins_line(argv: list[str]) -> bool:
    """True if the line is one of a launcher, pasted in place of a command, with no `@` in it."""
    return medarc.begins_line(argv) or prime_rl.begins_line(argv)


def is_submitted(argv: list[str]) -> bool:
    """The line is one of a launcher that submits it to a cluster."""
    return bool(medarc.SUBMITTING & {*argv})


def read(argv: list[str], options: Options) -> LauncherLine:
    """Convert a launcher's line to the grammar of `rltui up`; any other line stays as it is. `options`: those
    of the command that gets it.

    Raises:
        UsageError: for a line that asks for what rltui cannot do.
    """
    return medarc.read(argv, options) or prime_rl.read(argv, options) or LauncherLine(argv)
