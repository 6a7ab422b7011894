"""prime-rl's own dashboard beside rltui: runs entered in its list, and shown in its tabs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import PrimeBox, prime_box, prime_sft_box
from tests.fakes.prime_rl.dashboard import Tab
from tests.fakes.rollouts import write_stream_run
from tests.fakes.sshd import Sshd, needs_sshd
from tests.following import follow
from tests.terminal import Terminal
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]


def state(box: Box) -> Path:
    return box.root / "home/.cache/prime-rl/dashboard"


def listed(box: Box) -> list[str]:
    entries: list[str] = json.loads((state(box) / "dirs.json").read_text())
    return entries


def notices(box: Box) -> list[str]:
    return [entry["text"] for entry in box.json("events", "one", "--kind", "notice")["events"]]


def url(box: Box) -> str:
    address: str = json.loads((state(box) / "daemon.json").read_text())["url"]
    return address


def laptop(box: Box, sshd: Sshd) -> dict[str, str]:
    """The environment of another user, whose settings name the box."""
    folders = {
        f"XDG_{name}": box.root / f"laptop-{name}" for name in ("STATE_HOME", "CONFIG_HOME", "RUNTIME_DIR")
    }
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    names = [
        name for name in box.env if name.startswith(("XDG_", "RLTUI_", "TMUX_")) or name in ("HOME", "PATH")
    ]
    variables = "".join(f"export {name}='{box.env[name]}'\n" for name in names)
    program = box.root / "rltui"
    program.write_text(f'#!/bin/sh\n{variables}cd {box.work}\nexec {sys.executable} -m rltui "$@"\n')
    program.chmod(0o700)
    settings = folders["XDG_CONFIG_HOME"] / "rltui" / "settings.toml"
    settings.parent.mkdir()
    settings.write_text(f'tour = false\n[hosts.gpubox]\nreach = {sshd.reach}\nrltui = "{program}"\n')
    return box.env | {name: str(folder) for name, folder in folders.items()}


def running_dashboard(prime: PrimeBox) -> str:
    """The address of the one that the layout has, which is installed and started as a hint says, in a shell
    that does not know the checkout.
    """
    box = prime.box
    retry_until((prime.output / ".rltui/provenance.jsonl").exists)
    del box.env["RLTUI_PRIME_RL"]
    none = box.run("rollouts", "one", "--dashboard")
    assert none.returncode == 2, none.stdout
    assert "prime-rl's dashboard is not running" in none.stderr
    install = "uv sync --extra dashboard"
    assert f"`{install}` in {box.root}/prime-rl-d installs it" in none.stderr
    refused = follow(box, none, hints.START_DASHBOARD, "--wait", name=None)
    assert refused.returncode == 5
    assert install in refused.stderr
    subprocess.run(install.split(), cwd=box.root / "prime-rl-d", env=box.env, check=True)
    started = follow(box, none, hints.START_DASHBOARD, "--wait", name=None)
    assert started.returncode == 0, started.stderr
    return url(box)


def test_a_run_is_entered_shown_and_taken_back(box: Box) -> None:
    prime = prime_box(box, "D", max_steps=4)
    prime.up("prime-rl")
    retry_until(lambda: (state(box) / "dirs.json").exists())
    assert listed(box) == [str(box.work)]
    assert retry_until(lambda: notices(box)) == [f"prime-rl's dashboard shows the runs in {box.work}"]
    address = running_dashboard(prime)
    write_stream_run(prime.output)

    to_open = box.run("rollouts", "one", "--step", "2", "--worst", "1", "--dashboard")
    assert to_open.stdout == f"{address}/#run=out&tab=traces\n", to_open.stderr
    place = {"run": "out", "tab": "traces", "step": 2, "kind": "train", "subset": "effective"}
    tab = Tab(address)
    assert tab.shown().items() >= {**place, "episode": "e2000", "line": 10, "replay": True}.items()
    best = box.run("rollouts", "one", "--all", "--step", "3", "--best", "1", "--dashboard")
    assert "1 tab" in best.stderr
    assert tab.shown().items() >= {**place, "step": 3, "subset": "all", "episode": "e3007"}.items()
    page = box.json("metrics", "one", "--dashboard")
    assert page == {"url": f"{address}/#run=out&tab=metrics", "tabs": 1}
    assert {key: value for key, value in tab.shown().items() if key not in ("seq", "ts")} == {
        "run": "out",
        "tab": "metrics",
    }

    terminal = Terminal(
        [sys.executable, "-m", "rltui", "one"], cwd=box.work, env=box.env, columns=80, rows=24
    )
    try:
        terminal.wait_for("one")
        for key, selected, shown in (
            ("5", "Sample 1 of", {**place, "step": 3, "episode": "e3000"}),
            ("9", "/checkpoints/step_4", {**place, "tab": "metrics", "step": 4}),
            ("4", "Metrics", {"run": "out", "tab": "metrics"}),
        ):
            terminal.press(key)
            terminal.wait_for(selected)
            terminal.press("O")
            terminal.wait_for("Shown in the dashboard (1 tab)")
            assert tab.shown().items() >= shown.items()
    finally:
        terminal.close()
    tab.close()
    prime.done("down", "one")

    assert box.run("runs", "rm", "one").returncode == 0
    assert listed(box) == []
    assert box.run("runs", "restore", "one").returncode == 0
    assert listed(box) == [str(box.work)]


@needs_sshd
def test_a_laptop_reaches_the_page_through_a_port_of_its_own(box: Box) -> None:
    prime = prime_sft_box(box, "D", max_steps=4)
    prime.up("prime-rl-sft")
    (box.root / "prime-rl-d/.venv/dashboard-extra").touch()
    prime.done("start", "-c", "dashboard", "--yes", "--wait")
    address = url(box)
    sshd = Sshd(box.root / "ssh", "gpubox")
    try:
        terminal = Terminal(
            [sys.executable, "-m", "rltui", "--host", "gpubox"], cwd=box.root, env=laptop(box, sshd)
        )
        try:
            terminal.wait_for("gpubox:one")
            terminal.press("4")
            terminal.wait_for("Metrics")
            terminal.press("O")
            screen = terminal.wait_for("/#run=run&tab=metrics")
            own_address = re.search(r"http://localhost:\d+", screen)
            assert own_address is not None
            assert own_address[0] != address, "its own port is taken: the box is this machine"
            tab = Tab(own_address[0])
            assert tab.shown()["run"] == "run"
            terminal.press("O")
            terminal.wait_for("Shown in the dashboard (1 tab)")
            assert tab.shown()["tab"] == "metrics"
            tab.close()
        finally:
            terminal.close()
        retry_until(lambda: not sshd.sessions())
    finally:
        sshd.close()
