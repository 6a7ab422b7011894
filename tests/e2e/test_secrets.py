"""A program prints secrets as it dies: nothing that leaves the machine has them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

PROGRAM = """\
import json, os, sys
print("cloning https://me:PASSWORD1@host/x with Authorization: Bearer abc.DEF123456")
print("token hf_abcdefghijklmnopqrstuv of the hub, key", os.environ["MY_API_KEY"])
open("out/metrics.jsonl", "w").write('{"step": 1, "reward/all/mean": 0.5}\\n')
os.makedirs("out/rollouts/step_1")
said = "\\nhf_abcdefghijklmnopqrstuv\\npassword: PASSWORD1 " + os.environ["MY_API_KEY"]
row = {"example_id": 1, "reward": 0.5, "prompt": said, "completion": "yes", "error": said}
row["info"] = {"api_key": "TELLTALE2"}
open("out/rollouts/step_1/train_rollouts.jsonl", "w").write(json.dumps(row) + "\\n")
raise RuntimeError("401 api_key: TELLTALE2 hf_abcdefghijklmnopqrstuv " + os.environ["MY_API_KEY"])
"""
LAYOUT = """\
framework = "generic"

[[component]]
id = "trainer"
command = ["{python}", "die.py"]
"""
SECRETS = ("PASSWORD1", "DEF123456", "hf_abc", "TELLTALE2", "value-of-mine")


def test_what_a_dying_program_prints_leaves_without_its_secrets(box: Box) -> None:
    box = replace(box, env={**box.env, "MY_API_KEY": "value-of-mine"})
    (box.work / "die.py").write_text(PROGRAM)
    (box.work / "job.toml").write_text(LAYOUT)
    (box.work / "run.toml").write_text("seed = 0\n")
    settings = box.root / "config/rltui/settings.toml"
    settings.parent.mkdir()
    command = ["sh", "-c", f"env | grep RLTUI_ALERT >> {box.root}/told; cat >> {box.root}/told"]
    settings.write_text(f"[alerts]\ncommand = {json.dumps(command)}\n")
    texts = {"up": str(box.run("up", "run.toml", "-l", "job.toml", "-n", "one", "-o", "out"))}
    output_file = box.root / "told"
    retry_until(lambda: output_file.exists() and "\n{" in output_file.read_text())
    texts["alert"] = output_file.read_text()
    assert "401 api_key" in texts["alert"]
    for command_line in (
        "status --json",
        "events --json",
        "logs trainer",
        "logs trainer --json",
        "down",
        "status",
    ):
        texts[command_line] = str(box.run(*command_line.split()))
    for command_line in ("--json", "--worst 1", "--worst 1 --json --full"):
        texts[command_line] = box.run("rollouts", "one", *command_line.split()).stdout
    assert "password: (hidden)" in texts["--worst 1"]
    assert json.loads(texts["--worst 1 --json --full"])["samples"][0]["reward"] == 0.5
    for name in ("said.md", "said.jsonl"):
        assert box.run("rollouts", "one", "--export", name).returncode == 0
        texts[name] = (box.work / name).read_text()
    assert json.loads(texts["said.jsonl"])["completion"] == "yes"
    assert box.run("runs", "export", "one", "-o", "report").returncode == 0
    texts |= {str(path): path.read_text() for path in (box.work / "report").rglob("*") if path.is_file()}
    leaks = {name: secret for name, text in texts.items() for secret in SECRETS if secret in text}
    assert leaks == {}
    assert "TELLTALE2" in box.run("logs", "-c", "trainer", "--raw").stdout
