"""Commands on a node, as `sh` there reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rltui.services.hosts.nodes import command_input, sent_variables, terminal_argv

SHOW = ("sh", "-c", 'printf "%s|" "$PWD" "$KEY" "$MODE"; tr "\\0" " " < /proc/$PPID/cmdline')


@pytest.mark.parametrize("login", [True, False])
def test_what_is_sent_is_on_no_command_line_and_no_profile_overrides_it(tmp_path: Path, login: bool) -> None:
    (tmp_path / ".profile").write_text("export KEY=theirs\n")
    script = command_input(
        SHOW, cwd=str(tmp_path), env={"MODE": "a b"}, sent={"KEY": 'it\'s "$mine"'}, login=login
    )
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "SHELL": "/bin/sh"}
    result = subprocess.run(["sh"], input=script, capture_output=True, check=True, env=environment)
    assert result.stdout.decode().startswith(f'{tmp_path}|it\'s "$mine"|a b|')
    lines = [line for line in script.decode().splitlines() if "mine" in line]
    assert len(lines) == 1
    assert lines[0].startswith("export RLTUI_SENT_KEY="), "a command of the shell's own"


def test_variables_that_are_set_here_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "mine")
    monkeypatch.delenv("OTHER", raising=False)
    assert sent_variables({"send_env": ("KEY", "OTHER")}) == {"KEY": "mine"}


def test_ssh_is_asked_to_pass_on_what_a_terminal_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "secret")
    argv = terminal_argv(["ssh", "m1"], ["true"], cwd="/w", env={}, send_env=("KEY",), login=False)
    assert argv[:3] == ("ssh", "-t", "-oSendEnv=KEY")
    assert argv[-2] == "m1"
    assert not any("secret" in word for word in argv)
