"""Command lines of rltui's own Python programs, mostly started in a folder of the user's.

A `random.py` or `queue.py` there is not the standard library's: that folder is not on the search path.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

AGENT, ACTOR = "RLTUI_AGENT", "RLTUI_ACTOR"
"""The name of an agent; the name that a person, or an agent recognised by another variable, goes by."""
AGENT_PROGRAMS: Mapping[str, str] = MappingProxyType({
    "AI_AGENT": "", "AGENT": "", "CLAUDECODE": "claude-code", "CURSOR_AGENT": "cursor",
    "CODEX_THREAD_ID": "codex",
})  # fmt: skip
"""Variable that an agent's program sets for its commands → the agent's name; empty: the variable has it."""
AGENT_MARKS = frozenset({AGENT, ACTOR, *AGENT_PROGRAMS})
OUTER_VARIABLES = AGENT_MARKS | {"TMUX", "TMUX_PANE", "RLTUI_EXPERIMENT", "RLTUI_COMPONENT", "RLTUI_ATTEMPT"}
"""Variables that say where rltui was called from: the user's own tmux, a component of another experiment, or
an agent. No program that it starts gets them from it.
"""
OWN_PYTHON = sys.executable
"""The interpreter that rltui runs on: `{python}` in a layout."""


def module_command(module: str, *arguments: str, python: str = OWN_PYTHON) -> list[str]:
    """`python -m module`, in UTF-8 whatever the locale. `python` is 3.11 or later, and has rltui."""
    return [python, "-X", "utf8", "-P", "-m", module, *arguments]


def bare_command(*arguments: str) -> list[str]:
    """`python FILE` or `python -c TEXT` for code that needs only the standard library."""
    return [OWN_PYTHON, "-I", "-S", *arguments]
