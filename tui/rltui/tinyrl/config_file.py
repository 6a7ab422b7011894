"""Reads the command line into a checked configuration, or into one message with advice.

The grammar is prime-rl's: `@ file.toml` as often as needed, then `--dotted.key value`. `--dotted.key=` with
nothing behind it changes nothing: for layouts whose values may be empty.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rltui.tinyrl import TinyrlError

ConfigType = TypeVar("ConfigType", bound=BaseModel)

_COMMAND_LINE = "command line"
_NULL_WORDS = frozenset({"none", "null"})


@dataclass(slots=True)
class Arguments:
    """The parsed command line, not yet validated."""

    files: list[Path] = field(default_factory=list)
    overrides: dict[str, Any] = field(default_factory=dict)
    """Dotted key in snake case → value, in the order of the command line."""
    wants_help: bool = False


def override_value(text: str) -> object:
    """A TOML value if `text` is one, `None` for None and null, else the text itself."""
    if text.lower() in _NULL_WORDS:
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_arguments(argv: list[str], short: Mapping[str, str] | None = None) -> Arguments:
    """Read the arguments after the program's name. `short`: abbreviations of some keys, such as `-n`.

    Raises:
        TinyrlError: an argument that is neither `@ file` nor an option.
    """
    arguments = Arguments()
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        if argument in {"-h", "--help"}:
            arguments.wants_help = True
        elif argument == "@":
            if not rest:
                raise TinyrlError("`@` needs a file after it: `@ rl.toml`")
            arguments.files.append(Path(rest.pop(0)))
        elif argument.startswith("@"):
            raise TinyrlError(f"`{argument}`: put a space after the at sign, `@ {argument[1:]}`")
        elif short and argument in short:
            _add_override(arguments, short[argument], rest)
        elif argument.startswith("--") and len(argument) > 2:
            _add_override(arguments, argument[2:], rest)
        else:
            raise TinyrlError(
                f"unexpected argument `{argument}`: expected `@ file.toml` or `--some.key value`"
            )
    return arguments


def _add_override(arguments: Arguments, option: str, rest: list[str]) -> None:
    key, equals, text = option.partition("=")
    key = key.replace("-", "_")
    if equals:
        if text:
            arguments.overrides[key] = override_value(text)
    elif rest and rest[0] != "@" and not rest[0].startswith("--"):
        arguments.overrides[key] = override_value(rest.pop(0))
    else:
        parents, _, leaf = key.rpartition(".")
        is_negated = leaf.startswith("no_")
        leaf = leaf.removeprefix("no_")
        arguments.overrides[f"{parents}.{leaf}" if parents else leaf] = not is_negated


def _read_toml(path: Path) -> dict[str, Any]:
    """The file's table, keys in snake case.

    Raises:
        TinyrlError: the file cannot be read, or `file:line:column: what is wrong`.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error))
        if match is None:  # "at end of document" carries no position
            raise TinyrlError(f"{path}: TOML syntax error: {error}") from error
        raise TinyrlError(f"{path}:{match[2]}:{match[3]}: TOML syntax error: {match[1]}") from error
    except UnicodeDecodeError as error:
        raise TinyrlError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise TinyrlError(f"{path}: cannot read the config file: {error.strerror}") from error
    return {key.replace("-", "_"): _snake_keys(value) for key, value in table.items()}


def _snake_keys(value: object) -> object:
    if isinstance(value, dict):
        return {key.replace("-", "_"): _snake_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_snake_keys(item) for item in value]
    return value


def _merge(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """A new table: tables merge key by key, everything else in `overlay` replaces."""
    merged = dict(base)
    for key, value in overlay.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merge(old, value)
        else:
            merged[key] = value
    return merged


def _leaves(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")


def load_config(config_type: type[ConfigType], arguments: Arguments) -> ConfigType:
    """Merge files left to right, then overrides, and validate.

    Raises:
        TinyrlError: every problem found, one per line, with the place each value came from.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for path in arguments.files:
        table = _read_toml(path)
        merged = _merge(merged, table)
        origins.update(dict.fromkeys(_leaves(table), str(path)))
    for dotted_key, value in arguments.overrides.items():
        tables = reversed(dotted_key.split("."))
        merged = _merge(merged, reduce(lambda inner, key: {key: inner}, tables, value))
        origins[dotted_key] = _COMMAND_LINE
    try:
        return config_type.model_validate(merged)
    except ValidationError as error:
        default_origin = str(arguments.files[-1]) if arguments.files else _COMMAND_LINE
        lines = [_describe(config_type, item, origins, default_origin) for item in error.errors()]
        raise TinyrlError("\n".join(lines)) from error


def _describe(
    config_type: type[BaseModel], item: ErrorDetails, origins: dict[str, str], default_origin: str
) -> str:
    location = tuple(item["loc"])
    key = ".".join(str(segment) for segment in location)
    names = ".".join(str(segment) for segment in location if isinstance(segment, str))
    origin = origins.get(key) or origins.get(names) or default_origin
    if item["type"] == "extra_forbidden":
        return f"{origin}: {key}: unknown key. {_suggestion(config_type, location)}"
    message = item["msg"].removeprefix("Value error, ")
    if not location:
        return f"{origin}: {message}"
    received = "" if item["type"] == "missing" else f", got {item['input']!r}"
    return f"{origin}: {key}: {message}{received}"


def _suggestion(config_type: type[BaseModel], location: tuple[Any, ...]) -> str:
    """A guess at the meaning of an unknown key."""
    *parents, wrong = map(str, location)
    table = "".join(f"{segment}." for segment in location[:-1] if isinstance(segment, str))
    keys = [key for key, _ in _fields(config_type)]
    here = {key.removeprefix(table).partition(".")[0] for key in keys if key.startswith(table)}
    if near := difflib.get_close_matches(wrong, here, n=1):
        return f"Did you mean {'.'.join([*parents, near[0]])}?"
    same_name = next((key for key in reversed(keys) if key.rpartition(".")[2] == wrong), None)
    if same_name:
        return f"Did you mean {same_name}?"
    return f"Remove it, or use one of: {', '.join(sorted(here))}."


def describe_keys(config_type: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    """Every key as (dotted key, default, help), for `--help`."""
    for key, info in _fields(config_type):
        default = "required" if info.is_required() else repr(info.get_default(call_default_factory=True))
        yield key, default, " ".join((info.description or "").split())


def _fields(config_type: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, info in config_type.model_fields.items():
        if (inner := _nested_model(info.annotation)) is not None:
            yield from _fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, info


def _nested_model(annotation: object) -> type[BaseModel] | None:
    """The model inside a field's type, also inside `| None` and `list[…]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = map(_nested_model, getattr(annotation, "__args__", ()))
    return next((model for model in models if model is not None), None)
