"""Everything that can be wrong with a config of this generation."""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl.merged.keys import AS_OF, GRAMMARS
from rltui.frameworks.prime_rl.merged.knobs import KNOBS, defaults
from rltui.frameworks.prime_rl.merged.rules import BATCH, RULES
from rltui.frameworks.rules import Checks

_ALIAS = "orchestrator.group_size"
"""What `rollouts_per_example` could be called from May 2026 on, and had to be from July on."""


class _Checks(Checks):
    """With the group size under one name."""

    def plain(self, files: ConfigFiles) -> tuple[ConfigFiles, frozenset[str]]:
        clean, empty = Checks.plain(self, files)
        return {role: _with_one_name(file) for role, file in clean.items()}, empty


def _with_one_name(file: ConfigFile) -> ConfigFile:
    size = value_at(file.data, _ALIAS)
    if size is None or value_at(file.data, BATCH.group_size) is not None:
        return file
    table = dict(file.data["orchestrator"])
    del table["group_size"]
    table["rollouts_per_example"] = size
    return replace(file, data={**file.data, "orchestrator": table})


check = _Checks(GRAMMARS, KNOBS, defaults, RULES, lax=True, none="None", as_of=AS_OF)
