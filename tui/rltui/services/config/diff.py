"""The config files of two moments compared, key by key and in lines."""

from __future__ import annotations

from dataclasses import replace

from rltui.base.text import parse_whole_number, unknown_name
from rltui.base.toml.scan import BOM
from rltui.core.config.report import ConfigDiff, KeyDifference
from rltui.errors import UsageError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, as_passed
from rltui.services.config.change import FileChange
from rltui.services.config.files import read_snapshot
from rltui.services.experiment.files import ControlFolder


def attempt_files(name: str, control: ControlFolder, framework: Framework) -> ConfigFiles:
    """The files that `trainer#3` was started with, or the newest attempt where no number is given.

    Raises:
        UsageError: if there is no such attempt.
        ConfigError: if a file was damaged since.
    """
    component, _, number = name.partition("#")
    numbers = control.attempts(component)
    selected = parse_whole_number(number) if number else numbers[-1] if numbers else None
    if selected not in numbers:
        started = ", ".join(f"{component}#{attempt}" for attempt in numbers)
        if not started:
            components = (folder.parent.name for folder in control.newest_attempts())
            raise unknown_name("started component", component, components)
        raise UsageError(f"no attempt {name}", hint=f"available: {started}")
    return read_snapshot(control.attempt_dir(component, selected), framework)


def config_diff(before: ConfigFiles, after: ConfigFiles, names: tuple[str, str]) -> ConfigDiff:
    """Compare every key, role by role, and the lines. `names` are the titles of the two sides."""
    changes = {
        role: FileChange(_side(before, role), _side(after, role)) for role in dict.fromkeys((*before, *after))
    }
    keys = tuple(
        KeyDifference(key=key, file=f"{role}.toml", before=old, after=new)
        for role, change in changes.items()
        for key, (old, new) in change.values.items()
    )
    text = "".join(change.diff(f"{role}.toml") for role, change in changes.items())
    return ConfigDiff(before=names[0], after=names[1], keys=keys, text=text)


def _side(files: ConfigFiles, role: str) -> ConfigFile:
    """The file as the component got it, or as it is now. Empty if there is none."""
    if role not in files:
        return ConfigFile(role, "", {})
    # attempts have it without a byte order mark
    return replace(as_passed(files)[role], content=files[role].content.removeprefix(BOM.encode()))
