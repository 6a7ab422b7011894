from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.frameworks import answering

from rltui.core.metrics.progress import MetricSeries
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.prime_rl.log_lines import MARKS, TOKENS_PER_ROLLOUT, log_row
from rltui.frameworks.progress import ProgressSide, TitleFact
from rltui.frameworks.run_settings import RunFiles
from rltui.services.experiment.files import ControlFolder
from rltui.services.metrics import rows as rows_module
from rltui.services.metrics.rows import LINE_BYTES, MetricRows, MetricSources
from rltui.services.metrics.sources import earlier_logs, newest_logs
from rltui.supervisor.observation import ProgressTracker


def read_row(component: str, line: str) -> Mapping[str, Any] | None:
    word, _, number = line.rpartition(" ")
    return {"step": int(number), "from": component} if word.endswith("step") and number.isdigit() else None


class Feed:
    """The rows that components print."""

    def __init__(self, *marks: str) -> None:
        framework = answering(GENERIC, progress=ProgressSide(log_row=read_row, log_marks=marks or ("step ",)))
        self.logs: dict[str, Path] = {}
        self.rows = MetricRows(MetricSources((), framework, logs=lambda: self.logs))

    def read(self, log: Path) -> list[Mapping[str, Any]]:
        """One piece of `log` is read, behind the rest of the one before."""
        self.logs = {"trainer": log}
        found = [row.values for row in self.rows.read()]
        while self.rows.is_behind:
            found += [row.values for row in self.rows.read()]
        return found

    def steps(self, log: Path) -> list[int]:
        return [row["step"] for row in self.read(log)]


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_rows_come_once_and_from_whole_lines(feed: Feed, log: Path) -> None:
    assert feed.read(log) == [], "not there yet"
    append(log, b"hello\nstep 1\nste")
    assert feed.read(log) == [{"step": 1, "from": "trainer"}]
    append(log, b"p 2\n\x1b[32mstep\x1b[0m 3\nbar 1%\rbar 2%\rstep 4\n")
    assert feed.steps(log) == [2, 4], "colours inside the mark hide it; redraws do not"
    assert feed.read(log) == []


@pytest.mark.parametrize("first", ["step 7\n", "step 1\n"])
def test_a_truncated_log_is_read_from_its_start(feed: Feed, log: Path, first: str) -> None:
    append(log, b"step 1\nstep 2\nstep 3\n")
    feed.read(log)
    log.write_text(first)
    assert feed.steps(log) == [int(first[5:])]
    append(log, b"step 8\n")
    assert feed.steps(log) == [8]


