"""`status --watch`: what is drawn, and what is told in sentences."""

from __future__ import annotations

import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.experiment import NOW, running_status, with_state
from tests.fakes.past_run import write_finished_run
from tests.ui.trouble import backoff_status, orphans_status, stalled_status, waiting_status

from rltui.cli import main
from rltui.cli.commands.status import Sentences
from rltui.cli.status_text import document
from rltui.cli.terminal import InPlace
from rltui.core.experiment.api import Status
from rltui.core.experiment.states import ComponentState


def told(sentences: Sentences, status: Status, now: float) -> list[str]:
    return [line.partition(" ")[2] for line in sentences.about(status.to_plain(), now)]


def test_a_sentence_for_each_change() -> None:
    sentences = Sentences()
    first = told(sentences, waiting_status(), NOW)
    assert "orchestrator is waiting: waiting for inference." in first
    assert told(sentences, waiting_status(), NOW + 1) == []
    then = told(sentences, running_status(), NOW + 12)
    assert "orchestrator is running after 12s." in then
    assert told(sentences, running_status(), NOW + 13) == []
    assert any(line.startswith("warning: ") for line in told(sentences, stalled_status(), NOW + 14))
    again = told(sentences, backoff_status(), NOW + 20)
    assert any("trainer has failed and restarts" in line for line in again)
    assert "warning: 2 leftover processes, see rltui gpus orphans reverse-text." in told(
        sentences, orphans_status(), NOW + 21
    )


def test_a_trouble_that_comes_back_is_told_again() -> None:
    sentences = Sentences()
    stalled = [line for line in told(sentences, stalled_status(), NOW) if "stalled" in line]
    assert stalled
    assert not [line for line in told(sentences, running_status(), NOW + 1) if "stalled" in line]
    assert [line for line in told(sentences, stalled_status(), NOW + 2) if "stalled" in line] == stalled


def test_steps_are_not_told_all_the_time() -> None:
    sentences = Sentences()
    status = running_status()

    def at(step: int, later_s: float) -> list[str]:
        moved = status.replace(step=step)
        return [line for line in told(sentences, moved, NOW + later_s) if line.startswith("step ")]

    assert at(3, 0)[0].startswith("step 3")
    assert at(4, 5) == []
    assert at(9, 61)[0].startswith("step 9")
    status = status.replace(alive=False)
    assert at(20, 62)[0].startswith("step 20"), "the last one is"
    assert at(20, 63) == at(20, 200) == []


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the watch sees, one after the other; then ctrl+c."""
    queue: list[dict[str, Any]] = []

    def look(_: object) -> dict[str, Any]:
        if not queue:
            raise KeyboardInterrupt
        return queue.pop(0)

    monkeypatch.setattr("rltui.cli.commands.status.rows_of", lambda records: [*map(look, records)])
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return queue


def test_the_watch_in_its_shapes(
    own_user: Path, tmp_path: Path, statuses: list[dict[str, Any]], capfd: pytest.CaptureFixture[str]
) -> None:
    write_finished_run(tmp_path / "out" / "one")
    seen = [each.to_plain() for each in (waiting_status(), running_status())]
    statuses += seen
    assert main(["status", "-w", "--json"]) == 130
    documents = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert documents == [{"runs": [document(status)]} for status in seen]
    statuses += seen
    assert main(["status", "-w", "one"]) == 130, "without a terminal, in sentences"
    assert re.search(r"\d\d:\d\d:\d\d orchestrator is running", capfd.readouterr().out)
    statuses += seen[:1]
    assert main(["status", "--plain"]) == 0
    assert "orchestrator is waiting" in capfd.readouterr().out
    assert main(["status", "-w", "one", "two"]) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def test_only_changed_lines_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    size = [os.terminal_size((80, 24))]
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: size[0])
    terminal = Terminal()
    area = InPlace(terminal)

    def drawn(*lines: str) -> str:
        begin = len(terminal.getvalue())
        area.draw(lines)
        return terminal.getvalue()[begin:]

    assert drawn("one", "two", "three") == "\r\x1b[J\rone\x1b[K\n\rtwo\x1b[K\n\rthree\x1b[K\n"
    assert drawn("one", "2", "three") == "\x1b[3A\n\r2\x1b[K\n\n"
    assert drawn("one") == "\x1b[3A\n\x1b[J"
    assert "\x1b[2J" not in drawn("\x1b[2J")
    size[0] = os.terminal_size((40, 4))
    assert drawn(*"abcdef") == "\x1b[H\x1b[J\ra\x1b[K\n\rb\x1b[K\n\r… 4 more lines\x1b[K\n"


def test_a_document_has_one_word_for_the_state_and_few_points() -> None:
    running = running_status()
    told = document(running.to_plain())
    assert (told["state"], told["alive"], told["reason"]["code"]) == ("running", True, "jobs_run")
    told = document(with_state(component_failed(running)).to_plain())
    assert (told["state"], told["alive"]) == ("failed", True)
    assert told["reason"]["components"] == ["trainer"]

    curve = tuple((step, step / 400) for step in range(1, 401))
    rewards = tuple(reward for _, reward in curve)[-200:]
    progress = running.progress.replace(curve=curve, rewards=rewards)
    long = document(running.replace(progress=progress).to_plain())["progress"]
    assert [len(long["curve"]), len(long["rewards"])] == [20, 20]
    assert [long["curve"][0], long["curve"][-1], long["rewards"][-1]] == [[1, 0.0025], [400, 1.0], 1.0]
    assert long["left_out"] == {"rewards": 180, "curve": 380, "all": "rltui metrics reward --json"}


def component_failed(status: Status) -> Status:
    """As `status`, its trainer failed."""
    parts = tuple(
        each.replace(state=ComponentState.FAILED) if each.id == "trainer" else each
        for each in status.components
    )
    return status.replace(components=parts)
