"""Commands that only ask are as light as Python lets them be: what they import, and what they keep."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

HEAVY = ("pydantic", "tomlkit", "libtmux", "rltui.frameworks", "asyncio", "textual", "rich")
SCRIPT = """
import contextlib, io, json, sys
from rltui.cli import main
commands, names = json.loads(sys.argv[1])
found = []
for command in commands:
    with contextlib.redirect_stdout(io.StringIO()):
        code = main(command)
    found.append([code, *(name for name in names if name in sys.modules)])
print(json.dumps(found))
"""
LIGHT = [0]
"""Exit code 0, and no heavy module imported."""


def exit_codes_and_imports(box: Box, *commands: Sequence[str]) -> dict[Sequence[str], list[int | str]]:
    """Command → its exit code, and the heavy modules imported up to it: the first one with some needs it."""
    argv = [sys.executable, "-c", SCRIPT, json.dumps([commands, HEAVY])]
    result = subprocess.run(argv, env=box.env, cwd=box.work, capture_output=True, text=True, check=True)
    return dict(zip(commands, json.loads(result.stdout), strict=True))


ASKING: Sequence[Sequence[str]] = (
    ("status",),
    ("status", "--json"),
    ("status", "--all"),
    ("status", "one"),
    ("knobs",),
    ("knobs", "--json"),
    ("diff",),
    ("events",),
    ("events", "--json"),
    ("logs", "-c", "trainer"),
    ("gpus", "one", "--json"),
)


def test_asking_a_supervisor_imports_nothing_heavy(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    imports = exit_codes_and_imports(counters, *ASKING)
    assert all(value == LIGHT for value in imports.values()), imports
    counters.run("down", "one")
    asking = [command for command in ASKING if command[0] in ("status", "events", "logs")]
    imports = exit_codes_and_imports(counters, *asking)
    assert all(value == LIGHT for value in imports.values()), (
        "what is known of a stopped one is kept",
        imports,
    )


@pytest.mark.slow
def test_an_edit_says_what_was_done(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    edit = ("set", "max_steps=21", "--restart", "--yes")
    dry, result = counters.run(*edit, "--plan"), counters.run(*edit)
    assert dry.stderr == "nothing was written (--plan)\n"
    assert result.stderr.startswith("written: run.toml: max_steps 20 → 21\nrestarting ")
    assert "trainer" in result.stderr
    assert counters.run("set", "max_steps=21").stderr == ""


@pytest.mark.slow
def test_a_stopped_experiment_is_told_anew_once_it_has_changed(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    counters.run("down", "one")
    before = counters.json("status", "--all")["runs"]
    assert counters.json("status", "--all")["runs"] == before
    assert (before[0]["state"], before[0]["max_steps"]) == ("stopped", 20)
    (counters.work / "run.toml").write_text("max_steps = 30\n")
    assert counters.json("status", "one")["max_steps"] == 20, "it ran with 20"
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    [started] = counters.json("status", "--all")["runs"]
    assert started["max_steps"] == 30
    assert {component["state"] for component in started["components"]} == {"ready"}
    counters.run("stop", "-c", "trainer", "--yes", "--wait")
    assert retry_until(lambda: counters.component("trainer")["state"] == "stopped")


@pytest.mark.slow
def test_status_shows_what_is_alive_and_lists_the_newest_ended(counters: Box) -> None:
    assert "no runs yet" in counters.run("status").stdout
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    assert counters.run("status").stdout.startswith("one · ")
    counters.run("down", "one")
    assert counters.run("status").stdout.startswith("one · generic · ○ stopped"), "the newest, with all"
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "two", "-o", "two")
    head, line = counters.run("status").stdout.partition("\n\n")[2].splitlines()
    assert head.split()[:5] == ["NAME", "STATE", "STEP", "REWARD", "AGE"]
    assert line.split()[:3] == ["one", "○", "stopped"]
    assert line.index("generic") == head.index("FRAMEWORK")
    assert line.endswith("/out")
    for command in ("restart", "stop", "logs", "attach"):
        result = counters.run(command, "trianer")
        assert result.returncode == 2
        assert f"→ did you mean rltui {command} -c trainer?" in result.stderr
