"""The user's settings: `$XDG_CONFIG_HOME/rltui/settings.toml`. Every key may be left out, as may the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, field_validator

from rltui import paths
from rltui.core.health import Thresholds
from rltui.core.toml.scan import line_and_column, scan
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services import model_faults
from rltui.services.config.files import Source, content_of, parse_file, read_file

_Word = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    """Base of the tables: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class AlertSettings(_Table):
    """Who is told what. The TUI shows every alert, whatever stands here."""

    bell: StrictBool = True
    """The TUI rings the terminal's bell for errors and warnings."""
    osc9: StrictBool = False
    """The TUI also has the terminal show a desktop notification (OSC 9: iTerm2, WezTerm, kitty, ghostty)."""
    command: tuple[_Word, ...] = ()
    """Argument list, never a shell line. Run for each alert, which it gets as JSON on stdin."""
    tmux: tuple[_Word, ...] = ()
    """Names (`tmux -L NAME`) or socket paths of tmux servers whose clients see alerts, besides those who are
    attached to the experiment itself."""
    tmux_clients: tuple[_Word, ...] = ("*",)
    """Which clients of those servers: patterns for the tty or the session name, `*` being any text."""
    min_severity: Literal["error", "warning", "information"] = "warning"
    """Less severe alerts are for the TUI alone; the end of a run and of a trouble always count."""
    repeat_s: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """Of alerts of one kind about one component, at most one comes in this time."""

    @field_validator("command", "tmux", "tmux_clients", mode="before")
    @classmethod
    def _is_a_list(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(f'write it as a list: ["{value}"]')
        return value


class Settings(_Table):
    """The whole file."""

    tour: StrictBool = True
    """The TUI shows five steps to whoever starts it for the first time."""
    alerts: AlertSettings = AlertSettings()
    health: Thresholds = Thresholds()
    """When a run counts as unwell, and which rules say nothing."""


def settings_file() -> Path:
    """Where it is looked for."""
    return Path(platformdirs.user_config_dir("rltui")) / "settings.toml"


def load(path: Path) -> Settings:
    """The settings in a file; the defaults where there is none.

    Raises:
        ConfigError: if it cannot be read or understood: names file, line, key and what is wrong.
    """
    return _understood(read_file(path)) if path.exists() else Settings()


def _understood(source: Source) -> Settings:
    try:
        return Settings.model_validate(source.data)
    except ValidationError as error:
        tables: dict[str, type[BaseModel]] = {"alerts": AlertSettings, "health": Thresholds}
        found = model_faults.faults(source, error, root=Settings, tables=tables)
        raise ConfigError(
            found[0], details=found[1:], hint="fix it; until then the default settings hold"
        ) from error


@dataclass(frozen=True, slots=True)
class Setting:
    """One that can be set, as a text has it."""

    key: str
    """Dotted, such as `alerts.bell`."""
    value: str
    """As it is written there, else the default, on one line."""
    meaning: str
    line: int
    """Where it is set, else where its table begins, counted from 1; the last line where there is neither."""


@dataclass(frozen=True, slots=True)
class SettingsText:
    """The user's settings file, to be edited as text."""

    path: str
    text: str
    """What it holds; where there is none, every setting with its default."""
    is_new: bool
    """There is no such file yet."""
    known: tuple[Setting, ...]
    """All that can be set, in the order of the shipped file."""


def as_text() -> SettingsText:
    """The user's settings file. Blocking.

    Raises:
        ConfigError: if it cannot be read, or is no UTF-8 text.
    """
    path = settings_file()
    example = content_of(paths.shipped_dir("examples") / "settings.toml").decode()
    is_new = not path.exists()
    text = example if is_new else _decoded(path)
    return SettingsText(str(path), text, is_new, tuple(_known(example, text)))


def replace_text(seen: SettingsText, text: str) -> None:
    """Have `text` be the user's settings, if it can be understood and nobody else changed them. Blocking.

    Raises:
        ConfigError: if it cannot be understood: names line, key and what is wrong. Nothing is written.
        ConflictError: if the file is not what was `seen` any more.
        RltuiError: if it cannot be written.
    """
    from rltui.services.config.writing import FileChange, ForeignSaveError, replace_files  # only to write

    path = Path(seen.path)
    _understood(parse_file(path, text.encode()))
    try:
        if seen.is_new:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
        else:
            replace_files({path: FileChange(seen.text.encode(), text.encode())})
    except (FileExistsError, ForeignSaveError):
        raise ConflictError(
            f"{path} was changed by somebody else meanwhile", hint="open it again: nothing was written"
        ) from None
    except OSError as error:
        raise RltuiError(f"cannot write {path}: {error.strerror}") from error


def _decoded(path: Path) -> str:
    try:
        return content_of(path).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no UTF-8 text") from None


def _known(example: str, text: str) -> Iterator[Setting]:
    """Every setting of the shipped file; of a text that is no TOML, as if it were empty."""
    places: dict[str, tuple[int, str]] = {}
    tables: dict[str, int] = {}
    try:
        parse_file(settings_file(), text.encode())
    except ConfigError:
        text = ""
    for table in scan(text):
        tables[".".join(map(str, table.path))] = line_and_column(text, table.start)[0]
        for entry in table.entries:
            value = " ".join(text[entry.value_start : entry.value_end].split())
            places[".".join(map(str, entry.path))] = (line_and_column(text, entry.key_end)[0], value)
    last = text.count("\n") + 1
    for table in scan(example):
        begins = tables.get(".".join(map(str, table.path)), last)
        for entry in (each for each in table.entries if not each.inline):
            key = ".".join(map(str, entry.path))
            default = " ".join(example[entry.value_start : entry.value_end].split())
            line, value = places.get(key, (begins, default))
            comment = example[entry.value_end : example.find("\n", entry.value_end)].strip()
            yield Setting(key, value, comment.removeprefix("#").strip(), line)
