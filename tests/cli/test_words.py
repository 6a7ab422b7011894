"""What the commands print about trouble."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.experiment import NOW, running_status
from tests.ui.trouble import (
    GPU_REASON,
    REMEDIES,
    STALL_EVIDENCE,
    backoff_status,
    orphans_status,
    out_of_memory_status,
    stalled_status,
    waiting_status,
)

from rltui.cli.parser import is_file_name
from rltui.cli.status_text import as_text, remedy_command
from rltui.cli.waiting import wait_for_components
from rltui.client.transports.unix import Wire
from rltui.core.experiment.api import Down, HostStatus, Status
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.report import Remedy
from rltui.errors import ComponentFailedError, RltuiError
from rltui.services.experiment.files import ExperimentRecord
from rltui.views.component import host_texts


def lines(status: Status) -> list[str]:
    return as_text(status.to_plain(), NOW).splitlines()


def test_status_counts_down_to_the_next_start() -> None:
    assert lines(backoff_status())[-1] == (
        "  ↻ trainer       backoff                   1         restarts in 12s · exited 1; failure 1 of 3"
    )


def test_a_long_reason_has_a_line_of_its_own() -> None:
    text = lines(waiting_status())
    at = text.index(f"      {GPU_REASON}")
    assert text[at - 1] == "  ◌ inference     waiting"
    assert "  ◌ orchestrator  waiting                           waiting for inference" in text


@pytest.mark.usefixtures("own_user")
def test_status_says_what_ran_out_of_memory_and_what_to_type() -> None:
    assert lines(out_of_memory_status(*REMEDIES))[-4:] == [
        "  ✗ trainer       failed                    1",
        (
            "      out of memory on GPU 1: tried to allocate 2.0 GiB, 0.3 GiB of 79.2 GiB free; this"
            " process held 20.1 GiB; pid 4242 of the host held 58.6 GiB"
        ),
        "      → rltui set inference.gpu_memory_utilization=0.6 && rltui restart -c inference -c trainer",
        "      → rltui set trainer.model.seq_len=2048 --restart",
    ]
    assert lines(out_of_memory_status())[-1].startswith("      out of memory on GPU 1: ")


def test_the_command_of_a_remedy_is_one_for_a_shell() -> None:
    edits: dict[str, bool | int | float | str | None] = {"a b": None, "trainer.model.ac": True}
    assert remedy_command(Remedy(title="", reason="", edits=edits)) == (
        "rltui set --unset 'a b' trainer.model.ac=true --restart"
    )


def test_status_says_why_something_counts_as_stalled() -> None:
    text = lines(stalled_status())
    at = text.index(f"      ⚠ {STALL_EVIDENCE}")
    assert "⚠ stalled" in text[at - 1]
    assert sum("stalled" in line for line in lines(running_status())) == 0


def test_status_says_who_took_it_down_and_what_could_not_be_ended() -> None:
    down = Down(by="ada, pid 7 on pts/3", at=NOW, complete=True, left=("pid 9 dd is in D",))
    status = running_status().replace(state="stopped", alive=False, down=down)
    assert any(line.startswith("  shut down by ada, pid 7 on pts/3, ") for line in lines(status))
    assert "  ⚠ could not be ended: pid 9 dd is in D" in lines(status)


@pytest.mark.usefixtures("own_user")
def test_status_lists_leftovers_and_what_to_do() -> None:
    assert lines(orphans_status())[-3:] == [
        "  ⚠ leftover: pid 4711 VLLM::EngineCore · of inference attempt 1 · 4m12s · 58.0 GiB",
        "  ⚠ leftover: pid 4712 python -c worker · of inference attempt 1 · :8000",
        "    to end them: rltui gpus orphans --end",
    ]


class ScriptedWire:
    """Pushes statuses, then hangs up."""

    def __init__(self, *statuses: Status) -> None:
        self._statuses = statuses

    def interrupt(self) -> None:
        raise AssertionError("nothing limits the wait")

    def events(self, kind: str) -> Any:
        assert kind == "status"
        yield from (status.to_plain() for status in self._statuses)


def settle(*statuses: Status) -> dict[str, Any]:
    wire: Any = ScriptedWire(*statuses)
    assert {name for name in dir(ScriptedWire) if not name.startswith("_")} <= set(dir(Wire))
    return wait_for_components(wire, {"inference", "orchestrator", "trainer"}, timeout_s=None)


def test_waiting_goes_on_through_back_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert settle(backoff_status(), running_status())["components"][2]["state"] == "ready"
    assert "↻ trainer backoff: exited 1; failure 1 of 3, restarts in " in capsys.readouterr().err
    with pytest.raises(RltuiError, match="the supervisor ended meanwhile"):
        settle(backoff_status())


def test_waiting_ends_with_the_last_failure() -> None:
    with pytest.raises(ComponentFailedError, match="trainer failed"):
        settle(backoff_status(), waiting_status())


def test_figures_that_only_tick_are_not_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    def waiting(free: str) -> Status:
        status = running_status()
        reason = GPU_REASON.replace("12.1", free)
        held = status.components[0].replace(state=ComponentState.WAITING, reason=reason)
        return status.replace(components=(held, *status.components[1:]))

    settle(waiting("12.1"), waiting("12.2"), waiting("13.0"), running_status())
    assert capsys.readouterr().err.count("waiting for GPU 0") == 1


def queued_status() -> Status:
    """The trainer is a job that waits for nodes."""
    host = HostStatus(
        where="job 12", phase="pending", reason="waiting for free nodes (Resources)", since=NOW - 180.0
    )
    trainer = (
        running_status()
        .components[2]
        .replace(state=ComponentState.STARTING, pid=None, host=host, started_at=NOW - 180.0)
    )
    return running_status().replace(components=(*running_status().components[:2], trainer))


def test_what_waits_in_a_queue_elsewhere_is_told_and_not_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = next(line for line in lines(queued_status()) if "trainer" in line)
    assert "◌ trainer" in row
    assert " pending " in row
    assert "job 12 · waiting for free nodes (Resources)" in row
    settle(queued_status())
    assert "◌ trainer pending: job 12 · waiting for free nodes (Resources)" in capsys.readouterr().err


def test_a_host_that_does_not_answer_is_told_first() -> None:
    host = HostStatus(
        where="job 12 on n1",
        phase="running",
        since=NOW - 60.0,
        starts=2,
        ends_at=NOW + 720.0,
        lost_at=NOW - 90.0,
        problem="Connection refused",
    )
    assert host_texts(host.to_plain(), NOW) == [
        "⚠ no answer for 1m30s: Connection refused",
        "job 12 on n1",
        "start 2",
        "ends in 12m",
    ]


def test_a_folder_does_not_hide_the_experiment_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_user: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "two/rl.toml").touch()
    assert is_file_name("one")
    assert is_file_name("two")
    for name in ("one", "two"):
        folder = str(tmp_path / "out" / name)
        record = ExperimentRecord(name, folder, str(tmp_path), (), "/l.toml", "generic", 1.0)
        record.control.write_record(record)
    assert not is_file_name("one")
    assert not is_file_name("two")
    assert is_file_name("./one")
    assert is_file_name("two/rl.toml")
