"""Everything that can be wrong with a config of this generation."""

from __future__ import annotations

from rltui.frameworks.base import no_problems

check = no_problems
