"""Everything that can be wrong with a tinyrl config."""

from __future__ import annotations

from collections.abc import Iterator

from rltui.core.config_report import Problem
from rltui.core.knobs import shown
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.grammar import Grammar
from rltui.frameworks.rules import Checks
from rltui.frameworks.tinyrl.environments import ENV, env_problems
from rltui.frameworks.tinyrl.knobs import KNOBS, defaults
from rltui.frameworks.tinyrl.rules import RL_RULES, SFT_RULES

_OUTPUT_DIR = "output_dir"
_NAMESPACES = {"rl": "", "sft": "sft"}
_FURTHER = {"rl": (ENV, _OUTPUT_DIR), "sft": (_OUTPUT_DIR,)}


def _grammar(role: str) -> Grammar:
    keys = [knob.key for knob in KNOBS if knob.file == role]
    return Grammar("the embedded engine", (*_FURTHER[role], *keys), namespace=_NAMESPACES[role])


CHECKS = Checks({role: _grammar(role) for role in _NAMESPACES}, KNOBS, defaults, (*RL_RULES, *SFT_RULES))


def check(files: ConfigFiles) -> tuple[Problem, ...]:
    """Unknown keys, types and bounds, rules between knobs, environments; in this order."""
    found = [*CHECKS(files)]
    for role, file in files.items():
        found.extend(_output_dir_problems(file, _NAMESPACES[role]))
    if rl := files.get("rl"):
        found.extend(env_problems(rl))
    return tuple(found)


def _output_dir_problems(file: ConfigFile, namespace: str) -> Iterator[Problem]:
    value = file.data.get(_OUTPUT_DIR)
    name = f"{namespace}.{_OUTPUT_DIR}" if namespace else _OUTPUT_DIR
    if value is not None and (not isinstance(value, str) or not value):
        yield Problem(key=name, message=f"{name} must be a path, not {shown(value)}", file=file.path)
