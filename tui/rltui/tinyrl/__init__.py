"""Asynchronous reinforcement learning in four small programs: `python -m rltui.tinyrl` lists them.

Run as programs: nothing of the manager is imported here, and the manager imports nothing of this but the
models of the config files, which need neither torch nor transformers.
"""

from __future__ import annotations


class TinyrlError(Exception):
    """Printed to stderr without a traceback; the program ends with exit code 1."""