def test_the_next_attempt_comes_behind_the_rest_of_the_last(feed: Feed, tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    append(first, b"step 1\n")
    feed.read(first)
    append(first, b"step 2\n")
    append(second, b"step 1\n")
    assert feed.steps(second) == [2, 1]


def test_a_long_log_is_read_in_pieces_and_what_lies_far_back_not_at_all(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "LOG_BYTES", 50)
    append(log, b"".join(b"step %03d\n" % number for number in range(100)))
    framework = answering(GENERIC, progress=ProgressSide(log_row=read_row, log_marks=("step ",)))
    logs = {"trainer": log}
    for rows in (
        MetricRows(MetricSources((), framework, logs=lambda: logs), backlog_bytes=200),
        MetricRows(MetricSources((), framework, earlier_logs=lambda: [*logs.items()]), backlog_bytes=200),
    ):
        found = [row.step for row in rows.read()]
        assert found[0] == 78, "200 bytes from the end, the cut line left out"
        assert len(found) <= 50 // 9
        while rows.has_more:
            found += [row.step for row in rows.read()]
        assert found == list(range(78, 100))


def test_an_endless_line_is_not_kept(feed: Feed, log: Path) -> None:
    for _ in range(3):
        append(log, b"x" * LINE_BYTES)
        assert feed.read(log) == []
    append(log, b"\nstep 5\n")
    assert feed.steps(log) == [5]


def test_without_a_mark_every_line_is_asked(log: Path) -> None:
    append(log, b"step 1\n\nother\nstep 2\n")
    assert Feed("").steps(log) == [1, 2]


SPLIT = answering(
    GENERIC,
    progress=ProgressSide(
        facts=(
            TitleFact("orchestrator", "train/agg/effective/agent/reward/mean", "reward {:.3f}"),
            TitleFact("trainer", "loss/mean", "loss {:.3f}"),
            TitleFact("sft", "loss/mean", "loss {:.3f}"),
        ),
        log_row=log_row,
        log_marks=MARKS,
    ),
    files=lambda _: RunFiles(first_step=0),
)
REWARD = SPLIT.progress.names.reward


def trainer_line(step: int, loss: str = "0.5000", time_s: float = 2.0) -> str:
    return (
        f"[default0]:12:00:00 SUCCESS Step {step} | Time: {time_s:.2f}s | Loss: {loss} | Entropy: 0.5000 | "
        "LR: 1.00e-06 | Throughput: 1000 tokens/s | MFU: 1.0% | Peak Mem.: 3.0 GiB\n"
    )


def orchestrator_line(step: int, reward: float) -> str:
    return (
        f"12:00:00 SUCCESS Step {step} | Time: 2.00s | Reward: {reward:.4f} | Throughput: 10.0 tokens/s | "
        "Seq. Length: 64.0 tokens/sample | Async Level: 1 | Max. Off-Policy Level: 0\n"
    )


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(lines)


def tracker(tmp_path: Path) -> ProgressTracker:
    logs = {name: tmp_path / f"{name}.log" for name in ("orchestrator", "trainer", "launcher")}
    metrics = MetricSources((tmp_path / "metrics.jsonl",), SPLIT, logs=lambda: logs)
    return ProgressTracker(metrics, ["orchestrator", "trainer", "launcher"])


def test_figures_from_lines_alone_count_from_one(tmp_path: Path) -> None:
    made = tracker(tmp_path)
    write(tmp_path / "orchestrator.log", *(orchestrator_line(step, step / 10) for step in range(5)))
    write(tmp_path / "trainer.log", *(trainer_line(step) for step in range(4)))
    assert made.poll()
    made.max_steps = 10
    progress = made.progress
    assert (progress.step, progress.reward, progress.step_time_s, progress.eta_s) == (4, 0.4, 2.0, 12.0)
    assert progress.tokens_per_s == 1000
    assert made.title_details("trainer") == ("loss 0.500",)
    assert made.rows("trainer") == (4, 3)
    assert made.rows("sft") is None, "not in this layout"
    assert not made.poll()


def test_a_launcher_that_repeats_its_children_counts_nothing_twice(tmp_path: Path) -> None:
    made = tracker(tmp_path)
    lines = [trainer_line(step) for step in range(6)]
    write(tmp_path / "trainer.log", *lines)
    write(tmp_path / "orchestrator.log", *(orchestrator_line(step, 0.5) for step in range(8)))
    made.poll()
    write(tmp_path / "launcher.log", *lines)
    made.poll()
    assert made.progress.step == 6
    assert len(made.progress.rewards) == 8, "going back to step 0 would have thrown away the newest"
    assert made.rows("trainer") == (6, 5)


def test_a_resumed_run_goes_back_and_on(tmp_path: Path) -> None:
    made = tracker(tmp_path)
    write(tmp_path / "trainer.log", *(trainer_line(step) for step in range(6)))
    made.poll()
    made.rewind(4)
    assert made.progress.step == 4
    write(tmp_path / "trainer.log", trainer_line(4))
    made.poll()
    assert made.progress.step == 5, "checkpoint step_4 holds 4 steps, so the line `Step 4` is the fifth"


def test_the_file_goes_before_the_lines_key_by_key(tmp_path: Path) -> None:
    made = tracker(tmp_path)
    row = {"step": 0, "time": 1.0, "loss/mean": 0.123456, "time/step": 1.5}
    write(tmp_path / "metrics.jsonl", json.dumps(row) + "\n")
    write(tmp_path / "trainer.log", trainer_line(0), trainer_line(1))
    made.poll()
    assert made.series.steps[1] == {
        "loss/mean": 0.123456, "time/step": 1.5, "entropy/all/mean": 0.5, "optim/lr": 1e-6,
        "perf/throughput": 1000, "perf/mfu": 1.0, "perf/peak_memory": 3.0,
    }  # fmt: skip
    assert made.progress.step == 1, "the file counts the steps"


def test_a_nan_in_a_line_is_told(tmp_path: Path) -> None:
    made = tracker(tmp_path)
    write(tmp_path / "trainer.log", trainer_line(0), trainer_line(1, loss="nan"))
    made.poll()
    assert [str(item) for item in made.take_non_finite()] == ["loss/mean is nan at step 1 (trainer)"]
    assert made.progress.step == 2


def test_measured_tokens_of_a_rollout(tmp_path: Path) -> None:
    made = tracker(tmp_path)
    write(tmp_path / "orchestrator.log", *(orchestrator_line(step, 0.5) for step in range(12)))
    made.poll()
    measured = made.series.mean(TOKENS_PER_ROLLOUT)
    assert measured is not None
    assert (measured.value, str(measured)) == (64.0, "mean of steps 2 to 11")


def test_a_new_supervisor_knows_earlier_attempts_since_the_run_began_anew(tmp_path: Path) -> None:
    control = ControlFolder(tmp_path)
    for attempt, steps in ((1, range(9)), (2, range(3)), (3, range(3, 5))):
        log = control.log_file("trainer", attempt)
        write(log, *(trainer_line(step) for step in steps))
        os.utime(log, (100.0 * attempt, 100.0 * attempt))
    write(control.journal_file, '{"at": 150.0, "kind": "resume", "text": "x", "data": {"step": null}}\n')
    earlier = earlier_logs(control, ["trainer"])
    assert [log.parent.name for _, log in earlier] == ["attempt-2"]
    metrics = MetricSources(
        (tmp_path / "metrics.jsonl",),
        SPLIT,
        logs=lambda: newest_logs(control, ["trainer"]),
        earlier_logs=lambda: earlier,
    )
    made = ProgressTracker(metrics)
    made.poll()
    assert made.progress.step == 5
    assert sorted(made.series.steps) == [1, 2, 3, 4, 5]


def test_weights_of_a_mean() -> None:
    series = MetricSeries(SPLIT.progress.names)
    series.add({"step": 1, "tokens": 10.0, "progress/rollouts": 30})
    series.add({"step": 2, "tokens": 20.0, "progress/rollouts": 10})
    measured = series.mean("tokens")
    assert measured is not None
    assert measured.value == 12.5
    series.add({"step": 3, "tokens": 30.0})
    again = series.mean("tokens")
    assert again is not None
    assert again.value == 20.0, "as soon as one does not say, all weigh the same"
    assert series.mean("other") is None


def test_what_a_line_tells_of_all_agents_is_not_taken_for_one_more_agent(tmp_path: Path, log: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    rewards = {f"train/agg/effective/player{number}/reward/mean": number / 2 for number in (0, 1)}
    file.write_text(json.dumps({"step": 1, **rewards}) + "\n")
    append(
        log,
        b"18:15:07 SUCCESS Step 1 |   12.3s | Reward 0.1000 | Trainable 12/12 (100.0%) | Turns 1.0 | Branches"
        b" 1.0 | Max Off-Policy 9 | Error 0.0% | Cancelled 0.0% | Truncation 1.0%\n",
    )
    framework = answering(GENERIC, progress=ProgressSide(log_row=log_row, log_marks=MARKS))
    rows = MetricRows(MetricSources((file,), framework, logs=lambda: {"orchestrator": log}))
    names = {name for row in rows.read() for name in row.values if name.endswith("reward/mean")}
    assert names == {"train/agg/effective/reward/mean", *rewards}
