"""Results that are kept for as long as a config is."""

from __future__ import annotations

import pytest

from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.services.config.files import FilesCache


def files(data: dict[str, object], path: str = "rl.toml") -> ConfigFiles:
    return {"rl": ConfigFile("rl", path, data)}


class Work:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, files: ConfigFiles, name: str) -> str:
        self.calls += 1
        return f"{name} {files['rl'].data['x']!r} of {files['rl'].path}"


def test_is_worked_out_once_for_one_reading() -> None:
    work = Work()
    answer = FilesCache(work)
    data: dict[str, object] = {"x": 1}
    for _ in range(3):
        assert answer(files(data), "a") == "a 1 of rl.toml"
        assert answer(files(data), "b") == "b 1 of rl.toml"
    assert work.calls == 2


def test_files_that_were_read_again_are_others_whatever_they_hold() -> None:
    answer = FilesCache(Work())
    assert answer(files({"x": 1}), "a") == "a 1 of rl.toml"
    assert answer(files({"x": 1.0}), "a") == "a 1.0 of rl.toml"
    assert answer(files({"x": True}), "a") == "a True of rl.toml"


def test_files_elsewhere_are_others() -> None:
    answer = FilesCache(Work())
    data: dict[str, object] = {"x": 1}
    assert answer(files(data), "a") == "a 1 of rl.toml"
    assert answer(files(data, "attempt-1/rl.toml"), "a") == "a 1 of attempt-1/rl.toml"
    assert answer(files(data), "a") == "a 1 of rl.toml"


def test_errors_are_raised_again_and_again() -> None:
    calls = []

    def fail(files: ConfigFiles) -> None:
        calls.append(files)
        raise ConfigError("no")

    answer = FilesCache(fail)
    for _ in range(2):
        with pytest.raises(ConfigError):
            answer({})
    assert len(calls) == 2
