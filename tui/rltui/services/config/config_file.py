"""One TOML file: read it, and set a key in its text. Independent of frameworks."""

from __future__ import annotations

import datetime
import errno
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltui.base.toml import edit
from rltui.base.toml.values import TomlValue, read_value, same_value
from rltui.core.config.data import changed_keys, deep_leaves, value_at
from rltui.errors import ConfigError, NotFoundError
from rltui.frameworks.inputs import ConfigFile
from rltui.services.own_files import read_regular

_LARGEST_BYTES = 256 * 1024
"""Size limit of a config or layout file. Those of prime-rl have 12 kB at most."""


def read_file(path: Path, role: str = "") -> ConfigFile:
    """Read and parse one file.

    Raises:
        ConfigError: if it is missing, cannot be read, is too large, no UTF-8 text or no TOML.
    """
    absolute = path.expanduser().absolute()
    return parse_file(absolute, content_of(absolute, display_path=path), role)


def sha_of(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def content_of(path: Path, *, display_path: Path | None = None) -> bytes:
    """The bytes of a config or layout file. `display_path`: its path in messages.

    Raises:
        NotFoundError: if it is missing.
        ConfigError: if it is no regular file, cannot be read, or is too large.
    """
    name = display_path or path
    try:
        return read_regular(path, _LARGEST_BYTES)
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {name}") from None
    except IsADirectoryError:
        raise ConfigError(f"{name} is a folder", hint=f"name a file in it: {name / 'rl.toml'}") from None
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise ConfigError(f"{name} is not a regular file", hint="name a TOML file") from None
        if error.errno == errno.EFBIG:
            raise ConfigError(
                f"{name} is larger than {_LARGEST_BYTES // 1024} KiB, too large for a config file",
                hint="check that it is the right file; keep data in separate files",
            ) from None
        raise ConfigError(f"cannot read {name}: {error.strerror}") from error


def parse_file(path: Path | str, content: bytes, role: str = "") -> ConfigFile:
    """Parse the content of `path`.

    Raises:
        ConfigError: if it is no UTF-8 text or no TOML.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text", hint="save it as UTF-8") from error
    try:
        data = _table(text)
    except edit.TomlSyntaxError:
        data = edit.parse(text, str(path))  # raises it with the path
    return ConfigFile(role, str(path), data, content=content)


@functools.lru_cache(maxsize=32)
def _table(text: str) -> Mapping[str, Any]:
    """A run has its config once per attempt and component, and thousands of runs have one layout."""
    return edit.parse(text, "")


def with_key(file: ConfigFile, key: str, value: TomlValue) -> ConfigFile:
    """Set a dotted key in the text; `None` removes it.

    Raises:
        ConfigError: if the text cannot be edited without risk; then the person has to do it.
    """
    before = value_at(file.data, key)
    if isinstance(value, str) and isinstance(before, datetime.date | datetime.time):
        try:
            moment = read_value(value)
        except ValueError:
            moment = None
        if not isinstance(moment, datetime.date | datetime.time):
            raise ConfigError(f"{key} must be a date or time, not {value!r}", hint="write it like 2026-01-31")
        value = moment
    text = edit.edit(file.text, {key: value})
    try:
        after = parse_file(file.path, text.encode(), file.role)
    except ConfigError as error:
        raise _unsafe_edit(file, key) from error
    changed_keys_found = changed_keys(deep_leaves(file.data), deep_leaves(after.data))
    value_now = value_at(after.data, key)
    is_there = value_now == value or same_value(value_now, value)
    # a changed key is the wanted one, or a table that is empty from now on
    if not is_there or not all(
        changed_key == key or (value is None and key.startswith(f"{changed_key}."))
        for changed_key in changed_keys_found
    ):
        raise _unsafe_edit(file, key)
    return after


def _unsafe_edit(file: ConfigFile, key: str) -> ConfigError:
    return ConfigError(f"{file.path}: cannot safely set {key}", hint="edit the file itself")
