"""Answers of a framework that knows nothing about a question: defaults in the records of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


def unknown(*_: object) -> None:
    return None


def no_items(*_: object) -> tuple[()]:
    return ()


def no_values(*_: object) -> Mapping[str, Any]:
    return MappingProxyType({})


def no_text(*_: object) -> str:
    return ""


def yes(*_: object) -> bool:
    return True


def no(*_: object) -> bool:
    return False
