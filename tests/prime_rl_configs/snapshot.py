"""Makes a schema in `frameworks/prime_rl/data/schemas` from a checkout, in an interpreter with its packages.

    PYTHONPATH=CHECKOUT/packages/prime-rl-configs/src:CHECKOUT/src PYTHON tests/prime_rl_configs/snapshot.py \
        --day 2026-08-21 --commit 559b44772 [--absent torch,transformers,vllm,…] [--models rl=…,sft=…]

Keys, types, defaults, bounds and choices only: no text of theirs. `--absent` names packages that the modules
import and that are not installed: empty ones stand in for them. Standard library, and pydantic of theirs.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
import types
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tui/rltui/frameworks/prime_rl/data/schemas"
SCRIPT = ROOT / "tui/rltui/services/config/models/script.py"
MODELS = "rl=prime_rl.configs.rl:RLConfig,sft=prime_rl.configs.sft:SFTConfig"
OF_OTHERS = ("env", "serve")
"""Fields of a source below which the config of verifiers begins."""


def _any_table(name: str) -> object:
    """For what a newer release has no more: a model of any keys, or a function that gives its argument."""
    import pydantic

    if name.startswith("__"):
        raise AttributeError(name)
    if not name[0].isupper():
        return lambda given=None, *_, **__: given
    config = {"model_config": pydantic.ConfigDict(extra="allow"), "__module__": __name__}
    return types.new_class(name, (pydantic.BaseModel,), None, lambda body: body.update(config))


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--day", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--absent", default="")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--lenient", help="module of which missing names stand for tables of any keys")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.lenient:
        importlib.import_module(arguments.lenient).__dict__["__getattr__"] = _any_table
    importlib.import_module("absent").install(arguments.absent.split(","))
    spec = importlib.util.spec_from_file_location("script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    roles = {}
    for item in arguments.models.split(","):
        role, _, where = item.partition("=")
        module, _, name = where.partition(":")
        model = getattr(importlib.import_module(module), name)
        schema = model.model_json_schema(by_alias=False, schema_generator=script._generator())
        roles[role] = without_text(schema)
    write(arguments.day, arguments.commit, roles)


def write(day: str, commit: str, roles: Mapping[str, Any], *, partial: bool = False) -> None:
    """Write the schemas of a day, without definitions that nothing uses."""
    document = {
        "date": day,
        "commit": commit,
        "partial": partial,
        "roles": {role: pruned(schema) for role, schema in roles.items()},
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, sort_keys=False)
    (FOLDER / f"{day}.json").write_text(text + "\n")


def without_text(found: Any, *, names: bool = False) -> Any:
    """Without descriptions and titles, and without what belongs to verifiers. `names`: the keys are names."""
    if isinstance(found, list):
        return [without_text(item) for item in found]
    if not isinstance(found, dict):
        return found
    kept = {}
    for key, value in found.items():
        if names and key in OF_OTHERS and "$ref" in value:
            kept[key] = {"type": "object", "additionalProperties": True, "default": {}}
        elif names or key not in ("description", "title"):
            kept[key] = without_text(value, names=not names and key in ("properties", "$defs"))
    return kept


def pruned(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Without definitions that nothing uses."""
    definitions = schema.get("$defs", {})
    used: set[str] = set()
    todo = [{key: value for key, value in schema.items() if key != "$defs"}]
    while todo:
        for name in _references(todo.pop()):
            if name not in used:
                used.add(name)
                todo.append(definitions[name])
    return {**schema, "$defs": {name: definition for name, definition in definitions.items() if name in used}}


def _references(value: object) -> Iterator[str]:
    yield from re.findall(r'"#/\$defs/([^"]+)"', json.dumps(value))


if __name__ == "__main__":
    main()
