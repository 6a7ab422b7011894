"""Tables of a file that a person writes, such as a layout: classes with a field for each key.

What is given is checked as a table is made, and all that is wrong with it is told. Numbers and truth values
may be given as texts. pydantic would do the same, and takes 60 ms of each start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

Location = tuple[int | str, ...]
"""Keys and list indices from the top of the file to a value."""
_REQUIRED = object()
_TRUTH = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}


class Fault(NamedTuple):
    """What is wrong with a value."""

    location: Location
    text: str
    kind: Literal["wrong", "missing", "unknown"] = "wrong"
    value: object = None
    """The value, where it is to be shown."""


class TableError(ValueError):
    """A table is not what its class says."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        texts = [(".".join(map(str, fault.location)), fault.text) for fault in faults]
        super().__init__("; ".join(f"{place}: {text}" if place else text for place, text in texts))
        self.faults = faults


class Key(NamedTuple):
    """What is said of a field besides its type. Limits are those of the items of a list, but for `least`."""

    default: Any = _REQUIRED
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    is_finite: bool = False
    is_strict: bool = False
    """A truth value is no text."""
    pattern: str = ""
    """Regular expression of a text."""
    least: int = 0
    """Number of characters or items that there must be."""
    read: Callable[[Any], Any] | None = None
    """Makes a value of the type from one in a file. Raises ValueError."""
    check: Callable[[Any], Any] | None = None
    """Makes the value from one of the type. Raises ValueError."""

    @property
    def is_required(self) -> bool:
        return self.default is _REQUIRED


def toml_key(**settings: Any) -> Any:  # noqa: ANN401 - the value of a field, to the type checker
    """The field is a `Key` with these settings."""
    return Key(**settings)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(toml_key,))
