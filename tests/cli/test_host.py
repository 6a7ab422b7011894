"""`--host`: the command line of another machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.fakes.machine import NOISE, Machine, machine_at, machine_with_runs
from tests.fakes.past_run import write_finished_run

from rltui.cli import main
from rltui.cli.arguments import KEYMAP_VARIABLE
from rltui.cli.completion import candidates
from rltui.cli.global_options import host_of
from rltui.errors import UsageError


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_with_runs(tmp_path_factory.mktemp("box"))


@pytest.fixture
def laptop(own_user: Path, machine: Machine) -> Path:
    """Settings that name the machine, and one that is not there."""
    settings = own_user / "config" / "rltui" / "settings.toml"
    settings.parent.mkdir()
    settings.write_text(
        f'[hosts.gpubox]\nreach = ["{machine.way}"]\nrltui = "{machine.root}/rltui"\n'
        f'[hosts.bare]\nreach = ["{machine.way}"]\nrltui = "/no/rltui"\n'
        '[hosts.unknown]\nreach = ["/no/ssh"]\n'
    )
    return own_user


def test_a_command_runs_there_and_its_code_comes_back(
    laptop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--host", "gpubox", "runs", "--json"]) == 0
    noise, _, document = capfd.readouterr().out.partition("\n")
    assert noise == NOISE  # of the shell there
    assert {"alpha", "beta"} <= {row["name"] for row in json.loads(document)["runs"]}
    assert main(["--host=gpubox", "status", "no-such"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--host", "bare", "status"), 1, "/no/rltui not found on bare"),
        (("--host", "unknown", "status"), 1, "cannot run /no/ssh"),
        (("--host", "gpubox", "help"), 2, "help works on this machine only"),
        (("--host", "gpubox", "rl.toml"), 2, "to start one there: rltui --host gpubox up"),
        (("--host", "gpubox", "--layout", "x"), 2, "not a run on gpubox: --layout x"),
        (("--host", "gpubox"), 2, "the TUI needs a terminal"),
        (("--host",), 2, "--host takes the name of one machine"),
        (("--host", "a", "--host", "b", "status"), 2, "--host takes the name of one machine"),
        (("--host", "-x", "status"), 2, "is not a host"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_told(
    laptop: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, told: str
) -> None:
    assert main([*words]) == code
    assert told in capfd.readouterr().err


def test_a_keymap_is_for_the_screen_of_another_machine_too(
    laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was parsed, and had no effect."""
    monkeypatch.setenv(KEYMAP_VARIABLE, "")
    assert main(["--host", "gpubox", "--keymap", "vim"]) == 2, "for want of a terminal"
    assert os.environ[KEYMAP_VARIABLE] == "vim"


def test_host_stands_before_the_command() -> None:
    assert host_of(["--readonly", "--host", "box", "demo"]) == ("box", ["--readonly", "demo"])
    assert host_of(["up", "vllm", "serve", "--host", "0.0.0.0"])[0] == ""
    assert host_of(["--", "--host", "box"])[0] == ""
    with pytest.raises(UsageError):
        host_of(["--host="])


def test_hosts_are_completed(laptop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host gateway lab-*\n  User me\nhost=x\nHost *\nHost far\n")
    assert [word for word, _ in candidates(["--host", ""])] == ["gpubox", "bare", "unknown", "gateway", "far"]
    assert [word for word, _ in candidates(["--host=gp"])] == ["--host=gpubox"]
    write_finished_run(tmp_path / "out" / "mine")
    assert "status" in [word for word, _ in candidates(["--host", "gpubox", ""])]
    assert "mine" not in [word for word, _ in candidates(["--host", "gpubox", ""])]
    assert candidates(["--host", "gpubox", "status", ""]) == []
    assert "--json" in [word for word, _ in candidates(["--host", "gpubox", "status", "--"])]


def test_a_machine_of_its_own_is_another_user(tmp_path: Path) -> None:
    """The stand-in of these tests: nothing of this user is seen there."""
    machine = machine_at(tmp_path / "box")
    done = subprocess.run(
        [*machine.host.running([machine.host.rltui, "runs", "--json"], terminal=False)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.partition("\n")[2]) == {"runs": []}
