"""A launcher's command line in the grammar of `rltui up`, and how its arguments are told apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Options = Mapping[str, bool]
"""Every name of every option of a command of rltui: whether a value follows it."""
_NUMBER = re.compile(r"-[\d.]")


@dataclass(frozen=True, slots=True)
class LauncherLine:
    argv: list[str]
    """Files, keys and options in the grammar of `rltui up`."""
    component: str = ""
    """The only component that it starts; empty: all."""
    table: str = ""
    """Table of the config that its keys are relative to; empty if they are complete."""
    overrides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys that it sets without naming them, with their values."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of ours that it means, with their values; each for the commands that have it."""


def is_file_sign(arg: str) -> bool:
    """`@`, with the file in the same argument or the next; `@best` is a run."""
    if not arg.startswith("@"):
        return False
    from rltui.core.runs.row import BEST  # 5 ms, which other words need not pay

    return arg != BEST


def is_option(arg: str) -> bool:
    """It begins something new, and is no value: `-1` is one."""
    return is_file_sign(arg) or (arg.startswith("-") and len(arg) > 1 and not _NUMBER.match(arg))
