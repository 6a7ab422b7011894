"""One file with some keys set, checked to be just that; and whether a file is still what was read."""

from __future__ import annotations

import datetime

from rltui.core.config_data import changed_keys, deep_leaves, value_at
from rltui.core.toml import edit
from rltui.core.toml.values import TomlValue, parse_value, same_value
from rltui.errors import ConfigError, ConflictError
from rltui.services import toml_source
from rltui.services.file_diff import text_diff
from rltui.services.toml_source import Source


def edited(source: Source, key: str, value: TomlValue) -> Source:
    """The source with a dotted key set; `None` removes it.

    Raises:
        ConfigError: if the text resists; then it is left to the person.
    """
    before = value_at(source.data, key)
    if isinstance(value, str) and isinstance(before, datetime.date | datetime.time):
        value = _moment(key, value)
    text = edit.edit(source.text, {key: value})
    try:
        after = toml_source.parse(source.path, text.encode())
    except ConfigError as error:
        raise _at_risk(source, key) from error
    touched = changed_keys(deep_leaves(source.data), deep_leaves(after.data))
    found = value_at(after.data, key)
    is_there = found == value or same_value(found, value)
    if not is_there or not all(_is_about(each, key, value) for each in touched):
        raise _at_risk(source, key)
    return after


def _is_about(changed: str, key: str, value: TomlValue) -> bool:
    """A changed key is the wanted one, or a table that is empty from now on."""
    return changed == key or (value is None and key.startswith(f"{changed}."))


def _moment(key: str, text: str) -> TomlValue:
    """A date or time as it is typed."""
    try:
        moment = parse_value(text)
    except ValueError:
        moment = None
    if not isinstance(moment, datetime.date | datetime.time):
        raise ConfigError(f"{key} must be a date or time, not {text!r}", hint="write it like 2026-01-31")
    return moment


def _at_risk(source: Source, key: str) -> ConfigError:
    return ConfigError(
        f"{source.path}: cannot set {key} without risk to the rest", hint="edit it in the file itself"
    )


def require_unchanged(source: Source) -> None:
    """The file still holds what was read.

    Raises:
        ConflictError: if it does not; the details are the difference.
    """
    try:
        current = toml_source.content_of(source.path)
    except ConfigError as error:
        raise ConflictError(error.title, hint="nothing was written") from error
    if current != source.content:
        raise changed_meanwhile(source, current)


def changed_meanwhile(source: Source, current: bytes | None) -> ConflictError:
    """`source` is not what the file holds any more, but `current`; `None`: nobody knows."""
    theirs = "" if current is None else current.decode(errors="replace")
    return ConflictError(
        f"{source.path} was changed by somebody else meanwhile",
        details=text_diff(source.text, theirs, source.path.name).splitlines() if current is not None else (),
        hint="nothing was written; look at the file and try again",
    )
