"""Results that are cached for as long as a config is."""

from __future__ import annotations

import pytest

from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.config.files import FilesCache


def test_a_result_is_cached_for_one_reading_and_an_error_is_not() -> None:
    calls: list[str] = []

    def work(files: ConfigFiles, name: str) -> str:
        calls.append(name)
        if name == "fail":
            raise ConfigError("no")
        return f"{name} {files['rl'].data['x']!r} of {files['rl'].path}"

    def files(data: dict[str, object], path: str = "rl.toml") -> ConfigFiles:
        return {"rl": ConfigFile("rl", path, data)}

    cached = FilesCache(work)
    data: dict[str, object] = {"x": 1}
    for _ in range(2):
        assert cached(files(data), "a") == "a 1 of rl.toml"
        assert cached(files(data), "b") == "b 1 of rl.toml"
        with pytest.raises(ConfigError):
            cached(files(data), "fail")
    assert calls == ["a", "b", "fail", "fail"]
    assert cached(files({"x": 1.0}), "a") == "a 1.0 of rl.toml", "equal values are of another reading"
    assert cached(files({"x": True}), "a") == "a True of rl.toml"
    assert cached(files(data, "attempt-1/rl.toml"), "a") == "a 1 of attempt-1/rl.toml"
