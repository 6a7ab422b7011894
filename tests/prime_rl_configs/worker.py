"""Runs in an interpreter that has prime-rl's config package: says what that package makes of a config.

Reads one JSON object per line, `{"model": "rl" | "sft", "config": {…}}`, `{"model": …, "fields": true}` or
`{"model": …, "examples": true}`, and answers each with one line. Imports nothing of rltui; Python 3.12.
"""

from __future__ import annotations

import json
import sys
import types
import typing
import warnings
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import prime_rl.configs.rl
import verifiers.v1 as vf
from prime_rl.configs.rl import RLConfig
from prime_rl.configs.sft import SFTConfig
from pydantic import BaseModel, ConfigDict, ValidationError
from verifiers.v1.utils import loaders

MODELS: dict[str, type[BaseModel]] = {"rl": RLConfig, "sft": SFTConfig}
FREE = ("env", "serve")
"""Fields that belong to verifiers, below each source."""


class StandInConfig(vf.TasksetConfig):  # type: ignore[misc]  # known in its interpreter only
    """The tasksets are packages of their own, which are not installed: any of their keys will do."""

    model_config = ConfigDict(extra="allow")


class StandIn(vf.Taskset[vf.Task, StandInConfig]):  # type: ignore[misc]
    """Takes the place of every taskset; only its config class counts."""

    def load(self) -> list[Any]:
        """Never called by a validation."""
        return []


def main() -> None:
    """Answers until the input ends."""
    warnings.simplefilter("ignore")
    module = types.ModuleType("stand_in")
    module.__dict__.update(StandIn=StandIn, __all__=["StandIn"])
    loaders.import_taskset = lambda taskset_id: module
    narrowed = vf.resolve_env_field
    vf.resolve_env_field = lambda data, annotation=None: narrowed(_only_ids(data), annotation)
    for line in sys.stdin:
        request = json.loads(line)
        model = MODELS[request["model"]]
        if request.get("examples"):
            answer: Any = _examples()
        else:
            answer = dict(_fields(model)) if request.get("fields") else _verdict(model, request["config"])
        print(json.dumps(answer, default=str), flush=True)


def _examples() -> list[str]:
    checkout = Path(prime_rl.configs.rl.__file__).parents[5]
    return sorted(
        str(path) for folder in ("examples", "configs") for path in (checkout / folder).rglob("*.toml")
    )


def _only_ids(data: Any) -> Any:
    """What is below `env` is the business of the environment's own package."""
    env = data.get("env") if isinstance(data, dict) else None
    if not isinstance(env, dict):
        return data
    taskset = env.get("taskset")
    ids = {"id": taskset["id"]} if isinstance(taskset, dict) and "id" in taskset else {}
    return {**data, "env": {"taskset": ids} if ids else {}}


def _verdict(model: type[BaseModel], config: dict[str, Any]) -> dict[str, Any]:
    try:
        model.model_validate(config)
    except ValidationError as problem:
        errors = [
            {"at": ".".join(map(str, item["loc"])), "type": item["type"], "message": item["msg"]}
            for item in problem.errors(include_input=False, include_url=False, include_context=False)
        ]
        return {"valid": False, "errors": errors}
    except Exception as problem:  # noqa: BLE001 - what escapes a validator ends the program too
        return {
            "valid": False,
            "errors": [{"at": "", "type": type(problem).__name__, "message": str(problem)}],
        }
    return {"valid": True, "errors": []}


def _fields(model: type[BaseModel], at: str = "") -> typing.Iterator[tuple[str, dict[str, Any]]]:
    """Every key by its dotted path. `[]` stands for the elements of an array, `<tag>` for a member of a
    union that is told by its discriminator."""
    for name, field in model.model_fields.items():
        path = f"{at}{name}"
        required = field.is_required()
        default = None if required else field.get_default(call_default_factory=True)
        models = list(_models(field.annotation)) if name not in FREE else []
        for alias in _aliases(field.validation_alias) - {name}:
            yield f"{at}{alias}", {"default": None, "table": False, "alias": name}
        yield (
            path,
            {
                "default": _plain(default),
                "table": bool(models),
                "required": required,
                "nullable": type(None) in typing.get_args(field.annotation),
                "type": str(field.annotation),
                "bounds": [str(item) for item in field.metadata],
            },
        )
        is_array = typing.get_origin(field.annotation) is list
        for inner in models:
            tag = inner.model_fields[str(field.discriminator or "type")].default if len(models) > 1 else ""
            place = path + ("[]" if is_array else "") + (f"<{tag}>" if tag else "") + "."
            yield from _fields(inner, place)
    if model.model_config.get("extra") == "allow":
        yield f"{at}*", {"default": None, "table": False}


def _aliases(alias: Any) -> set[str]:
    return {choice for choice in getattr(alias, "choices", ()) if isinstance(choice, str)}


def _models(annotation: Any) -> typing.Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) is not dict:
        for inner in typing.get_args(annotation):
            yield from _models(inner)


def _plain(value: Any) -> Any:
    """A default as TOML would hold it; `None` for tables and what is not set."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    return None if isinstance(value, BaseModel) else value


if __name__ == "__main__":
    main()
