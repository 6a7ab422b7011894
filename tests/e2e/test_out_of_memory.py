"""A trainer runs out of device memory: what is told, what is advised, and that the advice works."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

OOM = (Path(__file__).parents[1] / "data" / "oom" / "torch-2.9-shared-gpu.log").read_text()
CONFIG = """\
max_steps = 1

[trainer.model]
seq_len = 4096  # tokens

[orchestrator]
seq_len = 4096
"""
TRAINER = """\
import pathlib, signal, sys, tomllib
config = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())
if config["trainer"]["model"]["seq_len"] > 2048:
    sys.exit(pathlib.Path("oom.log").read_text())
signal.pause()
"""
LAYOUT = """\
framework = "generic"
[[component]]
id = "trainer"
command = ["{python}", "-I", "trainer.py", "{config.config}"]
gpus = "0"
stop = { grace_s = 2 }
"""


@pytest.mark.slow
def test_advice_is_given_kept_and_works(box: Box) -> None:
    (box.work / "config.toml").write_text(CONFIG)
    (box.work / "parts.toml").write_text(LAYOUT)
    (box.work / "trainer.py").write_text(TRAINER)
    (box.work / "oom.log").write_text(OOM)
    box.run("up", "config.toml", "-l", "parts.toml", "-n", "one", "-o", "out", "--no-wait")
    failed = box.wait_for("trainer", "failed")
    advice = failed["out_of_memory"]
    assert (advice["kind"], advice["component"]) == ("allocation", "trainer")
    assert advice["tried_bytes"] > 0
    remedy = failed["remedies"][0]
    assert remedy["edits"] == {"trainer.model.seq_len": 2048, "orchestrator.seq_len": 2048}

    text = box.run("status", "one").stdout
    command = next(line for line in text.splitlines() if "rltui set" in line)
    assert "trainer.model.seq_len=2048 orchestrator.seq_len=2048 --restart" in command

    os.kill(box.supervisor_pid(), signal.SIGKILL)
    retry_until(lambda: box.component("trainer")["out_of_memory"] == advice)

    result = box.run("set", "trainer.model.seq_len=2048", "orchestrator.seq_len=2048", "--restart")
    assert result.returncode == 0, result.stderr
    ready = box.wait_for("trainer", "ready")
    assert (ready["attempt"], ready["out_of_memory"], ready["remedies"]) == (2, None, [])
    assert (box.work / "config.toml").read_text() == CONFIG.replace("4096", "2048")
