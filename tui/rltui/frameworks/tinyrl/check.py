"""Everything that can be wrong with a tinyrl config."""

from __future__ import annotations

from collections.abc import Iterator

from rltui.core.api import Problem
from rltui.core.knobs import shown
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.config_data import effective
from rltui.frameworks.rules import rule_problems, unknown_keys, value_problems
from rltui.frameworks.tinyrl.environments import ENV, env_problems
from rltui.frameworks.tinyrl.knobs import KNOBS, defaults
from rltui.frameworks.tinyrl.rules import RL_RULES, SFT_RULES

_WHAT = "the embedded engine"
_OUTPUT_DIR = "output_dir"
_KNOWN = {
    "rl": {ENV, _OUTPUT_DIR, *(knob.key for knob in KNOBS if knob.file == "rl")},
    "sft": {_OUTPUT_DIR, *(knob.key for knob in KNOBS if knob.file == "sft")},
}
_NAMESPACES = {"rl": "", "sft": "sft"}


def check(files: ConfigFiles) -> tuple[Problem, ...]:
    """Unknown keys, types and bounds, environments, rules between knobs; in this order."""
    found: list[Problem] = []
    for role, file in files.items():
        found.extend(unknown_keys(file, _KNOWN[role], namespace=_NAMESPACES[role], what=_WHAT))
        found.extend(_output_dir_problems(file, _NAMESPACES[role]))
    values_found = list(value_problems(KNOBS, files))
    found.extend(values_found)
    values = effective(KNOBS, files, defaults(files))
    faulty = {problem.key for problem in values_found if problem.key}
    if rl := files.get("rl"):
        found.extend(env_problems(rl))
        found.extend(rule_problems(RL_RULES, values, faulty=faulty, path=rl.path))
    if sft := files.get("sft"):
        found.extend(rule_problems(SFT_RULES, values, faulty=faulty, path=sft.path))
    return tuple(found)


def _output_dir_problems(file: ConfigFile, namespace: str) -> Iterator[Problem]:
    value = file.data.get(_OUTPUT_DIR)
    name = f"{namespace}.{_OUTPUT_DIR}" if namespace else _OUTPUT_DIR
    if value is not None and (not isinstance(value, str) or not value):
        yield Problem(key=name, message=f"{name} must be a path, not {shown(value)}", file=file.path)
