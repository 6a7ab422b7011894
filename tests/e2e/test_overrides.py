"""Options behind `--`: edits of the run's own copy, which a resume goes on with."""

from __future__ import annotations

import pytest
from tests.conftest import Box

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

LAYOUT = """\
framework = "generic"
[[component]]
id = "a"
command = ["sh", "-c", "cat {config.mine}; exec sleep 100"]
"""


def test_overrides_of_a_run_live_in_its_own_copy(box: Box) -> None:
    mine = "# mine\nsteps = 3  # few\nlr = 0.1\n"
    (box.work / "lay.toml").write_text(LAYOUT)
    (box.work / "mine.toml").write_text(mine)
    refusal = box.run("up", "mine.toml", "-l", "lay.toml", "-o", "out", "--", "--stps", "5")
    assert refusal.returncode == 3
    assert "unknown knob stps" in refusal.stderr
    assert not (box.work / "out").exists()
    result = box.run("up", "mine.toml", "-l", "lay.toml", "-o", "out", "--", "--steps", "5")
    assert result.returncode == 0, result.stderr
    assert box.run("logs", "-c", "a").stdout == "# mine\nsteps = 5  # few\nlr = 0.1\n"
    assert (box.work / "mine.toml").read_text() == mine
    assert "original → files\n  steps  3 → 5" in box.run("diff").stdout
    assert [key["key"] for key in box.json("diff", "--original")["keys"]] == ["steps"]
    undone = box.run("undo")
    assert (undone.returncode, "nothing to undo" in undone.stderr) == (4, True), "its birth is no edit"
    assert box.run("set", "lr=0.2", "--yes").returncode == 0
    assert box.run("down").returncode == 0
    (box.work / "mine.toml").write_text(mine + "more = 1\n")
    second = box.run("up", "mine.toml", "-l", "lay.toml", "-o", "out", "--resume", "--", "--steps=-1")
    assert second.returncode == 0, second.stderr
    assert "the run continues with its own copy of the config" in second.stderr
    assert (
        "mine.toml: the copy lacks later changes; set them (rltui set KEY=VALUE…), or start with --new"
        in second.stderr
    )
    assert box.run("logs", "-c", "a").stdout == "# mine\nsteps = -1  # few\nlr = 0.2\n"
