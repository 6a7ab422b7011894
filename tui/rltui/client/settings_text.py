"""The user's settings as text, for their own editor: every setting there is, and what may be written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rltui import paths, settings
from rltui.base.toml.scan import line_and_column, scan
from rltui.core.experiment.rights import Act
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import content_of, parse_file
from rltui.services.config.writing import replace_files
from rltui.services.experiment.rights import require


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    """Dotted, such as `alerts.bell`."""
    value: str
    """The value as it is written there, else the default, on one line."""
    meaning: str
    line: int
    """Line of the setting, else of its table, counted from 1; the last line where there is neither."""


@dataclass(frozen=True, slots=True)
class SettingsText:
    """The user's settings file, to be edited as text."""

    path: str
    text: str
    """Content of the file; every setting with its default where there is none."""
    is_new: bool
    known: tuple[Setting, ...]
    """All possible settings, in the order of the shipped file."""


def as_text() -> SettingsText:
    """The user's settings file. Blocking.

    Raises:
        ConfigError: if it cannot be read, or is no UTF-8 text.
    """
    path = paths.settings_file()
    example = content_of(paths.shipped_dir("examples") / "settings.toml").decode()
    is_new = not path.exists()
    try:
        text = example if is_new else content_of(path).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    return SettingsText(str(path), text, is_new, tuple(_settings(example, text)))


def replace_text(seen: SettingsText, text: str) -> None:
    """Have `text` be the user's settings, if it can be understood and nobody else changed them. Blocking.

    Raises:
        ConfigError: if it cannot be understood: names line, key and what is wrong. Nothing is written.
        ConflictError: if the file is not what was `seen` any more.
        RltuiError: if it cannot be written.
    """
    require(Act("settings"))
    path = Path(seen.path)
    settings.parse_settings(parse_file(path, text.encode()))
    try:
        if seen.is_new:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
        else:
            replace_files([FileChange.of_contents(path, seen.text.encode(), text.encode())])
    except (FileExistsError, ConflictError):
        raise ConflictError(
            f"{path} was changed by someone else meanwhile", hint="nothing was written; open the file again"
        ) from None
    except OSError as error:
        raise RltuiError(f"cannot write {path}: {error.strerror}") from error


def _settings(example: str, text: str) -> Iterator[Setting]:
    """Every setting of the shipped file, and each table that a person fills, as of keys; of a text that is
    not TOML, as if it were empty.
    """
    places: dict[str, tuple[int, str]] = {}
    tables: dict[str, int] = {}
    try:
        parse_file(paths.settings_file(), text.encode())
    except ConfigError:
        text = ""
    for table in scan(text):
        tables[".".join(map(str, table.path))] = line_and_column(text, table.start)[0]
        for entry in table.entries:
            value = " ".join(text[entry.value_start : entry.value_end].split())
            places[".".join(map(str, entry.path))] = (line_and_column(text, entry.key_end)[0], value)
    last = text.count("\n") + 1
    for table in scan(example):
        name = ".".join(map(str, table.path))
        begins = tables.get(name, last)
        if not table.entries:
            yield Setting(name, "", _comment_above(example, table.start), begins)
        for entry in (setting for setting in table.entries if not setting.inline):
            key = ".".join(map(str, entry.path))
            default = " ".join(example[entry.value_start : entry.value_end].split())
            line, value = places.get(key, (begins, default))
            comment = example[entry.value_end : example.find("\n", entry.value_end)].strip()
            yield Setting(key, value, comment.removeprefix("#").strip(), line)


def _comment_above(text: str, position: int) -> str:
    """The comment that ends on the line before `position`, on one line."""
    lines: list[str] = []
    for line in reversed(text[:position].splitlines()):
        if not line.startswith("#"):
            break
        lines.insert(0, line.removeprefix("#").strip())
    return " ".join(lines)
