"""The command line in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rltui.cli import main


class CommandLine:
    """`cli("runs", "--all")` is what `rltui runs --all` prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        """Its stdout; of one that fails as it should, its stderr."""
        self._capsys.readouterr()
        assert main([*words]) == code, self._capsys.readouterr().err
        out, err = self._capsys.readouterr()
        return err if code else out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
