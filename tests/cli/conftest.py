"""The command line in this process, and an experiment for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.requests import run_of

from rltui.cli import main
from rltui.client import draft
from rltui.services.experiment.files import ExperimentRecord


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


def planned(config: Path, *, name: str = "one", layout: str | None = None) -> ExperimentRecord:
    """The record of an experiment with this config that never ran; its folder is `out` beside the config."""
    request = run_of((config,), layout=layout, name=name, output_dir=config.parent / "out")
    record, _ = draft.plan_record(request)
    record.control.write_record(record)
    return record


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
