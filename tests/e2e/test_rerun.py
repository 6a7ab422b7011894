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
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *words], cwd=box.work, check=True, capture_output=True)

    config, words, code = (box.work / name for name in ("colours.toml", "words.txt", "code.py"))
    config.write_text(CONFIG)
    words.write_text("one two\n")
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
    words.write_text("two one\n")
    code.write_text("x = 2\n")
    shutil.rmtree(box.root / "state/rltui/configs")
    next((box.root / "state/rltui").glob("runs-*.sqlite")).unlink()
    asked = box.run("rerun", "a", "--plan")
    assert asked.returncode == 0, asked.stderr
    assert "colours.toml says something else by now: what it said then is used" in asked.stdout
    assert "⚠ the workspace has changes without a commit, and had none" in asked.stdout
    assert "⚠ words.txt has another content of the same size" in asked.stdout
    assert not (box.work / "a-again").exists()

    again = box.json("rerun", "a", "-n", "b", "--yes")
    assert again["output_dir"] == str(box.work / "b")
    assert box.run("logs", "trainer", "-n", "b").stdout.startswith("# the best ones\ncolour = 3\n")
    sheets = [json.loads((box.work / name / ".rltui/run.json").read_text()) for name in ("a", "b")]
    assert (sheets[1]["again"], sheets[1]["parent"]) == (sheets[0]["id"], "")
    assert config.read_text() == "colour = 4\n"
    refused = box.run("rerun", "a", "-n", "b", "--yes")
    assert refused.returncode == 4, refused.stderr
    assert box.run("rerun", "nobody").returncode == 2
