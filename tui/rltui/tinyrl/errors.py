"""The error of the embedded engine's programs."""

from __future__ import annotations


class TinyrlError(Exception):
    """Printed to stderr without a traceback; the program ends with exit code 1."""
