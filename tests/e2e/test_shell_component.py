"""`rltui attach --shell`: a terminal in the surroundings of a component, which outlives who looks at it."""

from __future__ import annotations

import sys

import pytest
from tests.conftest import Box
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]


def test_a_shell_runs_as_a_component_does_and_is_no_part_of_the_run(counters: Box) -> None:
    layout = counters.work / "counters.toml"
    entry = '[[component]]\nid = "notes"\nenv = { FLAVOUR = "{output_dir}" }\ncwd = "/"\n'
    entry += 'command = ["sleep", "600"]\npart_of_run = false\n'
    layout.write_text(f"{layout.read_text()}\n{entry}")
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    result = counters.run("attach", "--shell", "-c", "absent")
    assert (result.returncode, "known: inference, orchestrator, trainer, notes" in result.stderr) == (
        2,
        True,
    )

    rltui = f"{sys.executable} -m rltui attach --shell"
    env = counters.env | {"SHELL": "/bin/sh", "PS1": "$ "}
    terminal = Terminal(["sh", "-c", f"{rltui} -c notes; {rltui}; sleep 100"], cwd=counters.work, env=env)
    try:
        terminal.wait_for("one · ctrl+] detaches, nothing stops")
        terminal.press("pwd; echo $FLAVOUR; read x", "Enter")
        terminal.wait_for(f"\n/\n{counters.work}/out\n")
        terminal.press("q", "Enter", "echo got $x; sleep 100", "Enter")
        terminal.wait_for("got q")
        terminal.press("C-c")
        terminal.press("C-]")
        terminal.wait_for("[detached")
        terminal.wait_for("got q")  # the second one shows the same
        terminal.press("echo still $((40+2))", "Enter")
        terminal.wait_for("still 42")
        shell = counters.component("shell")
        assert (shell["manual"], shell["state"], shell["stalled"]) == (True, "ready", False)
        refusal = counters.run("attach", "--shell", "--", "ls")
        assert (refusal.returncode, "has a shell already" in refusal.stderr) == (4, True)
        terminal.press("exit 3", "Enter")
        terminal.wait_for("exited 3 at")
    finally:
        terminal.close()
    status = counters.status()
    assert "shell" not in [component["id"] for component in status["components"]]
    assert status["state"] != "failed"
    assert "still 42" in counters.run("logs", "-c", "shell").stdout

    command = ("sh", "-c", "echo I am $RLTUI_AGENT")
    proposed = counters.as_agent(rights="propose").run("attach", "--shell", "--detach", "--", *command)
    assert "kept as proposal p1" in proposed.stderr
    proposal = counters.json("agents", "accept", "one")
    assert "command: sh -c 'echo I am $RLTUI_AGENT'" in proposal["text"], "a person sees what it would run"
    retry_until(lambda: "I am night-1" in counters.run("logs", "-c", "shell").stdout)

    counters.run("attach", "--shell", "--detach", "--", "sleep", "600")
    assert counters.component("shell")["state"] == "ready"
    assert "shell" in counters.json("restart", "-c", "trainer", "--plan")["keep"]
    assert counters.run("down").returncode == 0
    assert not counters.tagged("one")
