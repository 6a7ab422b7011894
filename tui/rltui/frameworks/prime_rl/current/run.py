"""How this generation is run."""

from __future__ import annotations

from rltui.frameworks.generic import template_values

__all__ = ["template_values"]
