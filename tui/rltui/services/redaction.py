"""Redaction of secrets in all program output and command lines that rltui displays or stores: journal,
alerts, causes of failure, `rltui logs`, rollouts, reports.
"""

from __future__ import annotations

import functools
import os

from rltui.base.secrets import is_secret, redact

_LEAST_CHARACTERS = 8
"""Shorter values are not redacted, since they would occur in unrelated words."""


def without_secrets(text: str) -> str:
    """Redact as `redact`, and also the values of variables that hold secrets here, such as `HF_TOKEN`."""
    return redact(text, _values())


@functools.cache
def _values() -> tuple[str, ...]:
    lines = [line for name, value in os.environ.items() if is_secret(name) for line in value.splitlines()]
    return tuple(line for line in lines if len(line) >= _LEAST_CHARACTERS and not line.startswith("/"))