class TomlTable:
    """Base of the tables: frozen, equal by value; an unknown key is a fault."""

    keys_given: frozenset[str]
    """Names of the fields that were given; the others have their defaults."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - it is checked
        """Raises TableError."""
        faults: list[Fault] = []
        values: dict[str, Any] = {}
        fields = _fields(type(self))
        for name, (hint, about) in fields.items():
            if name in given:
                values[name] = self._checked(given[name], hint, about, (name,), faults)
            elif about.is_required:
                faults.append(Fault((name,), "is missing", "missing"))
            else:
                values[name] = about.default
        faults += [Fault((name,), "unknown key", "unknown") for name in given if name not in fields]
        if not faults:
            self.__dict__.update(values, keys_given=frozenset(given))
            try:
                self.validate()
            except ValueError as error:
                faults.append(Fault((), str(error)))
        if faults:
            raise TableError(faults)

    @classmethod
    def parse(cls, document: object) -> Self:
        """The table of a parsed file, or what is one already.

        Raises:
            TableError: if it is none.
        """
        faults: list[Fault] = []
        table = _table(document, cls, (), faults)
        if faults:
            raise TableError(faults)
        return table  # type: ignore[no-any-return]

    @classmethod
    def _checked(
        cls,
        value: Any,  # noqa: ANN401 - as found in a file
        hint: Any,  # noqa: ANN401 - a type
        about: Key,
        location: Location,
        faults: list[Fault],
    ) -> Any:  # noqa: ANN401 - of that type
        earlier = len(faults)
        try:
            if about.read is not None:
                value = about.read(value)
            value = _typed(value, hint, about, location, faults)
            if len(faults) == earlier:
                value = value if about.check is None or value is None else about.check(value)
                cls.validate_value(value)
        except ValueError as error:
            faults.append(Fault(location, str(error)))
        return value

    def validate(self) -> None:
        """Check what concerns several fields, once each of them is sound. Raises ValueError."""

    @classmethod
    def validate_value(cls, value: Any) -> None:  # noqa: ANN401 - of the type of its field
        """Check a value, whatever its field. Raises ValueError."""

    @classmethod
    def fields(cls) -> Mapping[str, Key]:
        """What is said of each field."""
        return {name: about for name, (_, about) in _fields(cls).items()}

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - of the fields' types
        """The same with other values for some fields, which are not checked."""
        table = object.__new__(type(self))
        table.__dict__.update(self.__dict__, **changes, keys_given=self.keys_given.union(changes))
        return table

    def with_changes(self, **changes: Any) -> Self:  # noqa: ANN401 - they are checked
        """The table that a file with other values for some keys would be.

        Raises:
            TableError: if it is none.
        """
        return type(self)(**{**{name: value for name, value in self if name in self.keys_given}, **changes})

    def to_plain(self, *, only_given: bool = False) -> dict[str, Any]:
        """The values by the names of their fields, and so of the tables in it. `only_given`: without those
        that have their defaults, which may mean more than these values.
        """
        return {
            name: _plain(value, only_given=only_given)
            for name, value in self
            if not only_given or name in self.keys_given
        }

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each field."""
        return ((name, self.__dict__[name]) for name in _fields(type(self)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self if name in self.keys_given)
        return f"{type(self).__name__}({values})"


_FIELDS: dict[type[TomlTable], Mapping[str, tuple[Any, Key]]] = {}


def _fields(table: type[TomlTable]) -> Mapping[str, tuple[Any, Key]]:
    """Name → type of each field, and what is said of it. Kept, since annotations are texts."""
    if table in _FIELDS:
        return _FIELDS[table]
    hints = get_type_hints(table, include_extras=True)
    defaults = {
        name: getattr(table, name, _REQUIRED)
        for name, hint in hints.items()
        if name != "keys_given" and ClassVar not in (hint, get_origin(hint))
    }
    _FIELDS[table] = {
        name: (hints[name], default if isinstance(default, Key) else Key(default))
        for name, default in defaults.items()
    }
    return _FIELDS[table]


def _plain(value: object, *, only_given: bool) -> object:
    match value:
        case TomlTable():
            return value.to_plain(only_given=only_given)
        case tuple():
            return tuple(_plain(item, only_given=only_given) for item in value)
        case Mapping():
            return {name: _plain(item, only_given=only_given) for name, item in value.items()}
        case _:
            return value


def list_of_texts(*example: str) -> Callable[[object], object]:
    """Refuses a text where a list of them belongs, and says how to write it: behind the `example`, if any."""

    def refuse_text(value: object) -> object:
        if isinstance(value, str):
            words = ", ".join(f'"{word}"' for word in (*example, value))
            raise ValueError(f"must be a list: [{words}]")
        return value

    return refuse_text


# --- values of a type -----------------------------------------------------------------------------------


class _WrongError(Exception):
    """A value is of another type, or beyond a limit: in words that go before the value."""


def _typed(value: Any, hint: Any, about: Key, location: Location, faults: list[Fault]) -> Any:  # noqa: ANN401 - any type
    """A value as one of a type; the faults are added to those before."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _typed(value, arguments[0], arguments[1], location, faults)
    if origin in (Union, UnionType):
        if value is None:
            return None
        return _typed(value, arguments[arguments[0] is NoneType], about, location, faults)
    if origin is tuple:
        return _tuple(value, arguments, about, location, faults)
    if origin in (dict, Mapping):
        return _mapping(value, arguments[1], about, location, faults)
    if isinstance(hint, type) and issubclass(hint, TomlTable):
        return _table(value, hint, location, faults)
    try:
        if origin is Literal:
            return _choice(value, arguments)
        return _SCALARS[hint](value, about)
    except _WrongError as error:
        faults.append(Fault(location, str(error), value=value))
        return value


def _table(value: Any, kind: type[TomlTable], location: Location, faults: list[Fault]) -> Any:  # noqa: ANN401
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        text = f"input should be a valid dictionary or instance of {kind.__name__}"
        faults.append(Fault(location, text, value=value))
        return value
    try:
        return kind(**value)
    except TableError as error:
        faults += [fault._replace(location=(*location, *fault.location)) for fault in error.faults]
        return value


def _mapping(value: Any, hint: Any, about: Key, location: Location, faults: list[Fault]) -> Any:  # noqa: ANN401
    if not isinstance(value, Mapping):
        faults.append(Fault(location, "input should be a valid dictionary", value=value))
        return value
    return {name: _typed(item, hint, about, (*location, name), faults) for name, item in value.items()}


def _tuple(
    value: Any,  # noqa: ANN401
    arguments: tuple[Any, ...],
    about: Key,
    location: Location,
    faults: list[Fault],
) -> Any:  # noqa: ANN401
    if not isinstance(value, list | tuple):
        faults.append(Fault(location, "input should be a valid tuple", value=value))
        return value
    hints = arguments[:1] * len(value) if arguments[-1] is ... else arguments
    of_items = about._replace(least=0)
    items = tuple(
        _typed(item, hint, of_items, (*location, index), faults)
        for index, (item, hint) in enumerate(zip(value, hints, strict=False))
    )
    faults += [Fault((*location, index), "is missing", "missing") for index in range(len(value), len(hints))]
    if len(value) > len(hints):
        text = f"tuple should have at most {len(hints)} items after validation, not {len(value)}"
        faults.append(Fault(location, text))
    if len(value) < about.least:
        text = f"tuple should have at least {about.least} item after validation, not {len(value)}"
        faults.append(Fault(location, text))
    return items


def _choice(value: object, choices: Sequence[object]) -> object:
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise _WrongError(
            f"input should be {', '.join(others)} or {last}" if others else f"input should be {last}"
        )
    return value


def _text(value: object, about: Key) -> str:
    if not isinstance(value, str):
        raise _WrongError("input should be a valid string")
    if len(value) < about.least:
        raise _WrongError(f"string should have at least {about.least} character")
    if about.pattern and re.search(about.pattern, value) is None:
        raise _WrongError(f"string should match pattern '{about.pattern}'")
    return value


def _truth(value: object, about: Key) -> bool:
    if isinstance(value, bool):
        return value
    if about.is_strict:
        raise _WrongError("input should be a valid boolean")
    if isinstance(value, float) and value not in (0, 1):
        raise _WrongError("input should be a valid boolean")
    if isinstance(value, str | int | float):
        truth = _TRUTH.get(value.lower() if isinstance(value, str) else str(int(value)))
        if truth is not None:
            return truth
        raise _WrongError("input should be a valid boolean, unable to interpret input")
    raise _WrongError("input should be a valid boolean")


def _integer(value: object, about: Key) -> int:
    wrong = "input should be a valid integer"
    if not isinstance(value, int | float | str):
        raise _WrongError(wrong)
    try:
        number = int(value)
    except (ValueError, OverflowError):
        reason = ", unable to parse string as an integer" if isinstance(value, str) else ""
        raise _WrongError(f"{wrong}{reason}") from None
    if isinstance(value, float) and number != value:
        raise _WrongError(f"{wrong}, got a number with a fractional part")
    _check_limits(number, about)
    return number


def _number(value: object, about: Key) -> float:
    if not isinstance(value, int | float | str):
        raise _WrongError("input should be a valid number")
    try:
        number = float(value)
    except OverflowError:
        raise _WrongError("input should be a valid number") from None
    except ValueError:
        raise _WrongError("input should be a valid number, unable to parse string as a number") from None
    if about.is_finite and not math.isfinite(number):
        raise _WrongError("input should be a finite number")
    _check_limits(number, about)
    return number


def _check_limits(number: float, about: Key) -> None:
    for limit, holds, words in (
        (about.above, float.__gt__, "greater than"),
        (about.at_least, float.__ge__, "greater than or equal to"),
        (about.below, float.__lt__, "less than"),
        (about.at_most, float.__le__, "less than or equal to"),
    ):
        if limit is not None and not holds(float(number), float(limit)):
            raise _WrongError(f"input should be {words} {limit:g}")


_SCALARS: Mapping[Any, Callable[[object, Key], object]] = {
    str: _text,
    bool: _truth,
    int: _integer,
    float: _number,
}
