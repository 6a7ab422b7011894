"""Figures that follow from a config of this generation."""

from __future__ import annotations

from rltui.frameworks.base import nothing_derived

derive = nothing_derived
