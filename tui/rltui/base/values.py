"""The base of values that cross a process boundary or are kept in files of ours, and their JSON."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any, Self, TypeVar, dataclass_transform

import msgspec
from msgspec import Struct, StructMeta, field
from msgspec.structs import replace

_Kind = TypeVar("_Kind")


class InvalidValueError(ValueError):
    """A document is not what its reader takes. The text names the key, where there is one, and the fault."""


class _ValueType(StructMeta):
    """Type of the classes of values: made of named fields, and frozen."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **options: Any,  # noqa: ANN401 - those of `Struct`
    ) -> _ValueType:
        return super().__new__(mcs, name, bases, namespace, **({"kw_only": True} | options))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Value(Struct, metaclass=_ValueType, frozen=True):
    """Base of every message: frozen, unknown keys ignored so that a newer supervisor can add some.

    A document is checked as it is read; who makes a value gives what the types of its fields say.
    """

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Raises InvalidValueError if it is no JSON, or holds something else."""
        return from_json(cls, text)

    @classmethod
    def from_plain(cls, document: object) -> Self:
        """The value of a document of JSON types, as `to_plain` makes it.

        Raises:
            InvalidValueError: if it holds something else.
        """
        return from_plain(cls, document)

    def to_json(self) -> bytes:
        return to_json(self)

    def to_plain(self) -> dict[str, Any]:
        """The document of JSON types that a reader of `to_json` gets."""
        document: dict[str, Any] = msgspec.json.decode(to_json(self))
        return document

    def part(self, *names: str) -> dict[str, Any]:
        """Some of the fields, by their names."""
        return {name: getattr(self, name) for name in names}

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - of the fields' types
        """The same with other values for some fields."""
        return replace(self, **changes)


def to_json(value: object) -> bytes:
    """A value, a dataclass or a collection of them as JSON. A number that JSON has not, such as NaN, becomes
    null.
    """
    return _ENCODER.encode(value)


def from_json(kind: type[_Kind], text: bytes | str) -> _Kind:
    """Raises InvalidValueError if it is no JSON, or no value of this `kind`."""
    try:
        return _decoder(kind).decode(text)
    except _FAULTS as error:
        raise InvalidValueError(_fault(error)) from None


def from_plain(kind: type[_Kind], document: object, *, is_lax: bool = False) -> _Kind:
    """A value from a document of JSON types.

    `is_lax`: a text that is a number is taken for a number, and a number without fraction for a whole one.

    Raises:
        InvalidValueError: if it is none of this `kind`.
    """
    _decoder(kind)
    try:
        return msgspec.convert(document, kind, dec_hook=_decode_other, strict=not is_lax)
    except _FAULTS as error:
        raise InvalidValueError(_fault(error)) from None


def _decoder(kind: type[_Kind]) -> msgspec.json.Decoder[_Kind]:
    """The decoder of a type, which is made once: two threads that have msgspec look at the same type for the
    first time crash the interpreter.
    """
    if (decoder := _decoders.get(kind)) is None:
        with _making_decoder:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind, dec_hook=_decode_other)
    return decoder


def _encode_other(value: Any) -> object:  # noqa: ANN401 - of a type that msgspec does not know
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value)} cannot be written as JSON")


def _decode_other(kind: type[Any], document: object) -> Any:  # noqa: ANN401 - a value of the type
    if isinstance(document, kind):
        return document
    if kind is Path and isinstance(document, str):
        return Path(document)
    raise ValueError(f"Expected `{kind.__name__}`")


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_making_decoder = threading.Lock()
_ENCODER = msgspec.json.Encoder(enc_hook=_encode_other)
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised by msgspec for what is no JSON, or of another type."""
_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>.*)`")
_INDEX = re.compile(r"\[(?:(\d+)|\.\.\.)\]")
_MISSING = re.compile(r"Object missing required field `(?P<key>.*)`")


def _fault(error: Exception) -> str:
    """Describe the fault, after the key: `components.0.pid: expected int, got str`."""
    text, key = str(error), ""
    if (place := _PLACE.search(text)) is not None:
        text = text[: place.start()]
        key = _INDEX.sub(lambda index: f".{index[1] or '*'}", place["path"])
    if (missing := _MISSING.fullmatch(text)) is not None:
        key, text = f"{key}.{missing['key']}", "is missing"
    text = text.replace("`", "")
    return f"{key.lstrip('.')}: {text[:1].lower()}{text[1:]}" if key else text
