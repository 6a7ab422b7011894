"""Hints are followed as in `test_following_hints`: about obstacles to a start, and what a start leaves
behind.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Box
from tests.e2e.test_orphans import family, identity
from tests.e2e.test_out_of_memory import CONFIG, LAYOUT, OOM, TRAINER
from tests.fakes.past_run import write_finished_run
from tests.fakes.prime_rl.boxed import prime_box
from tests.following import follow
from tests.terminal import Terminal
from tests.waiting import retry_until

from rltui.base.interpreter import module_command
from rltui.core import hints
from rltui.services.processes import is_alive

__all__ = ["family"]  # a fixture, used by name
pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def in_terminal(box: Box, *arguments: str) -> Terminal:
    return Terminal(module_command("rltui", *arguments), cwd=box.work, env=box.env)


def test_from_nothing_to_a_layout_and_its_run(box: Box, own_user: Path) -> None:
    for name in ("serve", "train"):
        (box.work / f"{name}.py").write_text("import signal; signal.pause()")
    (box.work / "run.toml").write_text("colour = 20\n")
    nothing, no_runs, no_tags = box.run("status"), box.run("runs"), box.run("runs", "tag")
    assert hints.DEMO() in nothing.stdout
    unknown = follow(box, nothing, hints.UP, code=3, fill={"CONFIG.toml": "run.toml"})
    assert "your own commands" in unknown.stderr
    no_components = box.run("init", "mine", stdin="")
    start = follow(box, no_components, hints.INIT_WITH, code=0, fill={"NAME": "mine"})
    existing = box.run("init", "mine", "--component", "a=sleep 100")
    assert existing.returncode == 4
    second = follow(box, existing, hints.INIT, code=2, fill={"NAME": "other"})
    follow(box, second, hints.INIT_WITH, code=0, fill={"NAME": "other"})
    result = follow(box, start, hints.UP_LAYOUT, layout="mine", configs=None, code=0)
    assert "train" in result.stdout
    name = "mine"
    assert "mine can have none" in box.run("eval").stdout
    follow(box, no_tags, hints.TAG, code=0, fill={"RUN": name})
    of_which = box.run("runs", "tag", "+baseline")
    assert hints.TAG() in of_which.stderr
    follow(box, of_which, hints.TAG_REMOVE, code=0, fill={"RUN": name})
    assert hints.TAG() in box.run("runs", "tag").stdout
    write_finished_run(own_user / "theirs")
    follow(box, no_runs, hints.ADD, code=0, fill={"FOLDER": str(own_user / "theirs")})
    assert "theirs" in box.run("runs").stdout


@pytest.mark.slow
def test_a_missing_checkout(box: Box) -> None:
    """The advice to set a variable did not help while the supervisor of the first try lived."""
    files = box.run("init", "--from", "prime-rl", "W")
    config = "W/configs/prime-rl/rl.toml"
    assert hints.UP_WITH(config=config) in files.stderr
    assert "RLTUI_PRIME_RL=FOLDER" in follow(box, files, hints.DOCTOR, code=0).stdout
    follow(box, files, hints.CHECK_WITH, code=0, config=config)
    there = box.run("init", "--from", "prime-rl", "W")
    follow(box, there, hints.INIT_FROM, code=0, kind="prime-rl", fill={"FOLDER": "V"})

    prime = prime_box(box, "C")
    folder = box.env.pop("RLTUI_PRIME_RL")
    no_checkout = box.run("attach", "--shell", "--", "true")
    follow(box, no_checkout, hints.SHELL_IN, "--", "true", code=0, fill={"FOLDER": folder})
    follow(box, box.run("up", *prime.files, "--slurm", "--time", "1\n2"), hints.UP_HELP, code=0)
    up = ("up", *prime.files, "-l", "prime-rl", "-n", "one", "-o", "out")
    refusal = box.run(*up)
    assert (
        refusal.returncode,
        "name its folder: --workspace FOLDER, or export RLTUI_PRIME_RL=FOLDER" in refusal.stderr,
    ) == (5, True)
    follow(box, refusal, hints.EVENTS, code=0)
    box.env["RLTUI_PRIME_RL"] = folder
    assert box.run(*up).returncode == 0
    counted = box.run("convert", "rollouts")
    retry_until(lambda: box.status()["step"], timeout_s=30)
    follow(box, counted, hints.CONVERT, "--plan", code=0, way="tokens")


@pytest.mark.slow
def test_a_port_that_another_run_has(counters: Box) -> None:
    """The advice to end that process would have killed the server of the other run, without naming it."""
    counters.json(*UP)
    (counters.work / "other.toml").write_text((counters.work / "run.toml").read_text())
    conflict = counters.run("up", "other.toml", "-l", "counters.toml", "-n", "two")
    assert conflict.returncode == 4
    assert "inference of one" in conflict.stderr
    follow(counters, conflict, hints.STOP, components="inference", name="one", code=0)
    counters.json("up", "other.toml", "-l", "counters.toml", "-n", "two")


def test_leftovers(box: Box, family: dict[str, int]) -> None:
    """There are two runs: the advice names the one that is meant."""
    (box.work / "b.toml").write_text(
        'framework = "generic"\n[[component]]\nid = "b"\ncommand = ["sleep", "600"]\n'
    )
    assert box.run("up", "-l", "b.toml", "-n", "two").returncode == 0
    status = box.run("status", "one")
    listing = follow(box, box.run("gpus", "orphans", "one", "--end", "1"), hints.ORPHANS, code=0, name="one")
    assert f"{family['daemon']}  " in listing.stdout
    processes = [identity(family["daemon"]), identity(family["port"])]
    follow(box, status, hints.FREE_LEFTOVERS, code=0, name="one")
    assert not any(map(is_alive, processes))
    assert "leftover" not in box.run("status", "one").stdout
    assert box.component("b", experiment="two")["state"] == "ready"


def test_nothing_that_is_followed_here_can_be_forgotten(counters: Box) -> None:
    """The advised `stop` would have ended a sound trainer."""
    counters.json(*UP)
    pid = counters.component("trainer")["pid"]
    refusal = counters.run("gpus", "orphans", "--forget", "trainer")
    assert refusal.returncode == 2
    follow(counters, refusal, hints.ORPHANS, code=0, name="one")
    assert counters.component("trainer")["pid"] == pid


def test_out_of_memory(box: Box) -> None:
    (box.work / "config.toml").write_text(CONFIG)
    (box.work / "parts.toml").write_text(LAYOUT)
    (box.work / "trainer.py").write_text(TRAINER)
    (box.work / "oom.log").write_text(OOM)
    box.run("up", "config.toml", "-l", "parts.toml", "-n", "one", "-o", "out", "--no-wait")
    edits = box.wait_for("trainer", "failed")["remedies"][0]["edits"]
    edit_arguments = [f"{key}={value}" for key, value in edits.items()]
    follow(box, box.run("status"), hints.SET_RESTART, code=0, words=edit_arguments)
    box.wait_for("trainer", "ready")
    assert (box.work / "config.toml").read_text() == CONFIG.replace("4096", "2048")
    assert "out of memory" not in box.run("status").stdout


@pytest.mark.slow
def test_a_run_that_is_open_and_its_shell(counters: Box) -> None:
    counters.json(*UP)
    before = counters.component("trainer")["pid"]
    there = counters.run(*UP)
    assert there.returncode == 4
    assert hints.OPEN(opened="one") in there.stderr
    opened = in_terminal(counters, "one")
    try:
        opened.wait_for("trainer")
    finally:
        opened.close()
    refusal = counters.run("--readonly", "a", "b")
    assert refusal.returncode == 2
    assert hints.OPEN_READONLY() in refusal.stderr
    follow(counters, counters.run("--readonly", "run.toml"), hints.STATUS_ALL, code=0)
    readonly = in_terminal(counters, "--readonly", "one")
    try:
        readonly.wait_for("trainer")
    finally:
        readonly.close()
    shell = counters.run("attach", "one", "--shell", "--detach")
    assert shell.returncode == 0
    assert hints.ATTACH(component="shell", name="one") in shell.stderr
    attached = in_terminal(counters, "attach", "one", "-c", "shell")
    try:
        attached.press("echo $((6*7))", "Enter")
        attached.wait_for("42")
    finally:
        attached.close()
    second = counters.run("attach", "--shell", "--", "true")
    assert second.returncode == 4
    assert hints.SHELL(name="one") in second.stderr
    follow(counters, second, hints.STOP, components="shell", name="one", code=0)
    assert counters.run("attach", "one", "--shell", "--", "true").returncode == 0
    assert counters.component("trainer")["pid"] == before
