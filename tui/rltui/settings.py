"""The user's settings: `$XDG_CONFIG_HOME/rltui/settings.toml`. Every key may be left out, as may the file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, field_validator

from rltui.core.health import Thresholds
from rltui.errors import ConfigError

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

    theme: _Word = "terminal"
    """Colours of the TUI by name, until others are chosen in it. `terminal`: dark or light as that is."""
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
    if not path.exists():
        return Settings()
    # What reads configs knows the frameworks: the screen and the alerts need it only where the file is there.
    from rltui.services import model_faults
    from rltui.services.config.files import read_file

    source = read_file(path)
    try:
        return Settings.model_validate(source.data)
    except ValidationError as error:
        tables: dict[str, type[BaseModel]] = {"alerts": AlertSettings, "health": Thresholds}
        found = model_faults.faults(source, error, root=Settings, tables=tables)
        raise ConfigError(
            found[0], details=found[1:], hint="fix it; until then the default settings hold"
        ) from error
