"""Modules in the user's folder named as those of the standard library: no program of ours reads them."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.engine import write_example
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

MODULES = ("random", "queue", "types", "statistics", "secrets", "json", "logging", "signal", "email")
LAYOUT = """\
framework = "generic"

[[component]]
id = "trainer"
command = ["/bin/sh", "-c", "echo step; sleep 0.2"]
"""


@pytest.fixture
def shadowed(box: Box) -> Box:
    """A box whose working folder has such modules, each of which says that it was read."""
    for name in MODULES:
        (box.work / f"{name}.py").write_text(
            f"open({str(box.root / 'read')!r}, 'a').write({name!r} + ' ')\nraise SystemExit('not this one')\n"
        )
    return box


def nothing_was_read(box: Box) -> bool:
    assert not (box.root / "read").exists(), (box.root / "read").read_text()
    return True


@pytest.mark.slow
def test_supervisor_and_queue_do_not_read_the_modules_of_the_workspace(shadowed: Box) -> None:
    work = shadowed.work
    (work / "job.toml").write_text(LAYOUT)
    (work / "run.toml").write_text("seed = 0\n")
    started = shadowed.run("up", "run.toml", "-l", "job.toml", "-n", "one", "-o", "one")
    assert (started.returncode, nothing_was_read(shadowed)) == (0, True), started.stderr
    shadowed.wait_for("trainer", "exited")
    added = shadowed.run("queue", "add", "run.toml", "-l", "job.toml", "-n", "two", "-o", "two")
    assert (added.returncode, nothing_was_read(shadowed)) == (0, True), added.stderr

    def has_ended() -> bool:
        entries = shadowed.json("queue")["entries"]
        assert entries[0]["state"] != "failed", entries
        return bool(entries[0]["state"] == "done")

    retry_until(has_ended, timeout_s=30)
    assert nothing_was_read(shadowed)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_embedded_engine_does_not_read_the_modules_of_the_workspace(
    shadowed: Box, free_port: int
) -> None:
    write_example(shadowed.work, port=free_port, steps=2, sft_steps=2)
    started = shadowed.run("up", "rl.toml", "-n", "one", "-o", "one", timeout_s=200)
    assert (started.returncode, nothing_was_read(shadowed)) == (0, True), started.stderr
    shadowed.wait_for("trainer", "exited", timeout_s=200)
    evaluated = shadowed.run("eval", "run", "--examples", "2", "--rollouts", "1", "--wait", timeout_s=100)
    assert evaluated.returncode in {0, 5}, (
        evaluated.stderr
    )  # a model that was hardly trained never ends its answers
    assert nothing_was_read(shadowed)
