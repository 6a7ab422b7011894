"""`rltui rerun`: from the config as it was recorded, with what is another now."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from tests.conftest import Box

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

LAYOUT = """\
framework = "generic"
[[component]]
id = "trainer"
command = ["cat", "{config.colours}"]
"""
CONFIG = "# the best ones\ncolour = 3\ndata_file = 'words.txt'\n"


def test_a_run_is_repeated_from_what_was_recorded(box: Box) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *arguments], cwd=box.work, check=True, capture_output=True)

    config, arguments, code = (box.work / name for name in ("colours.toml", "words.txt", "code.py"))
    config.write_text(CONFIG)
    arguments.write_text("one two\n")
    code.write_text("x = 1\n")
    (box.work / "run.toml").write_text(LAYOUT)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    box.json("up", "colours.toml", "-l", "./run.toml", "-n", "a", "-o", "a")
    box.run("down", "a")
    first = json.loads(box.run("rerun", "a", "--plan", "--json").stdout)
    assert (first["differences"], first["notes"], first["name"]) == ([], [], "a-again")

    config.write_text("colour = 4\n")
    arguments.write_text("two one\n")
    code.write_text("x = 2\n")
    shutil.rmtree(box.root / "state/rltui/configs")
    next((box.root / "state/rltui").glob("runs-*.sqlite")).unlink()
    plan = box.run("rerun", "a", "--plan")
    assert plan.returncode == 0, plan.stderr
    assert "colours.toml has changed since that run; the recorded content is used" in plan.stdout
    assert "⚠ the workspace has uncommitted changes, had none" in plan.stdout
    assert "⚠ words.txt changed, with the same size" in plan.stdout
    assert not (box.work / "a-again").exists()

    repeated_run = box.json("rerun", "a", "-n", "b", "--yes")
    assert repeated_run["output_dir"] == str(box.work / "b")
    assert box.run("logs", "b", "-c", "trainer").stdout.startswith("# the best ones\ncolour = 3\n")
    sheets = [json.loads((box.work / name / ".rltui/run.json").read_text()) for name in ("a", "b")]
    assert (sheets[1]["again"], sheets[1]["parent"]) == (sheets[0]["id"], "")
    assert config.read_text() == "colour = 4\n"
    refusal = box.run("rerun", "a", "-n", "b", "--yes")
    assert refusal.returncode == 4, refusal.stderr
    assert box.run("rerun", "nobody").returncode == 2
