"""`rltui check` beside a stand-in checkout of prime-rl, whose own validators are asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rltui.cli import main

CONFIG = """\
max_steps = 20
[model]
name = "m"
[orchestrator]
batch_size = 128
group_size = 16
[[orchestrator.train.source]]
name = "a"
env = { taskset = { id = "reverse-text" } }
[trainer]
[inference]
"""
REFUSES = """\
class RLConfig:
    @classmethod
    def model_validate(cls, data):
        class Refusal(ValueError):
            def errors(self, **options):
                return [{"loc": ("orchestrator", "group_size"), "type": "value_error", "msg": "not today"}]
        raise Refusal
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLTUI_PRIME_RL", raising=False)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    package = tmp_path / "src/prime_rl/configs"
    package.mkdir(parents=True)
    (package / "rl.py").write_text(REFUSES)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/src exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    path = tmp_path / "rl.toml"
    path.write_text(CONFIG)
    return path


def test_what_they_refuse_is_an_error_with_its_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(config), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    theirs = [item for item in document["problems"] if item["message"] == "prime-rl says: not today"]
    assert [(item["key"], item["line"], item["severity"]) for item in theirs] == [
        ("orchestrator.group_size", 6, "error")
    ]
    main(["check", str(config), "--no-own", "--json"])
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert not any("prime-rl says" in item["message"] for item in problems)
