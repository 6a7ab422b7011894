"""prime-rl in the three generations whose files are found today."""

from __future__ import annotations

from rltui.frameworks.prime_rl.current import PRIME_RL
from rltui.frameworks.prime_rl.merged import PRIME_RL_MERGED
from rltui.frameworks.prime_rl.split import PRIME_RL_SPLIT

__all__ = ["PRIME_RL", "PRIME_RL_MERGED", "PRIME_RL_SPLIT"]
