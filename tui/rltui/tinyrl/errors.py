"""What a person has to be told before a program ends."""

from __future__ import annotations


class TinyrlError(Exception):
    """Printed to stderr without a traceback; the program ends with exit code 1."""
