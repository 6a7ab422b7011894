"""`rltui CONFIG` of a config that is no experiment yet: nothing is made before a person says so."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.conftest import Box
from tests.terminal import Terminal

from rltui.base.interpreter import module_command

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


def test_nothing_is_made_before_the_answer(counters: Box) -> None:
    """Finding E2: opening a config made an experiment before the question was answered."""
    argv = ("rltui", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    state = counters.root / "state/rltui"
    before = sorted(counters.work.rglob("*")), sorted(state.rglob("*"))
    for answer in ("n", "y"):
        with closing(
            Terminal(module_command(*argv), cwd=counters.work, env=counters.env, columns=100)
        ) as opened:
            opened.wait_for("[y/N]")
            assert f"one is a new run: create it in {counters.work}/out" in opened.screen().replace("\n", "")
            assert (sorted(counters.work.rglob("*")), sorted(state.rglob("*"))) == before
            opened.press(answer, "Enter")
            if answer == "n":
                opened.wait_for("nothing was created")
                opened.wait_for_end()
                assert sorted(counters.work.rglob("*")) == before[0]
            else:
                opened.wait_for("Not started yet")
    assert {component["state"] for component in counters.status()["components"]} == {"stopped"}
