"""Everything that can be wrong with a config of this generation."""

from __future__ import annotations

from rltui.frameworks.prime_rl.merged.keys import GRAMMARS
from rltui.frameworks.prime_rl.merged.knobs import KNOBS, defaults
from rltui.frameworks.prime_rl.merged.rules import RULES
from rltui.frameworks.rules import Checks

check = Checks(GRAMMARS, KNOBS, defaults, RULES, lax=True, none="None")
