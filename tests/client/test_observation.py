"""From a folder to an observation: named, found again, refused. Nothing is started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.rollouts import flat_row, write_flat_run, write_lines

from rltui.client.observation import ObservationRequest, add, observe
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.registry import find_experiment, known_experiments
from rltui.services.runs.index import RunIndex

pytestmark = pytest.mark.usefixtures("own_user")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs" / "reverse-text--qwen3-0.6b"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "trainer.stdout").touch()
    return folder


def test_it_is_kept_in_the_users_state_folder(run: Path, own_user: Path) -> None:
    record = observe(ObservationRequest(run))
    assert record.name == "reverse-text--qwen3-0-6b"
    assert (record.framework, record.run_dir, record.observed) == ("prime-rl-split", str(run), True)
    assert record.output_dir == str(own_user / "state" / "rltui" / "observed" / record.name)
    assert find_experiment(record.name) == record
    assert sorted(path.name for path in run.iterdir()) == ["logs"]


def test_looking_again_is_the_same(run: Path) -> None:
    assert observe(ObservationRequest(run)) == observe(ObservationRequest(run.parent))
    assert len(known_experiments()) == 1


def test_a_second_name_is_a_second_observation(run: Path) -> None:
    observe(ObservationRequest(run))
    assert observe(ObservationRequest(run, name="mine")).name == "mine"
    assert observe(ObservationRequest(run, name="mine")) == find_experiment("mine")
    assert len(known_experiments()) == 2


def test_names_of_folders_that_are_called_alike(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "others" / run.name
    (other / "logs").mkdir(parents=True)
    (other / "logs" / "latest").mkdir()
    names = [observe(ObservationRequest(folder)).name for folder in (run, other)]
    assert names == ["reverse-text--qwen3-0-6b", "reverse-text--qwen3-0-6b-2"]
    with pytest.raises(ConflictError, match="the name reverse-text--qwen3-0-6b is taken"):
        observe(ObservationRequest(other, name=names[0]))


def test_another_framework_makes_it_anew(run: Path) -> None:
    observe(ObservationRequest(run))
    again = observe(ObservationRequest(run, framework="prime-rl-merged"))
    assert (again.name, again.framework) == ("reverse-text--qwen3-0-6b", "prime-rl-merged")
    assert [record.framework for record in known_experiments()] == ["prime-rl-merged"]


def test_own_experiments_are_opened_instead(run: Path) -> None:
    own = ExperimentRecord("own", str(run.parent), "/w", (), "/l.toml", "generic", 1.0, run_dir=str(run))
    ControlFolder(run.parent).write_record(own)
    for folder in (run, run.parent):
        with pytest.raises(ConflictError) as caught:
            observe(ObservationRequest(folder))
        assert caught.value.hint == "open it: rltui own"


def test_layouts_that_start_something_are_refused(run: Path) -> None:
    with pytest.raises(UsageError, match="starts components"):
        observe(ObservationRequest(run, layout="tinyrl"))
    with pytest.raises(ConfigError, match="unknown framework: prime-lr"):
        observe(ObservationRequest(run, framework="prime-lr"))


def test_runs_of_others_are_added_once(own_user: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write_flat_run(theirs / "spring")
    (theirs / "spring" / "run_default").mkdir()
    (theirs / "today" / "logs" / "attempt_1").mkdir(parents=True)
    resolved = theirs / "today" / "configs" / "latest" / "resolved"
    resolved.mkdir(parents=True)
    (resolved / "trainer.json").write_text('{"max_steps": 20, "optim": {"lr": 3e-6}}')
    rows_file = Path(__file__).parents[1] / "data" / "metrics" / "autumn-2026.jsonl"
    shutil.copy(rows_file, theirs / "today" / "metrics.jsonl")
    results = theirs / "evals" / "reverse-text--tiny" / "1a2b3c4d"
    write_lines(results / "results.jsonl", [flat_row(0, number, number / 4) for number in range(4)])
    before = {path: path.stat().st_mtime_ns for path in theirs.rglob("*")}
    added = add(theirs)
    rows = {row.name: row for row in added.new}
    assert rows.keys() == {"spring", "today", "reverse-text--tiny-1a2b3c4d"}
    today, result = rows["today"], rows["reverse-text--tiny-1a2b3c4d"]
    assert (today.framework, today.state, today.step, today.max_steps) == ("prime-rl", "stopped", 12, 20)
    assert today.metrics["reward"][0] == pytest.approx(0.61)
    assert RunIndex().configs([today.id])[today.id]["trainer.optim.lr"] == 3e-6
    assert (result.kind, result.state, result.metrics["eval"]) == ("evaluation", "done", (0.375, 0.375))
    assert rows["spring"].framework == "prime-rl-merged"
    again = add(theirs)
    assert (again.new, {row.id for row in again.known}) == ((), {row.id for row in added.new})
    assert {path: path.stat().st_mtime_ns for path in theirs.rglob("*")} == before
    with pytest.raises(UsageError, match="holds no known run"):
        add(own_user / "run")
