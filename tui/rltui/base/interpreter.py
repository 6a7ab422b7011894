"""Command lines of rltui's own Python programs, mostly started in a folder of the user's.

A `random.py` or `queue.py` there is not the standard library's: that folder is not on the search path.
"""

from __future__ import annotations

import sys

OUTER_VARIABLES = frozenset({"TMUX", "TMUX_PANE", "RLTUI_EXPERIMENT", "RLTUI_COMPONENT", "RLTUI_ATTEMPT"})
"""Variables that say where rltui was called from: the user's own tmux, or a component of another experiment.
No program that it starts gets them from it.
"""
OWN_PYTHON = sys.executable
"""The interpreter that rltui runs on: `{python}` in a layout."""


def module_command(module: str, *arguments: str, python: str = OWN_PYTHON) -> list[str]:
    """`python -m module`, in UTF-8 whatever the locale. `python` is 3.11 or later, and has rltui."""
    return [python, "-X", "utf8", "-P", "-m", module, *arguments]


def bare_command(*arguments: str) -> list[str]:
    """`python FILE` or `python -c TEXT` for code that needs only the standard library."""
    return [OWN_PYTHON, "-I", "-S", *arguments]
