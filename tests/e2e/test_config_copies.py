"""Configs of experiments that begin with one file: each changes its own."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box

from rltui import paths

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

LAYOUT = """\
framework = "generic"
[[component]]
id = "a"
command = ["sh", "-c", "cat {config.mine}; exec sleep 100"]
"""
MINE = "# mine\nsteps = 3  # few\nlr = 0.1\n"


def record(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / ".rltui/experiment.toml").read_text())


@pytest.mark.slow
def test_a_shipped_example_is_never_edited(box: Box) -> None:
    example = paths.shipped_dir("examples") / "bring-your-own-programs"
    text = (example / "train.toml").read_text()
    (box.work / "lay.toml").write_text(LAYOUT.replace("mine", "train"))
    result = box.run("up", str(example / "train.toml"), "-l", "lay.toml", "-n", "x", "-o", "out")
    assert "train.toml: an example shipped with rltui; x uses its own copy" in result.stderr
    assert box.run("set", "scale=0.25").returncode == 0
    assert (example / "train.toml").read_text() == text
    assert "scale = 0.25" in (box.work / "out/.rltui/config/train.toml").read_text()
    nothing = box.run("undo")
    assert nothing.returncode == 0
    assert "undoes an edit by" in nothing.stdout
    assert (box.run("undo").returncode, "nothing to undo" in box.run("undo").stderr) == (4, True)


@pytest.mark.slow
def test_of_two_that_begin_with_one_file_at_once_one_has_a_copy(box: Box) -> None:
    (box.work / "lay.toml").write_text(LAYOUT)
    mine = box.work / "mine.toml"
    mine.write_text(MINE)
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda name: box.run("up", "mine.toml", "-l", "lay.toml", "-n", name), "xy"))
    assert [result.returncode for result in both] == [0, 0], both
    (first,) = (result for result in both if "uses its own copy" not in result.stderr)
    owner, other = "xy" if both[0] is first else "yx"
    outputs = box.work / "outputs"
    assert record(outputs / "mine")["config_files"] == [str(mine)]
    assert record(outputs / "mine")["name"] == owner
    copy = outputs / other / ".rltui/config/mine.toml"
    assert record(outputs / other)["config_files"] == [str(copy)]
    assert copy.read_text() == MINE
    assert (
        f"{mine}: {owner} is running and reads the same file; {other} uses its own copy"
        in both["xy".index(other)].stderr
    )
    assert box.run("set", other, "lr=0.2").returncode == 0
    third = box.run("up", "mine.toml", "-l", "lay.toml", "--set", "steps=5", "--set=lr=0.3", "-n", "z")
    assert third.returncode == 0, third.stderr
    assert box.run("logs", "z", "-c", "a").stdout == "# mine\nsteps = 5  # few\nlr = 0.3\n"
    assert mine.read_text() == MINE
    later = box.run("up", "mine.toml", "-l", "lay.toml", "-n", "z")
    assert later.returncode == 4
    assert f"z is running in {outputs / 'z'}" in later.stderr


@pytest.mark.slow
def test_a_resumed_run_that_is_only_planned_stays_as_it_was(box: Box) -> None:
    """Its config and its devices were those of the plan from then on."""
    (box.work / "lay.toml").write_text(LAYOUT)
    (box.work / "mine.toml").write_text(MINE)
    line = ("up", "mine.toml", "-l", "lay.toml", "-n", "x", "-o", "out")
    assert box.run(*line, "--set", "lr=0.2").returncode == 0
    assert box.run("down", "x").returncode == 0
    files = [box.work / "out/.rltui" / name for name in ("experiment.toml", "config/mine.toml")]
    before = [file.read_text() for file in files]
    planned = box.run(*line, "--resume", "--set", "lr=0.3", "--devices", "none", "--plan")
    assert (planned.returncode, "start" in planned.stdout) == (0, True), planned
    assert [file.read_text() for file in files] == before
    refused = box.run(*line, "--resume", "--set", "lr=0.3", "--only", "nosuch")
    assert refused.returncode != 0
    assert [file.read_text() for file in files] == before
