"""What may stand in `[[orchestrator.env]]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.knobs import Knob, TomlValue, shown
from rltui.core.suggest import did_you_mean
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.config_data import value_at

ENV = "orchestrator.env"
ENVIRONMENTS = ("reverse-text",)

_MIN = Knob("min_chars", "int", (), "Shortest text to reverse.", 4, minimum=1)
_MAX = Knob("max_chars", "int", (), "Longest text to reverse.", 7, minimum=1)
_ARGS = {knob.key: knob for knob in (_MIN, _MAX)}
_KEYS = ("id", "name", "args")


def env_problems(file: ConfigFile) -> Iterator[Problem]:
    """What is wrong with the environments; exactly one must be named."""
    envs = value_at(file.data, ENV)
    if envs is None:
        return
    if not isinstance(envs, list) or not all(isinstance(env, dict) for env in envs):
        yield _problem(file, ENV, f"{ENV} must be a list of tables: write [[{ENV}]]")
        return
    if len(envs) != 1:
        yield _problem(file, ENV, f"{ENV} must name exactly one environment, not {len(envs)}")
    for index, env in enumerate(envs):
        for key, message in (*_key_faults(env), *_id_faults(env), *_argument_faults(env)):
            yield _problem(file, f"{ENV}.{index}.{key}", f"{ENV}.{message}")


def _key_faults(env: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in env:
        if key not in _KEYS:
            guess = did_you_mean(key, _KEYS) or f"an environment has {', '.join(_KEYS)}"
            yield key, f"{key} is an unknown key: {guess}"
    if "name" in env and not isinstance(env["name"], str):
        yield "name", f"name must be text, not {shown(env['name'])}"


def _id_faults(env: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = env.get("id", ENVIRONMENTS[0])
    if name not in ENVIRONMENTS:
        guess = did_you_mean(name, ENVIRONMENTS) if isinstance(name, str) else ""
        yield "id", f"id is {shown(name)}: {guess or f'there is {ENVIRONMENTS[0]}'}"


def _argument_faults(env: dict[str, Any]) -> Iterator[tuple[str, str]]:
    given = env.get("args", {})
    if not isinstance(given, dict):
        yield "args", f"args must be a table, not {shown(given)}"
        return
    faults = [(key, _ARGS[key].fault(value)) for key, value in given.items() if key in _ARGS]
    yield from ((f"args.{key}", f"args.{fault}") for key, fault in faults if fault)
    for key in given.keys() - _ARGS.keys():
        yield f"args.{key}", f"args.{key} is an unknown key: there are {', '.join(_ARGS)}"
    low: TomlValue = given.get("min_chars", _MIN.default)
    high: TomlValue = given.get("max_chars", _MAX.default)
    if not any(fault for _, fault in faults) and low > high:
        yield "args", f"args.min_chars ({low}) must be at most args.max_chars ({high})"


def _problem(file: ConfigFile, key: str, message: str) -> Problem:
    return Problem(key=key, message=message, file=file.path)
