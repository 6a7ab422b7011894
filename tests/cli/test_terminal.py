"""Nothing from outside reaches the terminal as it is; whatever the streams are, nothing is a traceback."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

import pytest
from tests.cli.conftest import planned
from tests.conftest import Box

from rltui.cli import main
from rltui.cli.terminal import CleanStream

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x85\x7f\u202etxt\u2066\u200b\x08"
LAYOUT = """\
title = "T {evil}"
framework = "generic"
[[component]]
id = "trainer"
command = ["true", "{evil}"]
"""


def dangers(text: str) -> set[str]:
    """Control and invisible characters that are no line feed and no tab."""
    found = {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return {f"U+{ord(sign):04X}" for sign in found - {"\n", "\t"}}


def escaped(text: str) -> str:
    """As TOML writes it."""
    return "".join(f"\\U{ord(sign):08x}" if not sign.isprintable() else sign for sign in text)


@pytest.fixture
def hostile(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stopped experiment, all of whose texts are hostile."""
    folder = tmp_path / f"work{EVIL.replace('/', '')}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RLTUI_PRIME_RL", raising=False)
    config = folder / f"run{EVIL}.toml"
    evil = escaped(EVIL)
    config.write_text(f'# bidi \u202e \u2066\nmax_steps = 20 # \u202e\nname = "{evil}"\n"k{evil}" = 1\n')
    (folder / "one.toml").write_text(LAYOUT.format(evil=evil))
    control = planned(config, layout="./one.toml").control
    attempt = control.attempt_dir("trainer", control.new_attempt("trainer"))
    (attempt / "output.log").write_text(f"12:00:00 ERROR {EVIL} went wrong\nRuntimeError: {EVIL}\n")
    entry = {"at": 1.7e9, "kind": f"edit{EVIL}", "text": EVIL}
    control.journal_file.write_text(json.dumps(entry) + "\n")
    return config


COMMANDS = [
    ["status"],
    ["status"],
    ["status", EVIL],
    ["knobs", "--all", "-v"],
    ["knobs", EVIL],
    ["set", "max_steps=30", "--plan"],
    ["set", f"max_steps={EVIL}"],
    ["set", f"{EVIL}=1"],
    ["set", f"{EVIL}=1", "--force", "--plan"],
    ["undo"],
    ["diff", "-c", EVIL],
    ["events"],
    ["logs", "-c", "trainer"],
    ["logs", "-c", EVIL],
    ["logs", "-c", "trainer", "--grep", f"({EVIL}"],
    ["logs", "-c", "trainer", "--level", EVIL],
    ["gpus", "orphans"],
    ["attach", "-c", EVIL],
    ["init", "--list"],
    ["check", f"run{EVIL}.toml", "-l", "./one.toml"],
    ["check", EVIL],
    ["up", EVIL],
    ["watch", EVIL, "--no-tui"],
    ["gpus"],
    ["gpus", EVIL],
    ["trust", EVIL],
    ["completion", EVIL],
    ["undo", "--redo"],
    ["restart", EVIL, "-c", EVIL],
    ["doctor"],
    ["convert"],
    [EVIL],
    [f"--{EVIL}"],
    ["stop", "-c", f"--{EVIL}"],
    ["gpus", "--watch", EVIL],
]


def test_no_command_passes_on_control_characters(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        for more in ([], ["--json"]):
            with suppress(SystemExit):
                main([*command, *more])
            told = capsys.readouterr()
            assert dangers(told.out + told.err) == set(), command
            if more and told.out:
                json.loads(told.out)


def test_what_is_hostile_can_be_seen(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["events"])
    assert "edit␛]0;owned␇␛[2J‹U+009B›31m" in capsys.readouterr().out
    main(["events", "--json"])
    told = capsys.readouterr().out
    assert json.loads(told)["events"][0]["text"] == EVIL
    assert "\\u202e" in told
    main(["logs", "-c", "trainer"])
    assert capsys.readouterr().out == "12:00:00 ERROR txt went wrong\nRuntimeError: txt\n"


def test_raw_logs_are_for_pipes(
    hostile: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["logs", "-c", "trainer", "--raw"]) == 0
    assert EVIL.encode() in capfdbinary.readouterr().out
    assert main(["logs", "-c", "trainer", "--raw", "-f"]) == 2
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["logs", "-c", "trainer", "--raw"]) == 2
    assert b"--raw does not print to a terminal" in capfdbinary.readouterr().err


class Encoded(io.TextIOWrapper):
    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")

    def bytes(self) -> bytes:
        self.flush()
        return cast(io.BytesIO, self.buffer).getvalue()


def test_what_the_terminal_cannot_show_is_told_otherwise() -> None:
    stream = Encoded("ascii")
    clean = CleanStream(cast(TextIO, stream))
    print("● größe → 2\x1b", file=cast(TextIO, clean))
    clean.is_json = True
    print(json.dumps("größe 🙂\x9b", ensure_ascii=False), file=cast(TextIO, clean))
    assert stream.bytes() == b'* grosse -> 2^[\n"gr\\u00f6\\u00dfe \\ud83d\\ude42\\u009b"\n'


