from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.fakes.past_run import write_attempt

from rltui.core.runs.checkpoints import BEING_WRITTEN, HIGHEST, NEWEST, PrunePlan, Retention, prune_plan
from rltui.errors import ConflictError, RltuiError
from rltui.frameworks import registry
from rltui.frameworks.prime_rl.generation import CURRENT, MERGED, SPLIT
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.experiment.files import ControlFolder
from rltui.services.metrics.store import SeriesWriter
from rltui.services.runs.checkpoints import CheckpointContext, CheckpointReader, delete, take_away
from rltui.services.runs.folder import RunFolder

TRAINER, ORCHESTRATOR = "trainer/.metadata", "orchestrator/progress.pt"
MAIN, OTHER = "checkpoints/step_{}", "run_default/checkpoints/step_{}"


def write(run: Path, *places: str, step: int = 10, content: str = "x" * 5000) -> None:
    for place in places:
        path = run / place.format(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def reader(found: RunFolder) -> CheckpointReader:
    return CheckpointReader(found, ControlFolder(found.path), {"orchestrator", "trainer"})


WHOLE = {
    "tinyrl": (TINYRL.run.locations, [f"{MAIN}/trainer/a", f"{MAIN}/orchestrator/b", f"{MAIN}/STABLE"]),
    "split": (SPLIT.rl_files, [f"{MAIN}/{TRAINER}", f"{MAIN}/{ORCHESTRATOR}"]),
    "split-sft": (SPLIT.sft_files, [f"{MAIN}/{TRAINER}"]),
    "merged": (MERGED.rl_files, [f"{MAIN}/{TRAINER}", f"{OTHER}/{ORCHESTRATOR}", f"{MAIN}/STABLE"]),
    "merged-sft": (MERGED.sft_files, [f"{MAIN}/{TRAINER}", f"{MAIN}/STABLE"]),
    "current": (CURRENT.rl_files, [f"{MAIN}/{TRAINER}", f"{MAIN}/{ORCHESTRATOR}"]),
    "current-sft": (CURRENT.sft_files, [f"{MAIN}/{TRAINER}"]),
}


@pytest.mark.parametrize("generation", WHOLE)
def test_it_is_complete_once_all_its_parts_are_there(tmp_path: Path, generation: str) -> None:
    files, places = WHOLE[generation]
    found = RunFolder(tmp_path, files)
    for count, place in enumerate(places):
        if count:
            (half,) = reader(found).report("x", CheckpointContext()).checkpoints
            assert not half.complete
            assert half.missing
            assert found.checkpoints() == []
        write(tmp_path, place)
    (whole,) = reader(found).report("x", CheckpointContext()).checkpoints
    assert whole.complete
    assert whole.missing == ()
    assert {place.split("/")[-2] for place in places[:-1]} <= {*whole.parts, "step_{}"}
    assert found.checkpoints() == [10]
    assert whole.size_bytes == len(places) * 8192


def test_what_is_missing_is_named_as_far_as_it_is_there(tmp_path: Path) -> None:
    write(tmp_path, f"{MAIN}/trainer/shard.distcp")
    found = RunFolder(tmp_path, CURRENT.rl_files)
    (half,) = reader(found).report("x", CheckpointContext(is_alive=True)).checkpoints
    assert half.parts == ("trainer",)
    assert half.missing == ("trainer/.metadata", "orchestrator")
    assert half.notes == (BEING_WRITTEN,)


def test_rewards_evaluations_and_what_speaks_for_it(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        write(tmp_path, f"{MAIN}/{TRAINER}", f"{MAIN}/{ORCHESTRATOR}", step=step)
    writer = SeriesWriter(ControlFolder(tmp_path).series)
    evals = {5: 0.2, 15: 0.4, 35: 0.1}
    for step in range(1, 41):
        row = {"train/agg/effective/agent/reward/mean": 0.1 if step > 20 else 0.05 * step}
        row |= {"eval/math/effective/agent/avg@4": evals[step]} if step in evals else {}
        writer.add("orch", row, at=100.0 + step, step=step, origin="file", cursor=step)
    assert writer.flush()
    news = CheckpointContext(step=40, max_steps=60, notes={10: "mine"})
    report = reader(RunFolder(tmp_path, CURRENT.rl_files)).report("x", news)
    first, second, third = report.checkpoints
    assert (first.notes, second.notes, third.notes) == (("mine",), (HIGHEST,), (NEWEST,))
    assert (first.evals, second.evals, third.evals) == ({"math": 0.2}, {"math": 0.4}, {})
    assert second.reward is not None
    assert second.reward_after is not None
    assert second.reward > 0.8 > 0.2 > second.reward_after
    assert (report.step, report.to_come) == (40, 3)
    assert report.fits is not None
    assert report.free_bytes is not None
    assert report.fits == report.free_bytes // (third.size_bytes or 1)


def test_the_attempt_that_wrote_it(tmp_path: Path) -> None:
    control = ControlFolder(tmp_path)
    now = time.time()
    write_attempt(control.attempt_dir("trainer", 1), started_at=now - 900, ended_at=now - 600)
    write_attempt(control.attempt_dir("trainer", 2), started_at=now - 500)
    for step, age in ((10, 2000), (20, 700), (30, 550), (40, 100)):
        write(tmp_path, f"{MAIN}/{TRAINER}", step=step)
        os.utime(tmp_path / MAIN.format(step) / TRAINER, (now - age, now - age))
    report = reader(RunFolder(tmp_path, CURRENT.sft_files)).report("x", CheckpointContext())
    assert [each.attempt for each in report.checkpoints] == [None, 1, None, 2]


def pruned(found: RunFolder, retention: Retention) -> PrunePlan:
    plan = prune_plan(reader(found).report("x", CheckpointContext()), retention)
    delete(take_away(found, plan))
    return plan


def test_pruning_takes_all_parts_and_nothing_else(tmp_path: Path) -> None:
    files, places = WHOLE["merged"]
    for step in (10, 20, 30):
        write(tmp_path, *places, step=step)
    write(tmp_path, "checkpoints/best_step_10/trainer/a", "weights/step_10/model.safetensors")
    found = RunFolder(tmp_path, files)
    plan = pruned(found, Retention(keep_last=1))
    assert [each.step for each in plan.delete] == [10, 20]
    assert found.checkpoints() == [30]
    left = {
        path.name
        for name in ("checkpoints", "run_default/checkpoints")
        for path in (tmp_path / name).iterdir()
    }
    assert left == {"step_30", "best_step_10"}
    assert (tmp_path / "weights/step_10/model.safetensors").exists()


def test_what_an_earlier_deletion_was_killed_at_goes_with_the_next(tmp_path: Path) -> None:
    files, places = WHOLE["current"]
    for step in (10, 20):
        write(tmp_path, *places, step=step)
    found = RunFolder(tmp_path, files)
    plan = prune_plan(reader(found).report("x", CheckpointContext()), Retention(keep_last=1))
    assert len(take_away(found, plan)) == 1
    assert found.checkpoints() == [20], "nobody takes what is being deleted for a checkpoint"
    pruned(found, Retention(keep_last=1))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_20"]


def test_what_cannot_be_deleted_is_told_and_the_rest_goes(tmp_path: Path) -> None:
    going = [tmp_path / "a", tmp_path / "b"]
    going[1].mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(RltuiError, match="some files could not be deleted"):
        delete([tmp_path / "file" / "below", *going])
    assert not going[1].exists()


def test_what_lies_in_the_way_is_never_moved_for_what_comes_back(tmp_path: Path) -> None:
    files, places = WHOLE["current"]
    for step in (10, 20):
        write(tmp_path, *places, step=step)
    found = RunFolder(tmp_path, files)
    aside = found.move_stale_aside(10)
    assert aside is not None
    (aside / "mine").write_text("of the restart")
    (tmp_path / "mine").write_text("of a person")
    write(tmp_path, *places, step=30)
    with pytest.raises(ConflictError, match="mine cannot be restored"):
        found.bring_back(aside.name, 10)
    assert found.checkpoints() == [10, 30]
    (tmp_path / "mine").unlink()
    since = found.bring_back(aside.name, 10)
    assert found.checkpoints() == [10, 20]
    assert since is not None
    assert found.archives() == {since.name: [30]}
    assert (tmp_path / "mine").read_text() == "of the restart"


def test_set_aside_checkpoints_are_told_and_go_on_request(tmp_path: Path) -> None:
    files, places = WHOLE["current"]
    for step in (10, 20, 30):
        write(tmp_path, *places, step=step)
    found = RunFolder(tmp_path, files)
    (told,) = found.archived(10)
    assert (told.folder, told.steps) == ("checkpoints", (20, 30))
    found.move_stale_aside(10)
    report = reader(found).report("x", CheckpointContext())
    assert report.archived_steps == (20, 30)
    assert report.archive_bytes > 0
    plan = pruned(found, Retention(archive=True))
    assert plan.frees_bytes == report.archive_bytes
    assert reader(found).report("x", CheckpointContext()).archive_bytes == 0
    assert found.checkpoints() == [10]


def test_a_run_without_any_is_no_error(tmp_path: Path) -> None:
    found = RunFolder(tmp_path / "none", registry.get("tinyrl").run.locations)
    report = reader(found).report("x", CheckpointContext())
    assert report.checkpoints == ()
    assert report.problem
