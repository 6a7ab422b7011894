"""What a sweep is, by its words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rltui.cli import main
from rltui.cli.commands.sweep import combinations, parse_axis, sweep
from rltui.cli.parser import parse
from rltui.client.queue import commands
from rltui.client.queue.commands import QueueRequest
from rltui.client.waiting import EndReason, wait_for_entries
from rltui.core.experiment.request import ConfigLine, ExperimentRequest, Override
from rltui.core.runs.queue import LaunchEnvironment, QueueEntry, RunQueue
from rltui.errors import ConfigError, UsageError
from rltui.services.runs.queue_file import change_queue, read_queue


def points(*words: str, some: int | None = None) -> list[str]:
    found = combinations([parse_axis(word) for word in words], some)
    return [" ".join(f"{key}={value}" for key, value in point) for point in found]


def test_grids_and_choices() -> None:
    assert points("lr=1e-6,3e-6", "seed=0..1") == [
        "lr=1e-6 seed=0", "lr=1e-6 seed=1", "lr=3e-6 seed=0", "lr=3e-6 seed=1",
    ]  # fmt: skip
    assert points("names=['a,b',c],[d]", "t=x") == ["names=['a,b',c] t=x", "names=[d] t=x"]
    some = points("seed=0..99", some=7)
    assert len(set(some)) == 7
    drawn = [float(each.partition("=")[2]) for each in points("lr=1e-6..1e-3", some=40)]
    assert all(1e-6 <= value <= 1e-3 for value in drawn)
    assert sum(value < 1e-4 for value in drawn) > 10


@pytest.mark.parametrize("word", ["lr=1e-6..1e-3", "lr=", "3=1", "lr=1,,2", "seed=3..1", "seed=0..99999"])
def test_what_is_no_sweep_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        points(word)


def test_words_of_the_queue_and_of_up_are_told_apart() -> None:
    found = parse(
        ["sweep", "-n", "big", "rl.toml", "--max-parallel", "2", "lr=1,2", "--stop-if=reward < 0.1 at 3",
         "--set", "seed=1",
         "--", "--model.name", "x"]
    )  # fmt: skip
    assert found.words == ["-n", "big", "rl.toml", "--set", "seed=1"]
    assert found.axes == ["lr=1,2"]
    assert found.overrides == ["--model.name", "x"]
    assert (found.max_parallel, found.stop_if, found.retries) == (2, ["reward < 0.1 at 3"], 0)
    assert parse(["queue", "add", "rl.toml", "--gpus", "2", "--new"]).words == ["rl.toml", "--new"]
    job = parse(
        ["sweep", "rl.toml", "lr=1,2", "--slurm", "--gpus", "4", "--time", "9", "--max-parallel", "2"]
    )
    assert job.words == ["rl.toml", "--slurm", "--gpus", "4", "--time", "9"]
    assert (job.gpus, job.max_parallel, job.axes) == (None, 2, ["lr=1,2"])


LAYOUT = 'framework = "generic"\n[[component]]\nid = "a"\ncommand = ["true", "{config.run}"]\n'


def test_an_entry_of_an_older_version_is_queued_again_from_any_folder(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knew the words that were typed, and the folder and variables for which they were."""
    monkeypatch.setattr(commands, "ensure_scheduler", lambda: None)
    (tmp_path / "job.toml").write_text(LAYOUT)
    (tmp_path / "run.toml").write_text("seed = 0\nlr = 1.0\n")
    monkeypatch.chdir("/")
    around = LaunchEnvironment(cwd=str(tmp_path))
    old = QueueEntry(
        id="a", name="a", folder=str(tmp_path / "out"), words=("run.toml", "-l", "job.toml"),
        overrides=("--lr", "2.0"), surroundings="s", added_at=1.0,
    )  # fmt: skip
    change_queue(lambda queue: queue.replace(surroundings={"s": around}).with_entries([old]))
    assert main(["queue", "retry", "a", "--set", "seed=5"]) == 0
    (entry,) = read_queue().entries
    assert entry.request is not None
    assert entry.request.config.files == (tmp_path / "run.toml",)
    assert entry.request.config.overrides == (Override("lr", ("2.0",)), Override("seed", ("5",)))
    assert (entry.request.layout, entry.request.workspace) == (str(tmp_path / "job.toml"), tmp_path)
    assert (entry.words, entry.overrides) == (old.words, ("--lr", "2.0", "--seed=5"))
    assert main(["queue", "retry", "a", "--set", "nosuch=5"]) == 3


