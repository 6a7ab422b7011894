"""Everything that can be wrong with a tinyrl config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rltui.core.api import Problem
from rltui.core.knobs import shown
from rltui.core.suggest import did_you_mean
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.config_data import effective, value_at
from rltui.frameworks.rules import rule_problems, unknown_keys, value_problems
from rltui.frameworks.tinyrl.knobs import KNOBS, defaults
from rltui.frameworks.tinyrl.rules import RL_RULES, SFT_RULES

_WHAT = "the embedded engine"
_ENV = "orchestrator.env"
_OUTPUT_DIR = "output_dir"
_KNOWN = {role: {knob.key for knob in KNOBS if knob.file == role} | {_OUTPUT_DIR} for role in ("rl", "sft")}
_NAMESPACES = {"rl": "", "sft": "sft"}
ENVIRONMENTS = ("reverse-text",)


def check(files: ConfigFiles) -> tuple[Problem, ...]:
    """Unknown keys, types and bounds, required keys, rules between knobs; in this order."""
    found: list[Problem] = []
    for role, file in files.items():
        known = _KNOWN[role] | ({_ENV, "ckpt"} if role == "rl" else set())
        found.extend(unknown_keys(file, known - {"ckpt"}, namespace=_NAMESPACES[role], what=_WHAT))
        found.extend(_output_dir_problems(file, _NAMESPACES[role]))
    values_found = list(value_problems(KNOBS, files))
    found.extend(values_found)
    values = effective(KNOBS, files, defaults(files))
    faulty = {problem.key for problem in values_found if problem.key}
    if rl := files.get("rl"):
        found.extend(_required(rl, values))
        found.extend(_env_problems(rl))
        found.extend(rule_problems(RL_RULES, values, faulty=faulty, path=rl.path))
    if sft := files.get("sft"):
        found.extend(rule_problems(SFT_RULES, values, faulty=faulty, path=sft.path))
    return tuple(found)


def _required(file: ConfigFile, values: dict[str, Any]) -> Iterator[Problem]:
    if values["model.name"] in (None, ""):
        yield Problem(
            key="model.name",
            message='model.name must be set: the folder of the model, such as [model] name = "outputs/model"',
            file=file.path,
        )


def _output_dir_problems(file: ConfigFile, namespace: str) -> Iterator[Problem]:
    value = file.data.get(_OUTPUT_DIR)
    name = f"{namespace}.{_OUTPUT_DIR}" if namespace else _OUTPUT_DIR
    if value is not None and (not isinstance(value, str) or not value):
        yield Problem(key=name, message=f"{name} must be a path, not {shown(value)}", file=file.path)


def _env_problems(file: ConfigFile) -> Iterator[Problem]:
    envs = value_at(file.data, _ENV)
    if envs is None:
        return
    if not isinstance(envs, list) or not all(isinstance(env, dict) for env in envs):
        yield _env_problem(file, _ENV, f"{_ENV} must be a list of tables: write [[{_ENV}]]")
        return
    if len(envs) != 1:
        yield _env_problem(file, _ENV, f"{_ENV} must list exactly one environment, not {len(envs)}")
    for index, env in enumerate(envs):
        yield from _one_env(file, f"{_ENV}.{index}", env)


def _one_env(file: ConfigFile, where: str, env: dict[str, Any]) -> Iterator[Problem]:
    for key in env:
        if key != "id":
            yield _env_problem(file, f"{where}.{key}", f"unknown key {_ENV}.{key}: an environment has an id")
    name = env.get("id")
    if not isinstance(name, str) or name not in ENVIRONMENTS:
        given = "is missing" if name is None else f"is {shown(name)}"
        guess = did_you_mean(name, ENVIRONMENTS) if isinstance(name, str) else ""
        known = f"there is {', '.join(ENVIRONMENTS)}"
        yield _env_problem(
            file, f"{where}.id" if name is not None else where, f"{_ENV}.id {given}: {guess or known}"
        )


def _env_problem(file: ConfigFile, key: str, message: str) -> Problem:
    return Problem(key=key, message=message, file=file.path)
