"""`rltui check` beside a stand-in checkout of prime-rl, whose own validators are asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rltui.cli import main
from rltui.client import creation, offline
from rltui.errors import ConfigError
from rltui.services import checkout

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
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
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
    checkout.trust([tmp_path])
    return path


def test_what_is_not_trusted_is_left_out_and_told(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Finding H2."""
    assert main(["trust", "--revoke"]) == 0
    main(["check", str(config)])
    out = capsys.readouterr().out
    assert f"could not be asked: {config.parent} is not trusted" in out
    assert "not today" not in out
    assert main(["trust"]) == 0
    assert main(["check", str(config)]) == 3
    assert "not today" in capsys.readouterr().out


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


def test_what_they_take_no_rule_of_ours_refuses(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Finding P1: a slip of the pen, as far as we can tell, is a key that prime-rl knows."""
    config.write_text(CONFIG.replace("group_size", "group_sizes"))
    package = config.parent / "src/prime_rl/configs/rl.py"
    package.write_text(
        "class RLConfig:\n    @classmethod\n    def model_validate(cls, data):\n        pass\n"
    )
    check = ["check", str(config), "--framework", "prime-rl"]
    assert main([*check, "--no-own"]) == 3
    assert "did you mean orchestrator.group_size?" in capsys.readouterr().out
    assert main(check) == 0
    found = capsys.readouterr().out
    assert "warning: " in found
    assert "(the framework itself takes it)" in found
    record = creation.examine(creation.Wish((config,), framework="prime-rl"))
    assert not record.forced


def test_force_goes_on_although_rules_of_ours_refuse(config: Path) -> None:
    config.write_text(CONFIG.replace("group_size", "group_sizes"))
    with pytest.raises(ConfigError, match="did you mean") as caught:
        creation.examine(creation.Wish((config,), framework="prime-rl"))
    assert "--force" in caught.value.hint
    record = creation.examine(creation.Wish((config,), framework="prime-rl", force=True))
    assert record.forced
    problems = offline.open_store(record).problems()
    assert {problem.severity for problem in problems} == {"warning"}
