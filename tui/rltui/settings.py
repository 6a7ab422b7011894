"""The user's settings: `$XDG_CONFIG_HOME/rltui/settings.toml`. Every key may be left out, as may the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StrictBool, ValidationError, field_validator

from rltui.base.tables import TomlTable, list_of_texts
from rltui.core.experiment.api import AlertSeverity
from rltui.core.experiment.rights import Rights
from rltui.core.metrics.health.thresholds import Thresholds
from rltui.errors import ConfigError

if TYPE_CHECKING:
    from rltui.frameworks.inputs import ConfigFile

_Word = Annotated[str, Field(min_length=1)]
_Words = Annotated[tuple[_Word, ...], list_of_texts()]


class AlertSettings(TomlTable):
    """Channels for alerts. The TUI shows every alert, whatever the settings."""

    bell: StrictBool = True
    """The TUI rings the terminal's bell for errors and warnings."""
    osc9: StrictBool = False
    """The TUI also has the terminal show a desktop notification (OSC 9: iTerm2, WezTerm, kitty, ghostty)."""
    command: _Words = ()
    """Argument list, never a shell line. Run for each alert, which it gets as JSON on stdin."""
    tmux: _Words = ()
    """Names (`tmux -L NAME`) or socket paths of tmux servers whose clients see alerts, besides those
    attached to the experiment itself.
    """
    tmux_clients: _Words = ("*",)
    """Patterns for the tty or the session name of those servers' clients, `*` being any text."""
    min_severity: AlertSeverity = "warning"
    """Less severe alerts stay in the TUI; the end of a run and of a problem always count."""
    repeat_s: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """At most one alert of one kind about one component comes in this time."""


class HostSettings(TomlTable):
    """Another machine whose runs are displayed here."""

    reach: Annotated[tuple[_Word, ...], list_of_texts("ssh")] = ()
    """Prefix of a command to run there; left out: `ssh NAME`."""
    rltui: _Word = "rltui"
    """Path or name of rltui there."""


class Settings(TomlTable):
    theme: _Word = "terminal"
    """Colours of the TUI by name, until others are chosen in it. `terminal`: dark or light like the
    terminal.
    """
    tour: StrictBool = True
    """The TUI shows five steps to a person who starts it for the first time."""
    alerts: AlertSettings = AlertSettings()
    health: Thresholds = Thresholds()
    """Limits of the health rules, and rules that are off."""
    agents: Rights = Rights()
    """What agents may do."""
    hosts: Mapping[str, HostSettings] = Field(default_factory=dict)
    """Other machines, by name: the runs screen lists their runs too."""
    keymap: Literal["", "vim", "k9s"] = ""
    """Preset of keys, as in another program."""
    keys: Mapping[str, tuple[_Word, ...]] = Field(default_factory=dict)
    """Keys by the ids of actions, which the UI knows (`rltui keys`); an empty list takes the key away."""

    @field_validator("keys", mode="before")
    @classmethod
    def _are_lists(cls, value: object) -> object:
        return dict(_by_id(value)) if isinstance(value, dict) else value


def _by_id(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Flattens tables, since `log.wrap = "w"` is a table in a table for TOML; a single key becomes a list of
    one.
    """
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _by_id(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", [value] if isinstance(value, str) else value


def location_of_key(file: ConfigFile, table: str, key: str) -> str:
    """`FILE:LINE:COLUMN` of `key`, dots and all, in a table of the file; `FILE` where it is not there."""
    from rltui.base.toml import edit
    from rltui.base.toml.values import format_key

    candidates = ((table, key), (table, *key.split(".")))
    position = next(
        (offset for segments in candidates if (offset := edit.locate(file.text, format_key(segments)))),
        None,
    )
    return f"{file.path}:{position[0]}:{position[1]}" if position else file.path


def load(path: Path) -> Settings:
    """The settings in a file; the defaults if there is none.

    Raises:
        ConfigError: if it cannot be read or understood: names file, line, key and the error.
    """
    return parse_settings(source_at(path)) if path.exists() else Settings()


def source_at(path: Path, text: str | None = None) -> ConfigFile:
    """A parsed file of settings, empty where there is none. `text`: in place of its content.

    Raises:
        ConfigError: if it cannot be read or is not TOML.
    """
    # What reads configs knows the frameworks: the screen and the alerts need it only where the file is there.
    from rltui.services.config.config_file import parse_file, read_file

    if text is None and path.exists():
        return read_file(path)
    return parse_file(path, (text or "").encode())


def parse_settings(file: ConfigFile) -> Settings:
    """The settings in a parsed file.

    Raises:
        ConfigError: as `load`.
    """
    from rltui.services.config import model_errors

    try:
        return Settings.model_validate(file.data)
    except ValidationError as error:
        tables: dict[str, type[TomlTable]] = {
            "alerts": AlertSettings,
            "health": Thresholds,
            "agents": Rights,
        }
        hosts = file.data.get("hosts")
        tables |= dict.fromkeys(map(str, hosts) if isinstance(hosts, dict) else (), HostSettings)
        faults = model_errors.error_lines(file, error, root=Settings, tables=tables)
        raise ConfigError(
            faults[0],
            details=faults[1:],
            hint="fix the file; until then the defaults apply, and agents may only look",
        ) from error
