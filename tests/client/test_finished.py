from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run

from rltui.client import launch
from rltui.client.experiment import Event, Experiment
from rltui.client.local_runs import LocalRuns
from rltui.core.config.report import KnobTable
from rltui.core.experiment.api import Request, Status
from rltui.core.gpu.report import GpuReport
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import forget


async def first(experiment: Experiment) -> tuple[Status, GpuReport, KnobTable]:
    """What is told at once."""
    received: list[Event] = []
    events: AsyncIterator[Event] = experiment.events()
    async with aclosing(events):  # type: ignore[type-var]
        async for event in events:
            received.append(event)
            if len(received) == 3:
                break
    status, gpus, table = received
    assert isinstance(status, Status)
    assert isinstance(gpus, GpuReport)
    assert isinstance(table, KnobTable)
    return status, gpus, table


def edit(record: ExperimentRecord) -> None:
    config = Path(record.config_files[0])
    config.write_text(config.read_text().replace("max_steps = 200", "max_steps = 50"))


def remove(record: ExperimentRecord) -> None:
    Path(record.config_files[0]).unlink()


async def test_a_finished_run_is_read_from_its_files(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a", steps=30)
    runs = LocalRuns()
    runs.catch_up()
    (row,) = runs.rows()
    run = runs.open(row.id)
    assert run.finished
    assert (run.run_id, run.name, run.readonly, run.finished) == (row.id, "a", True, True)

    status, gpus, table = await first(run)
    assert (status.state, status.step, status.alive) == ("done", 30, False)
    assert not gpus.available
    assert table.knobs
    assert not any(knob.changed for knob in table.knobs)
    assert {log.component for log in run.logs()} == {"inference", "orchestrator", "trainer"}
    series = run.open_series()
    series.poll()
    assert series.keys()
    assert (await run.checkpoints()).experiment == "a"
    assert (await run.evals()).evaluations == ()
    assert (await run.note("worth another look")).text == "worth another look"
    assert [entry.text for entry in await run.journal()] == ["worth another look"]

    edit(record)
    _, _, table = await first(run)
    (steps,) = [knob for knob in table.knobs if knob.key == "max_steps"]
    assert (steps.changed, steps.running, steps.value) == (True, 200, 50)

    remove(record)
    _, _, table = await first(run)
    (steps,) = [knob for knob in table.knobs if knob.key == "max_steps"]
    assert steps.value == 200, "as it last ran"

    with pytest.raises(UsageError, match="a is not running") as refused:
        await run.execute(Request(action="start"))
    assert "rltui a" in str(refused.value.hint)
    assert not launch.has_supervisor(record), "to look at it starts nothing"


async def test_who_may_only_look_leaves_no_note(own_user: Path, tmp_path: Path) -> None:
    write_finished_run(tmp_path / "out" / "a")
    runs = LocalRuns(readonly=True)
    runs.catch_up()
    run = runs.open(runs.rows()[0].id, again=True)
    assert run.finished, "no supervisor is started for it"
    with pytest.raises(RltuiError, match="read-only"):
        await run.note("no")
    run.save_pins(["reward"])
    assert run.pins() == ()


def test_a_run_whose_name_is_taken_is_not_started_again(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a")
    runs = LocalRuns()
    runs.catch_up()
    forget(record)
    write_finished_run(tmp_path / "elsewhere" / "a")
    runs.catch_up()
    rows = {Path(row.folder).parent.name: row for row in runs.rows()}
    with pytest.raises(ConflictError, match="is taken by the experiment in"):
        runs.open(rows["out"].id, again=True)


def test_a_run_whose_folder_is_gone_is_told(own_user: Path, tmp_path: Path) -> None:
    write_finished_run(tmp_path / "out" / "a")
    runs = LocalRuns()
    runs.catch_up()
    shutil.rmtree(tmp_path / "out" / "a")
    runs.catch_up()
    (row,) = runs.rows()
    assert (row.state, row.reason.code) == ("lost", "folder_gone")
    with pytest.raises(RltuiError, match="cannot be opened"):
        runs.open(row.id)
