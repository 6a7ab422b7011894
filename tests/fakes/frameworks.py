"""Frameworks that answer otherwise than they do."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from rltui.frameworks.base import Framework

FrameworkT = TypeVar("FrameworkT", bound=Framework)


def answering(framework: FrameworkT, **answers: Any) -> FrameworkT:
    """The same framework with other attributes, or functions in place of its methods."""
    double = copy(framework)
    vars(double).update(answers)
    return double
