"""Run by the checkout's interpreter, never imported here: stand-ins for packages that a config asks for and
that are not installed. Only the standard library and verifiers.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def stand_ins(model: Any) -> Iterator[list[str]]:  # noqa: ANN401
    """Inside, tasksets that cannot be imported are replaced by one that takes any key; the
    yielded list gets the reasons. Raises anything if verifiers cannot do that.
    """
    stand_in = _stand_in()
    lacks: list[str] = []
    replaced_ids: set[str] = set()
    strict = False

    def import_taskset(original: Any, taskset_id: str) -> Any:  # noqa: ANN401
        try:
            return stand_in if taskset_id in replaced_ids and not strict else original(taskset_id)
        except ImportError as error:
            if strict:
                raise
            lacks.append(str(error))
            return stand_in

    def resolve_env_field(original: Any, data: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        nonlocal strict
        original_data, before, strict = copy.deepcopy(data), strict, True
        try:
            return original(data, *arguments, **options)
        except ImportError as error:
            lacks.append(str(error))
            strict, name = False, _id_of(original_data["env"])
            replaced_ids.add(name)
            # What else is below `env` is the business of the package that is missing.
            return original({**original_data, "env": {"taskset": {"id": name}}}, *arguments, **options)
        finally:
            strict = before

    replaced = []
    users = ("verifiers.", model.__module__.partition(".")[0] + ".")
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(users)]
    for name, replacement in (("import_taskset", import_taskset), ("resolve_env_field", resolve_env_field)):
        for module in modules:
            original = vars(module).get(name)
            if str(getattr(original, "__module__", "")).startswith("verifiers."):
                replaced.append((module, name, original))
                setattr(module, name, _wrap(replacement, original))
    try:
        yield lacks
    finally:
        for module, name, original in replaced:
            setattr(module, name, original)


def _wrap(replacement: Any, original: Any) -> Any:  # noqa: ANN401
    return lambda *arguments, **options: replacement(original, *arguments, **options)


@functools.cache
def _stand_in() -> Any:  # noqa: ANN401
    vf = importlib.import_module("verifiers.v1")
    takes_any = {"model_config": {"extra": "allow"}, "__module__": __name__}
    config = types.new_class("StandInConfig", (vf.TasksetConfig,), None, lambda body: body.update(takes_any))
    loads = {"load": lambda _: [], "__module__": __name__}
    taskset = types.new_class(
        "StandIn", (vf.Taskset[vf.Task, config],), None, lambda body: body.update(loads)
    )
    module = types.ModuleType("stand_in")
    module.__dict__.update(StandIn=taskset, __all__=["StandIn"])
    return module


def _id_of(env: dict[str, Any]) -> str:
    taskset = env.get("taskset")
    return (taskset.get("id") if isinstance(taskset, dict) else None) or env.get("id") or ""