SHELL_LINES = [
    "{rltui} status >&-",
    "{rltui} status 2>&-",
    "{rltui} nonsense 2>&- >&- <&-",
    "{rltui} set max_steps=5 --restart <&- >&- 2>&-",
    "{rltui} --help | true",
    "{rltui} status | true",
    "{rltui} nonsense 2>&1 | true",
    "{rltui} status > /dev/full",
    "{rltui} status --json > /dev/full",
    "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 {rltui} status",
    "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 {rltui} knobs",
    "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 {rltui} größe.toml",
    "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 {rltui} check größe.toml -l ./one.toml",
    "PYTHONIOENCODING=ascii {rltui} logs trainer",
    "PYTHONIOENCODING=ascii {rltui} ls --json",
]


@pytest.fixture
def stopped(box: Box) -> Box:
    """An experiment that never ran, in a folder whose name is not ASCII."""
    work = box.work / "größe"
    work.mkdir()
    (work / "größe.toml").write_text('# größe ●\nmax_steps = 20\nname = "größe"\n')
    (work / "one.toml").write_text(LAYOUT.format(evil="größe"))
    script = f"""
from pathlib import Path
from rltui.client import draft
from rltui.core.experiment.request import ConfigLine, ExperimentRequest
from rltui.services.experiment.files import ControlFolder
folder = Path({str(work)!r})
wanted = ExperimentRequest(ConfigLine((folder / "größe.toml",)), layout=str(folder / "one.toml"),
                           name="one", output_dir=folder / "out")
record, _ = draft.plan_record(draft.ConfiguredRequest.plain(wanted))
control = record.control
control.write_record(record)
attempt = control.attempt_dir("trainer", control.new_attempt("trainer"))
(attempt / "output.log").write_text("größe ●\\n" * 20000)
"""
    subprocess.run([sys.executable, "-c", script], env=box.env, check=True)
    return box


@pytest.mark.slow
@pytest.mark.e2e
def test_no_stream_and_no_locale_gives_a_traceback(stopped: Box) -> None:
    rltui = f"{sys.executable} -m rltui"
    for line in SHELL_LINES:
        done = subprocess.run(
            ["sh", "-c", line.format(rltui=rltui)],
            env=stopped.env,
            cwd=stopped.work / "größe",
            capture_output=True,
            timeout=60,
            check=False,
        )
        told = done.stderr.decode() + done.stdout.decode()
        assert "Traceback" not in told, (line, told)
        assert "Exception ignored" not in told, (line, told)
        assert "\\u2" not in done.stderr.decode(), (line, told)
        assert done.returncode in ((1,) if "/dev/full" in line else (0, 2, 3)), (line, told)
        if "--json" in line and done.stdout:
            json.loads(done.stdout)


def in_terminal(box: Box, *arguments: str) -> bytes:
    """Run `rltui …` on a terminal, and return all bytes that this got."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rltui", *arguments],
        env=box.env,
        cwd=box.work,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    got = bytearray()
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        got += data
        if b"every 0.5 s" in got:
            process.terminate()
        if not data:
            break
    os.close(master)
    process.wait()
    return bytes(got)


def test_a_terminal_gets_only_our_own_control_sequences(box: Box) -> None:
    own = re.compile(r"\x1b\[(?:\d+A|[HKJ]|\d+m)")
    for arguments in (["status", EVIL], ["gpus", "--watch", "0.5"], [f"--{EVIL}"]):
        told = in_terminal(box, *arguments).decode()
        assert dangers(own.sub("", told).replace("\r", "")) == set(), (arguments, told)


def test_a_dumb_terminal_gets_words_instead_of_the_screen(box: Box) -> None:
    box.env["TERM"] = "dumb"
    (box.work / "anything").mkdir()
    told = in_terminal(box, "watch", "anything").decode()
    assert "TERM is dumb" in told
    assert dangers(told.replace("\r", "")) == set()


def test_a_crash_is_cleaned_too(box: Box) -> None:
    script = f"""
import sys
import rltui.cli
from rltui.cli.command import command
def crash(arguments): raise ValueError({EVIL!r})
command("status")(crash)
sys.exit(rltui.cli.main(["status"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=box.env, capture_output=True, text=True, check=False
    )
    assert "ValueError: ␛]0;owned␇" in done.stderr
    assert dangers(done.stderr) == set()


@pytest.mark.slow
def test_following_ends_with_its_reader_though_nothing_is_printed(stopped: Box) -> None:
    argv = [sys.executable, "-m", "rltui", "logs", "-c", "trainer", "-f", "--limit", "1"]
    process = subprocess.Popen(argv, env=stopped.env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "größe ●\n".encode()
    process.stdout.close()
    assert process.wait(timeout=20) == 0


@pytest.mark.slow
def test_a_big_log_comes_at_once_and_in_little_memory(stopped: Box) -> None:
    log = stopped.work / "größe/out/.rltui/components/trainer/attempt-1/output.log"
    with log.open("wb") as file:
        for _ in range(250):
            file.write(b"one line of a log that is not short\n" * 30_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "rltui", "logs", "-c", "trainer", "--full"],
        env=stopped.env,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    read = Path(f"/proc/{process.pid}/io").read_text()
    for _ in range(200_000):
        process.stdout.readline()
    status = Path(f"/proc/{process.pid}/status").read_text()
    process.kill()
    process.wait()
    process.stdout.close()
    assert first == b"one line of a log that is not short\n"
    assert int(re.findall(r"rchar: (\d+)", read)[0]) < 60_000_000, "of 270 MB, and Python's own modules"
    assert int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) < 100_000
