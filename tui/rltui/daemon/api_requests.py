"""The door of the API: a line becomes a request that has the shape it should, or is refused in words."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeVar

from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError

from rltui.core.values import Value
from rltui.errors import UsageError

_NUL = re.compile(rb"\\u0000")
"""No name, path or value may hold it."""
LONGEST_ID = 100
"""Characters."""


class Call(Value):
    """One line of a client."""

    id: StrictInt | StrictStr | None = Field(default=None)
    method: StrictStr
    params: dict[str, Any] | None = None


class Nothing(Value):
    """Of methods that take no parameters."""


class ConvertParams(Value):
    """Of `convert`."""

    to: Literal["tokens", "rollouts"] | None = None
    mean_tokens: float | None = Field(default=None, strict=True, allow_inf_nan=False)


class ShutdownParams(Value):
    """Of `shutdown`."""

    by: StrictStr = "somebody"
    only_idle: StrictBool = False


Params = TypeVar("Params", bound=Value)


def parse_call(line: bytes) -> Call:
    """What a line asks.

    Raises:
        UsageError: if it cannot be understood; says what is wrong.
    """
    if _NUL.search(line):
        raise UsageError("a request that cannot be understood: it holds the character NUL")
    try:
        return Call.model_validate_json(line)
    except ValidationError as error:
        raise UsageError(f"a request that cannot be understood: {_first_fault(error)}") from None


def parse_params(model: type[Params], params: dict[str, Any] | None) -> Params:
    """The parameters of a method.

    Raises:
        UsageError: if they are not what it takes; names the first that is wrong.
    """
    try:
        return model.model_validate(params or {})
    except ValidationError as error:
        raise UsageError(f"request: {_first_fault(error)}") from None


def id_of(line: bytes) -> int | str | None:
    """The id in a line that is no request, for its refusal, where there is one."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = message.get("id") if isinstance(message, dict) else None
    is_one = isinstance(found, int | str) and not isinstance(found, bool) and len(str(found)) <= LONGEST_ID
    return found if is_one else None


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
