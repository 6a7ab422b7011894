from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from tests.waiting import retry_until

from rltui.errors import RltuiError
from rltui.services.alert_command import MOST_OUTPUT_BYTES, run_command

TELL = (
    "import json, os, sys; told = {'stdin': sys.stdin.read(), 'env': dict(os.environ), 'args': sys.argv[2:],"
    "'group': os.getpgrp() == os.getpid()}; open(sys.argv[1], 'w').write(json.dumps(told))"
)


async def test_the_command_gets_document_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/private,1,0")
    monkeypatch.setenv("TOKEN", "kept")
    command = [sys.executable, "-c", TELL, str(tmp_path / "told"), "$HOME", "a b"]
    await run_command(command, b'{"title": "x"}\n', {"RLTUI_ALERT_TITLE": "it's; $down"})
    told = json.loads((tmp_path / "told").read_text())
    assert told["stdin"] == '{"title": "x"}\n'
    assert told["args"] == ["$HOME", "a b"]
    assert told["group"], "a process group of its own"
    assert told["env"]["RLTUI_ALERT_TITLE"] == "it's; $down"
    assert (told["env"]["TOKEN"], told["env"].get("TMUX")) == ("kept", None)


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (["/no/such/notifier"], "cannot run /no/such/notifier: No such file or directory"),
        (["sh", "-c", "echo starts >&2; echo 'curl: no route' >&2; exit 7"], "sh exited 7: curl: no route"),
        (["sh", "-c", "kill -9 $$"], "sh was killed by SIGKILL"),
        (["sh", "-c", "yes 'too much' | head -n 30000 >&2; exit 1"], "sh exited 1: too much"),
    ],
)
async def test_a_failure_says_why(command: list[str], fault: str) -> None:
    with pytest.raises(RltuiError) as caught:
        await run_command(command, b"", {})
    assert caught.value.title == fault
    assert len(caught.value.title) < MOST_OUTPUT_BYTES


async def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    script = f"(sleep 0.7; touch {tmp_path}/late) & touch {tmp_path}/began; sleep 60"
    with pytest.raises(RltuiError, match=r"took longer than 0\.3 s"):
        await run_command(["sh", "-c", script], b"", {}, timeout_s=0.3)
    assert (tmp_path / "began").exists()
    with pytest.raises(TimeoutError):
        retry_until((tmp_path / "late").exists, timeout_s=0.8)


async def test_what_it_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    await run_command(["sh", "-c", f"(sleep 3; touch {tmp_path}/late) &"], b"x" * 200_000, {}, timeout_s=2.5)
    assert time.monotonic() - began < 2.0
