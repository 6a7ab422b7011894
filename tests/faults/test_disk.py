"""Full disk, read-only state folder, deleted run folder, logs truncated and replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.conftest import Box
from tests.faults import events, invariants
from tests.faults.harness import Experiment, ended_afterwards
from tests.faults.truth import read_numbers
from tests.waiting import remove_at_once, retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


@pytest.fixture
def on_small_disk(box: Box, free_port: int) -> Iterator[Experiment]:
    """An experiment whose output folder is a disk of 4 MB."""
    with (
        events.small_disk(box.work / "disk", "4m") as disk,
        ended_afterwards(Experiment(box, free_port, disk / "out")) as made,
    ):
        yield made


@pytest.mark.slow
def test_full_disk_ends_nothing_and_hides_no_end(on_small_disk: Experiment) -> None:
    experiment = on_small_disk
    before = experiment.up()
    with events.full(experiment.output_dir.parent):
        invariants.assert_shown_is_true(experiment)
        os.kill(before["trainer"].pid, signal.SIGUSR1)
        invariants.assert_ended(experiment, "trainer", code=1)
        plan = experiment.request("stop", "orchestrator")
        assert experiment.truth.living("orchestrator") == []
        invariants.assert_nobody_else_died(before, {"trainer", *plan["stop"]})
    experiment.request("start", "trainer", "orchestrator")
    assert {item["state"] for item in experiment.shown().values()} == {"ready"}
    invariants.assert_all(experiment, before, may_end={"trainer", "orchestrator"})


@pytest.mark.faults
def test_start_on_a_full_disk_fails_in_words(on_small_disk: Experiment) -> None:
    experiment = on_small_disk
    before = experiment.up()
    experiment.request("stop", "trainer")
    with events.full(experiment.output_dir.parent):
        experiment.request("start", "trainer")
        shown = experiment.shown()["trainer"]
        assert shown["state"] == "failed"
        assert "No space left" in shown["reason"]
        assert experiment.truth.living("trainer") == []
        invariants.assert_nobody_else_died(before, {"trainer"})
    experiment.request("start", "trainer")
    assert experiment.shown()["trainer"]["state"] == "ready"
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.faults
def test_journal_of_a_full_disk_has_whole_lines(on_small_disk: Experiment) -> None:
    experiment = on_small_disk
    experiment.up()
    for _ in range(6):
        with events.full(experiment.output_dir.parent):
            # Room for a part of an entry: what is written there must not stay as half a line.
            with (experiment.output_dir.parent / "filler").open("r+b") as file:
                file.truncate(os.fstat(file.fileno()).st_size - 4096)
            experiment.request("stop", "trainer", kill=True)
        experiment.request("start", "trainer")
    invariants.assert_all(experiment, {})


@pytest.mark.faults
def test_read_only_state_folder_ends_nothing_and_hides_no_end(experiment: Experiment) -> None:
    before = experiment.up()
    with events.read_only(experiment.control):
        experiment.unrecorded |= {("trainer", 1), ("orchestrator", 1)}
        invariants.assert_shown_is_true(experiment)
        os.kill(before["trainer"].pid, signal.SIGUSR1)
        retry_until(lambda: experiment.truth.main("trainer") is None)
        invariants.assert_shown_is_true(experiment)
        experiment.request("start", "trainer")
        assert experiment.shown()["trainer"]["state"] == "failed"
        plan = experiment.request("stop", "orchestrator")
        assert experiment.truth.living("orchestrator") == []
        invariants.assert_nobody_else_died(before, {"trainer", *plan["stop"]})
    experiment.request("start", "trainer", "orchestrator")
    assert {item["state"] for item in experiment.shown().values()} == {"ready"}
    invariants.assert_all(experiment, before, may_end={"trainer", "orchestrator"})


@pytest.mark.slow
def test_deleted_run_folder_ends_nothing_and_a_stop_still_ends_all(experiment: Experiment) -> None:
    before = experiment.up()
    remove_at_once(experiment.output_dir)
    retry_until((experiment.output_dir / ".rltui/experiment.toml").exists)
    invariants.assert_nobody_else_died(before, ())
    invariants.assert_shown_is_true(experiment)
    events.kill_main(experiment, "trainer")
    invariants.assert_shown_is_true(experiment)
    invariants.assert_nobody_else_died(before, {"trainer"})
    experiment.ask("shutdown")
    invariants.assert_nothing_left(experiment)


@pytest.mark.faults
def test_truncated_log_loses_only_what_was_cut_off(experiment: Experiment) -> None:
    before = experiment.up()
    retry_until(lambda: experiment.truth.printed("trainer", 1) > 20)
    cut = experiment.truth.printed("trainer", 1)
    events.truncate_log(experiment, "trainer")
    retry_until(lambda: experiment.truth.printed("trainer", 1) > cut + 20)
    numbers = read_numbers(experiment.log("trainer").read_bytes())
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[0] <= cut + 3
    invariants.assert_all(experiment, before, logs=False)


@pytest.mark.faults
def test_replaced_log_goes_on_where_the_component_writes(experiment: Experiment) -> None:
    before = experiment.up()
    aside = events.replace_log(experiment, "trainer")
    experiment.request("stop", "trainer")
    numbers = read_numbers(aside.read_bytes())
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > experiment.truth.printed("trainer", 1)
    invariants.assert_all(experiment, before, may_end={"trainer"}, logs=False)
    experiment.request("start", "trainer")
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.faults
def test_log_truncated_before_it_is_ready_still_becomes_ready(experiment: Experiment) -> None:
    """The readiness pattern is looked for from where the file was cut."""
    experiment.behave("trainer", "hang")
    experiment.up(settle=False)
    experiment.wait_for_main("trainer")
    retry_until(lambda: experiment.truth.printed("trainer", 1) > 20)
    events.truncate_log(experiment, "trainer")
    with experiment.log("trainer").open("a") as log:
        log.write("ready\n")
    retry_until(lambda: experiment.shown()["trainer"]["state"] == "ready", timeout_s=4)
    invariants.assert_records_parse(experiment)
