"""Frameworks that answer otherwise than they do."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from rltui.frameworks.base import Framework

PARTS = ("config", "launch", "servers", "run")


def answering(framework: Framework, **answers: Any) -> Framework:
    """The same framework with other functions and values in its parts, or in itself."""
    for name, answer in answers.items():
        parts = {part: getattr(framework, part) for part in PARTS}
        part = next((part for part, value in parts.items() if name in {f.name for f in fields(value)}), None)
        new = answer if part is None else replace(parts[part], **{name: answer})
        framework = replace(framework, **{part or name: new})
    return framework
