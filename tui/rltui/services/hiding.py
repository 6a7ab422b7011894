"""The one door for what programs have said and how they were called: journal, alerts, causes of failure,
`rltui logs`, rollouts, reports, command lines of processes.
"""

from __future__ import annotations

import functools
import os

from rltui.core.secrets import hidden_in, is_secret

_LEAST_CHARACTERS = 8
"""A shorter value would be found in words that have nothing to do with it."""


def without_secrets(text: str) -> str:
    """As `hidden_in`, and without the values of variables that hold secrets here, such as `HF_TOKEN`."""
    return hidden_in(text, _values())


@functools.cache
def _values() -> tuple[str, ...]:
    lines = [line for name, value in os.environ.items() if is_secret(name) for line in value.splitlines()]
    return tuple(line for line in lines if len(line) >= _LEAST_CHARACTERS and not line.startswith("/"))