def test_of_several_it_is_said_which_are_not_queued_again(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "ensure_scheduler", lambda: None)
    a = QueueEntry(
        id="a", name="a", folder=str(tmp_path), request=ExperimentRequest(), added_at=1.0, state="failed"
    )
    b, c = (a.replace(id="b", name="b", state="running"), a.replace(id="c", name="c", state="done"))
    change_queue(lambda queue: queue.with_entries([a, b, c]))
    assert main(["queue", "retry", "a", "b", "a", "c"]) == 0
    output = capsys.readouterr()
    assert output.out == "queued again: a\n"
    assert output.err == "not queued again: b is running and c is done\n"


def test_a_value_that_was_set_as_it_was_queued_is_set_again(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an override beside the edit: the knob was set twice."""
    monkeypatch.setattr(commands, "ensure_scheduler", lambda: None)
    (tmp_path / "job.toml").write_text(LAYOUT)
    (tmp_path / "run.toml").write_text("seed = 0\nlr = 1.0\n")
    monkeypatch.chdir(tmp_path)
    add = ["queue", "add", "run.toml", "-l", "job.toml", "-n", "a", "--set", "lr=2.0", "--", "--seed", "3"]
    assert main(add) == 0
    assert main(["queue", "retry", "a", "--set", "lr=4.0", "--set", "seed=5"]) == 0
    (entry,) = read_queue().entries
    assert entry.request is not None
    config = entry.request.config
    assert (config.edits, config.overrides) == ({"lr": "4.0"}, (Override("seed", ("5",)),))
    assert entry.words == ("run.toml", "-l", "job.toml", "-n", "a", "--set", "lr=4.0")
    assert entry.overrides == ("--seed=5",)


@pytest.mark.parametrize(
    ("broken", "refusal"),
    [
        (("1", "2"), "no model\n→ fix the file"),
        (("1",), "1 of 2 runs break a rule of their config\n  lr=1: no model\n→ nothing was queued;"),
    ],
)
def test_a_sweep_says_once_what_is_wrong_with_each_of_its_runs(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...], refusal: str
) -> None:
    """Four runs without a model said so four times, and advised to leave these values out."""

    def planned(_: object, overrides: list[str], **__: object) -> QueueRequest:
        if overrides[-1].removeprefix("--lr=") in broken:
            raise ConfigError("no model", hint="fix the file")
        return QueueRequest(ExperimentRequest(ConfigLine((Path("rl.toml"),))), "run", Path("/run"))

    monkeypatch.setattr("rltui.cli.commands.sweep.plan_request", planned)
    with pytest.raises(ConfigError) as refused:
        sweep(parse(["sweep", "rl.toml", "lr=1,2"]))
    assert str(refused.value).startswith(refusal)


def test_a_wait_for_the_queue_ends_with_the_last_run_or_with_a_pause(own_user: Path) -> None:
    """What was cancelled meanwhile is not waited for."""
    a, b, c = (
        QueueEntry(id=name, name=name, folder=f"/o/{name}", added_at=1.0, state="queued") for name in "abc"
    )
    change_queue(lambda queue: queue.with_entries([a, b, c]))

    async def answer(*changes: Callable[[RunQueue], RunQueue]) -> tuple[EndReason, tuple[QueueEntry, ...]]:
        waiting = asyncio.create_task(wait_for_entries(["a", "b", "c"], timeout_s=20.0))
        for change in changes:
            await asyncio.sleep(0)
            assert not waiting.done()
            change_queue(change)
        return await waiting

    reason, _ = asyncio.run(answer(lambda queue: queue.replace(paused="by a person")))
    assert reason.code == "queue"
    change_queue(lambda queue: queue.replace(paused="").with_entry(a.replace(state="running")))
    ends = [a.ended("done", "", 1.0), b.ended("failed", "exit code 1", 2.0)]
    reason, found = asyncio.run(
        answer(lambda queue: queue.with_entries([*ends, c]), lambda queue: queue.with_entries(ends))
    )
    assert (reason.code, reason.text) == ("run_failed", "failed: b")
    assert [entry.state for entry in found] == ["done", "failed"]
    assert asyncio.run(wait_for_entries(["a"]))[0].code == "reached"
