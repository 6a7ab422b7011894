"""Which framework wrote an output folder, from the names in it alone: for runs that somebody else started.

prime-rl's folders were read as its detection was: attempts in `configs` too and `monitors` since September
2026; `logs/attempt_<n>` and `configs/*.json` since August; `run_default` and `configs/*.toml` in spring;
`*.stdout` and `rank_<n>.log` before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, SPLIT
from rltui.frameworks.tinyrl import TINYRL

SIGNS: Mapping[str, tuple[str, ...]] = {
    CURRENT: (
        *("logs/latest", "logs/attempt_*", "configs/*.json"),
        *("configs/latest", "configs/attempt_*", "configs/resolved", "monitors/file"),
    ),
    MERGED: (
        "run_default",
        "configs/*.toml",
        "logs/envs",
        "logs/trainer.log",
        "logs/inference.log",
    ),
    SPLIT: ("logs/*.stdout", "logs/rl.log", "logs/orchestrator.log", "logs/trainer/rank_*.log"),
    TINYRL.id: ("control/trainer.json", "control/orchestrator.json"),
}
"""Framework → names relative to the folder, any of which tells; the newest generation first, since a folder
that was used again holds what the older one left too."""
LOOKED_INTO = ("logs", "configs", "monitors", "control", "logs/trainer")
"""Folders whose entries tell, besides the folder's own."""


def framework_of_tree(names: Collection[str]) -> str | None:
    """Id of the framework that wrote a folder with these entries; `None` where nothing tells.

    `names`: relative to the folder, with `/`: its own entries and those of the folders in `LOOKED_INTO`.
    """
    for framework, signs in SIGNS.items():
        if any(fnmatchcase(name, sign) for sign in signs for name in names):
            return framework
    return None
