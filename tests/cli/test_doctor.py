from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.services.config.models.checkouts import make

from rltui.cli import main
from rltui.cli.commands import doctor
from rltui.frameworks.generic import GENERIC
from rltui.services.experiment import trust


def test_doctor_reads_the_settings(own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def finding() -> dict[str, object]:
        main(["doctor", "--json"])
        findings: list[dict[str, object]] = json.loads(capsys.readouterr().out)["checks"]
        return next(item for item in findings if item["name"] == "settings")

    path = own_user / "config/rltui/settings.toml"
    assert finding()["text"] == f"defaults; your own go into {path}"
    path.parent.mkdir()
    path.write_text("[alerts]\nbel = true\n")
    broken = finding()
    assert (broken["ok"], broken["essential"]) == (False, False)
    assert f"{path}:2:1: alerts.bel: unknown key; did you mean bell?" in str(broken["text"])
    path.write_text('[alerts]\ncommand = ["no-such-notifier"]\n')
    assert "program not found: no-such-notifier" in str(finding()["text"])
    path.write_text('[alerts]\ncommand = ["sh", "-c", "true"]\n')
    assert finding() == {"name": "settings", "ok": True, "text": str(path), "essential": False}


@pytest.mark.parametrize(
    ("missing", "code", "verdict", "command"),
    [
        ((), 0, "ready for the demo; ready for prime-rl", "rltui check CONFIG.toml"),
        (("gpu",), 0, "ready for the demo; not ready for prime-rl: no GPU", "rltui demo"),
        (
            ("gpu", "prime-rl", "demo"),
            0,
            "not ready for the demo; not ready for prime-rl: no GPU and no checkout",
            "pip install 'rltui[local]'",
        ),
        (("tmux", "gpu"), 1, "not ready: tmux", "rltui doctor"),
    ],
)
def test_the_verdict_is_first_and_the_next_command_last(
    missing: tuple[str, ...],
    code: int,
    verdict: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(name: str) -> Callable[[], tuple[bool, str]]:
        return lambda: (name not in missing, "")

    names = {"python": True, "tmux": True, "gpu": False, "demo": False, "prime-rl": False}
    checks = [(name, is_essential, check(name)) for name, is_essential in names.items()]
    monkeypatch.setattr(doctor, "_checks", lambda: checks)
    assert main(["doctor"]) == code
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last.startswith("Next: "), last.endswith(command)) == (verdict, True, True)
    assert main(["doctor", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["next"], document["ready"]) == (verdict, command, not code)


def told(box: Box, name: str, **environment: str) -> tuple[bool, str]:
    box.env.update(environment)
    item = next(each for each in box.json("doctor")["checks"] if each["name"] == name)
    return item["ok"], item["text"]


@pytest.mark.slow
def test_doctor_looks_for_prime_rl_and_uv(box: Box) -> None:
    ok, text = told(box, "prime-rl", PATH="/usr/bin:/bin")
    assert not ok
    assert "export RLTUI_PRIME_RL=" in text
    assert told(box, "uv") == (False, "not found; prime-rl needs it: https://docs.astral.sh/uv")
    checkout = box.work / "prime-rl"
    (checkout / "src/prime_rl/entrypoints").mkdir(parents=True)
    (checkout / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    ok, text = told(box, "prime-rl", RLTUI_PRIME_RL=str(checkout))
    assert ok
    assert "unknown" in text
    assert f"its validators cannot run: {checkout} has no .venv/bin/python" in text
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    date = {"GIT_COMMITTER_DATE": "2026-08-15T12:00:00Z", "GIT_AUTHOR_DATE": "2026-08-15T12:00:00Z"}
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], env={**box.env, **date}, check=True)
    text = told(box, "prime-rl")[1]
    assert " · commit " in text
    assert " of 2026-08-15" not in text, (
        "no git runs in a folder that nobody trusts: it obeys the config there"
    )
    box.run("trust", str(checkout))
    assert " of 2026-08-15" in told(box, "prime-rl")[1]
    assert "which is not a checkout of prime-rl" in told(box, "prime-rl", RLTUI_PRIME_RL=str(box.work))[1]


@pytest.mark.slow
def test_doctor_says_whether_prime_rl_can_be_asked(box: Box, own_user: Path) -> None:
    checkout = make(box.work / "prime-rl")
    (checkout.root / "src/prime_rl/entrypoints").mkdir(parents=True)
    assert f"its validators cannot run: {checkout.root} is not trusted" in told(box, "prime-rl")[1]
    ok, text = told(box, "prime-rl", RLTUI_PRIME_RL=str(checkout.root))
    assert ok
    assert f"python {platform.python_version()}, pydantic " in text
    assert "its validators cannot run: sft: No module named 'prime_rl.configs.sft'" in text
    checkout.write("from prime_rl.configs.rl import RLConfig as SFTConfig\n", "prime_rl/configs/sft.py")
    assert told(box, "prime-rl")[1].endswith("its validators run")


@pytest.mark.slow
def test_doctor_knows_what_terminals_lack(box: Box) -> None:
    assert told(box, "terminal", TERM="xterm", PYTHONIOENCODING="utf-8") == (True, "TERM=xterm, utf-8")
    ok, text = told(box, "terminal", TERM="dumb")
    assert (ok, "LANG" in text, "the TUI cannot run here" in text) == (False, False, True)
    tmux = box.root / "tmux" / "tmux"
    tmux.write_text(
        f'#!/bin/sh\n[ "$1" = display-message ] && echo 0 && exit\nexec {shutil.which("tmux")} "$@"\n'
    )
    tmux.chmod(0o755)
    inside = {"TERM": "tmux-256color", "TMUX": "/nowhere,1,0", "PATH": f"{tmux.parent}:{box.env['PATH']}"}
    ok, text = told(box, "terminal", **inside)
    assert (ok, "tmux -u attach" in text) == (False, True)


def test_doctor_runs_nothing_of_a_checkout_that_nobody_started(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, ran = tmp_path / "home", tmp_path / "ran"
    foreign = home / "dl" / "foreign"
    programs = foreign / ".venv" / "bin"
    programs.mkdir(parents=True)
    (foreign / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    for program in (programs / "python", tmp_path / "gpg"):
        program.write_text(f"#!/bin/sh\ntouch {ran}\n")
        program.chmod(0o755)
    git = ["git", "-C", str(foreign), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    for key, value in (("log.showSignature", "true"), ("gpg.program", str(tmp_path / "gpg"))):
        subprocess.run([*git, "config", key, value], check=True)
    layout = home / "my.toml"
    layout.write_text("")
    trust.trust_programs(layout, GENERIC, workspace=home, config_files=())  # its user started from it
    monkeypatch.chdir(foreign)
    main(["doctor"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"{foreign} · " in text
    assert "commit " in text
    assert "is not trusted; to allow rltui to run its files: rltui trust" in text
    assert not ran.exists()


def test_doctor_tries_what_a_start_needs_and_names_the_variable(box: Box) -> None:
    folders = {"XDG_STATE_HOME": ("state", "/proc/x"), "TMUX_TMPDIR": ("tmux", "/proc")}
    for variable, (name, folder) in folders.items():
        lame = replace(box, env={**box.env, variable: folder})
        done = lame.run("doctor")
        line = next(line for line in done.stdout.splitlines() if f" {name} " in line[:12])
        assert (done.returncode, line[0]) == (1, "✗"), done.stdout
        assert f"export {variable}=FOLDER" in done.stdout
        (box.work / "job.toml").write_text(
            'framework = "generic"\n[[component]]\nid = "a"\ncommand = ["true"]\n'
        )
        assert f"export {variable}=FOLDER" in lame.run("up", "-l", "job.toml").stderr
    assert "✓ state" in box.run("doctor").stdout
