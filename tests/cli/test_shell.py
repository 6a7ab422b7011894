"""`attach --shell -- COMMAND` without a terminal: what it prints and how it ends are the command's own."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace

import pytest
from tests.conftest import Box

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


def test_the_output_and_the_code_of_a_command_are_passed_on(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    done = counters.run("attach", "--shell", "-c", "trainer", "--", "sh", "-c", "echo a; echo b >&2; exit 3")
    assert (done.returncode, done.stdout.splitlines()) == (3, ["a", "b"]), done.stderr
    done = counters.run("attach", "--shell", "--", "sh", "-c", "sleep 0.5; echo $RLTUI_COMPONENT")
    assert (done.returncode, done.stdout.splitlines()) == (0, ["shell"]), done.stderr
    assert (
        counters.run("attach", "--shell", "--", "sh", "-c", "kill -TERM $$").returncode
        == 128 + signal.SIGTERM
    )
    done = counters.run("attach", "--shell", "--", "no-such-program")
    assert (done.returncode, "no-such-program" in done.stderr) == (127, True)
    assert counters.run("down").returncode == 0


def test_before_any_run_it_is_a_command_in_the_checkout(box: Box) -> None:
    missing = box.run("attach", "--shell", "--", "true")
    assert (missing.returncode, "--workspace FOLDER" in missing.stderr) == (2, True)
    programs = box.work / "prime-rl/.venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(shutil.which("sh") or "/bin/sh")
    (programs / "mine").write_text('#!/bin/sh\necho "$@" in $(pwd)\nexit 7\n')
    (programs / "mine").chmod(0o755)
    (box.work / "prime-rl/pyproject.toml").write_text('[project]\nname = "prime-rl"\nversion = "0.6.0"\n')
    (box.work / "prime-rl/src/prime_rl").mkdir(parents=True)
    without_uv = replace(box, env={**box.env, "PATH": "/usr/bin:/bin"})
    for words in (("--workspace", "prime-rl"), ("--workspace", f"{box.work}/prime-rl")):
        done = without_uv.run("attach", "--shell", *words, "--", "mine", "hello")
        assert (done.returncode, done.stdout) == (7, f"hello in {box.work}/prime-rl\n"), done.stderr
