"""What travels for a call of `Experiment` or `Runs`: its arguments and its answer, by the types that the
protocols say. Both ends check what they get.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rltui.client import protocol
from rltui.errors import RltuiError

OF_EXPERIMENT = frozenset(
    {
        "bring_back", "cancel_eval", "checkpoints", "convert", "evals", "evaluate", "execute", "gpu_history",
        "journal", "keep_pins", "log_offset_at", "logs", "note", "open_shell", "order_evals", "pins", "plan",
        "plan_prune", "prune", "publication", "publish", "read_config",
    }
)  # fmt: skip
"""Methods of `Experiment` that are carried out where it is."""
OF_RUNS = frozenset({"catch_up", "change", "change_queue", "compare", "configs", "fork", "plan_fork"})
"""Likewise of `Runs`."""


class Call:
    """A method of a protocol, as it travels."""

    def __init__(self, owner: type, name: str) -> None:
        method = getattr(owner, name)
        hints = get_type_hints(method, localns=_NAMES)
        self._result: TypeAdapter[Any] = TypeAdapter(hints.pop("return"))
        self._parameters = [each for each in inspect.signature(method).parameters if each != "self"]
        self._adapters = {each: TypeAdapter(hints[each]) for each in self._parameters}

    def asked(self, arguments: Sequence[object], named: dict[str, object]) -> dict[str, Any]:
        """As plain JSON."""
        given = {**dict(zip(self._parameters, arguments, strict=False)), **named}
        return {key: self._adapters[key].dump_python(value) for key, value in given.items()}

    def understood(self, asked: object) -> dict[str, Any]:
        """The arguments of a call that came.

        Raises:
            RltuiError: if they are none.
        """
        if not isinstance(asked, dict) or not asked.keys() <= self._adapters.keys():
            raise RltuiError("a call with other arguments than this rltui knows", hint=_HINT)
        return {key: _checked(self._adapters[key], value) for key, value in asked.items()}

    def answered(self, result: object) -> Any:  # noqa: ANN401 - JSON
        return self._result.dump_python(result)

    def result(self, answered: object) -> Any:  # noqa: ANN401 - of the type that the method says
        """Of an answer that came.

        Raises:
            RltuiError: if it is none.
        """
        return _checked(self._result, answered)


_HINT = "the rltui at the two ends may be of different versions: install the same"


def _checked(adapter: TypeAdapter[Any], value: object) -> Any:  # noqa: ANN401
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RltuiError(
            f"what the other end says is not understood: {where}: {first['msg']}", hint=_HINT
        ) from None


@cache
def of_experiment(name: str) -> Call:
    return Call(protocol.Experiment, name)


@cache
def of_runs(name: str) -> Call:
    return Call(protocol.Runs, name)


_MODULES = {
    "checkpoints": ("CheckpointReport", "PrunePlan", "Retention"),
    "compare": ("Comparison",),
    "evals": ("EvalReport", "EvalRequest", "QueuedEval"),
    "forks": ("ForkPlan", "ForkRequest"),
    "lines": ("LogEntry",),
    "queue": ("QueueAction", "RunQueue"),
    "runs": ("RunChange", "RunRow"),
}
"""Of `rltui.core`, with what the protocols name of them for their readers alone."""


class _Names(dict[str, Any]):
    """The names in the annotations of the protocols. A module is loaded with the first call that needs it."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - whatever is called so
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"rltui.core.{module}"), name)
        raise KeyError(name)


_NAMES = _Names(Collection=Sequence, Iterable=Sequence)
"""JSON has lists alone; of an `Iterable`, pydantic would make a generator."""
