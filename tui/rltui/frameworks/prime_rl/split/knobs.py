"""What can be turned in the files of this generation."""

from __future__ import annotations

from rltui.core.knobs import Knob
from rltui.frameworks.base import no_defaults

KNOBS: tuple[Knob, ...] = ()
defaults = no_defaults
