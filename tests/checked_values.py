"""In the tests every value that is made, not only one that is read, has what the types of its fields say.

`Value` itself checks only what it reads. Here its class checks each call, so that a list for a tuple, or a
text for a state, fails the test that makes it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import StructMeta

from rltui.base import values

_SAMPLE = 20
"""Number of elements of a collection that are looked at."""


def check_all() -> None:
    """Have every value checked from now on."""
    make = StructMeta.__call__

    def make_checked(kind: type, /, *args: object, **fields: object) -> object:
        value = make(kind, *args, **fields)
        for name, fits in _fields(kind).items():
            if not fits(given := getattr(value, name)):
                raise TypeError(f"{kind.__name__}.{name} is {given!r}, not {kind.__annotations__.get(name)}")
        return value

    values._ValueType.__call__ = make_checked  # type: ignore[method-assign, assignment]


@cache
def _fields(kind: type) -> dict[str, Callable[[Any], bool]]:
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # a type that only the type checker imports
        return {}
    return {name: _check_of(hints[name]) for name in kind.__struct_fields__}  # type: ignore[attr-defined]


def _check_of(annotation: Any) -> Callable[[Any], bool]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _check_of(args[0])
    if origin in (Union, types.UnionType):
        checks = [_check_of(argument) for argument in args]
        return lambda value: any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: value in args
    if origin is tuple and args[-1] is Ellipsis:
        item = _check_of(args[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value[:_SAMPLE]))
    if origin is tuple:
        items = [_check_of(argument) for argument in args]
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(items)
            and all(check(each) for check, each in zip(items, value, strict=True))
        )
    if origin in (dict, Mapping):
        key, item = map(_check_of, args)
        return lambda value: (
            isinstance(value, Mapping)
            and all(key(name) and item(each) for name, each in [*value.items()][:_SAMPLE])
        )
    kind = origin or annotation
    if kind in (Any, object) or not isinstance(kind, type):
        return lambda _: True
    if kind is float:
        return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    return lambda value: isinstance(value, kind)
