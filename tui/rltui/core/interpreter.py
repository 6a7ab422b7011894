"""How rltui starts Python programs of its own, mostly in a folder of the user's.

A `random.py` or `queue.py` there is not the standard library's: nothing of that folder is on the search path.
"""

from __future__ import annotations

import sys

OWN_PYTHON = sys.executable
"""The interpreter that rltui runs on: `{python}` in a layout."""


def module_command(module: str, *arguments: str, python: str = OWN_PYTHON) -> list[str]:
    """`python -m module`, in UTF-8 whatever the locale. `python` is 3.11 or later, and has rltui."""
    return [python, "-X", "utf8", "-P", "-m", module, *arguments]


def bare_command(*words: str) -> list[str]:
    """`python FILE` or `python -c TEXT` that needs the standard library alone."""
    return [OWN_PYTHON, "-I", "-S", *words]
