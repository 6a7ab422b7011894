from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.fakes.frameworks import answering

from rltui.core.metrics.names import find
from rltui.core.metrics.series import OWN_SOURCE, Series, SeriesKey
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.prime_rl.log_lines import MARKS, log_row
from rltui.frameworks.progress import ProgressSide
from rltui.frameworks.run_settings import RunFiles
from rltui.services.experiment.files import ControlFolder
from rltui.services.metrics.recorder import RunRecorder
from rltui.services.metrics.rows import MetricSources
from rltui.services.metrics.store import SeriesReader
from rltui.services.metrics.store_index import INDEX

PRINTED = answering(
    GENERIC,
    progress=ProgressSide(
        log_row=lambda component, line: log_row(component, line.replace("UTC ", "")), log_marks=MARKS
    ),
    files=lambda _: RunFiles(first_step=0),
)
WRITTEN = answering(GENERIC, files=lambda _: RunFiles(first_step=1))
NOON = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))


class Run:
    """A run's folder, and who records it."""

    def __init__(self, folder: Path, framework: object = WRITTEN) -> None:
        self.folder = folder
        self.framework = framework
        self.control = ControlFolder(folder)
        self.logs: dict[str, Path] = {}
        self.earlier: list[tuple[str, Path]] = []
        self.now = NOON
        self.recorder = self.another()

    def another(self) -> RunRecorder:
        """As the next supervisor has it."""
        sources = MetricSources(
            (self.folder / "monitors/metrics.jsonl", self.folder / "metrics.jsonl"),
            self.framework,  # type: ignore[arg-type]
            logs=lambda: self.logs,
            earlier_logs=lambda: self.earlier,
        )
        return RunRecorder(self.control, sources, clock=lambda: self.now)

    def next_supervisor(self) -> None:
        self.recorder.close()
        self.recorder = self.another()

    def write(self, *rows: Mapping[str, object]) -> None:
        self.append("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def append(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
        return path

    def read(self, source: str, name: str) -> Series:
        reader = SeriesReader(self.control.series)
        return reader.read(SeriesKey(source, name)).lines(reader.rewinds())[0]

    def concept(self, id_: str) -> Series:
        reader = SeriesReader(self.control.series)
        key = find(id_, reader.keys())
        assert key is not None
        return reader.read(key).lines(reader.rewinds())[0]


def orch(step: int, reward: float, time_s: float = 2.0) -> dict[str, object]:
    row = {"step": step, "time": NOON + step, "time/step": time_s, "time/pack": 0.1}
    return {**row, "train/agg/effective/agent/reward/mean": reward}


def trainer(step: int, **values: float) -> dict[str, object]:
    return {"step": step, "time": NOON + step, "loss/mean": 0.5, "time/step": 1.0, **values}


def test_rows_of_two_programs_are_two_series(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(orch(1, 0.1), trainer(1), orch(2, 0.2), trainer(2))
    run.recorder.catch_up()
    assert list(run.concept("reward").values) == [0.1, 0.2]
    assert list(run.concept("step_time").values) == [1.0, 1.0]
    assert list(run.concept("orchestrator_time").values) == [2.0, 2.0]
    assert list(run.concept("reward").times) == [NOON + 1, NOON + 2]
    run.write({**trainer(4), "time": NOON + 8})
    run.recorder.catch_up()
    assert list(run.read(OWN_SOURCE, "step_time").values) == [1.0, 3.0]


def test_the_next_supervisor_goes_on_where_the_last_was(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(trainer(1), trainer(2))
    run.append("metrics.jsonl", '{"step": 3, "loss/mean"')
    run.recorder.catch_up()
    run.append("metrics.jsonl", ": 0.25}\n")
    run.next_supervisor()
    run.recorder.catch_up()
    assert list(run.concept("loss").steps) == [1, 2, 3]
    assert list(run.concept("loss").values) == [0.5, 0.5, 0.25]


def test_a_resume_rewinds_and_a_new_beginning_starts_another_store(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(*(trainer(step) for step in range(1, 7)))
    run.recorder.catch_up()
    run.now = NOON + 100
    run.recorder.resumed(4)
    run.recorder.catch_up()
    assert list(run.concept("loss").steps) == [1, 2, 3, 4]
    run.write({**trainer(5), "time": NOON + 105, "loss/mean": 0.7})
    run.recorder.catch_up()
    assert list(run.concept("loss").values) == [0.5] * 4 + [0.7]
    (tmp_path / "metrics.jsonl").unlink()
    run.recorder.resumed(None)
    run.write(trainer(1))
    run.recorder.catch_up()
    assert list(run.concept("loss").steps) == [1]
    aside = next(run.control.archive.rglob(INDEX)).parent
    assert len(SeriesReader(aside).read(SeriesKey("trainer", "loss/mean"))) == 7


def test_a_metrics_file_that_was_replaced_is_another_run(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(trainer(1), trainer(2))
    run.recorder.catch_up()
    (tmp_path / "metrics.jsonl").unlink()
    run.write({**trainer(1), "time": NOON + 1000})
    run.next_supervisor()
    run.recorder.catch_up()
    assert list(run.concept("loss").steps) == [1]
    assert len([*run.control.archive.rglob(INDEX)]) == 1


def test_rows_without_a_step_and_who_wrote_them(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.append(
        "monitors/metrics.jsonl",
        '{"step": 12, "time": 1789000000.1, "step": 12, "perf/mfu": 21.4, "producer": "trainer"}\n'
        '{"step": null, "time": 1789000003.2, "inference/agg/kv_cache_usage_perc/max": 0.5, '
        '"producer": "orch"}\n'
        '{"step": 12, "time": 1789000004.2, "optim/grad_norm": NaN, "loss/mean": Infinity, '
        '"producer": "trainer"}\n'
        'no row\n[1]\n{"step": 13, "time": "soon", "perf/mfu": true}\n',
    )
    run.recorder.catch_up()
    kept = run.concept("kv_use")
    assert (list(kept.steps), list(kept.times), list(kept.values)) == ([-1], [1789000003.2], [0.5])
    assert math.isnan(run.concept("grad_norm").values[0])
    assert run.concept("loss").values[0] == math.inf
    reader = SeriesReader(run.control.series)
    assert {key.source for key in [*reader.keys()]} == {"trainer", "orch"}


def line(clock: str, text: str) -> str:
    return f"\x1b[2m{clock}\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m {text}\n"


def trained(step: int, clock: str = "11:59:00", loss: str = "0.5000") -> str:
    return line(clock, f"Step {step} | Time: 2.00s | Loss: {loss} | Entropy: 0.5000 | LR: 1.00e-06 | "
                "Throughput: 1000 tokens/s | MFU: 1.0% | Peak Mem.: 3.0 GiB")  # fmt: skip


def test_lines_where_there_is_no_file(tmp_path: Path) -> None:
    run = Run(tmp_path, PRINTED)
    run.logs["trainer"] = run.append("a/trainer.log", "".join(trained(step) for step in range(3)))
    run.recorder.catch_up()
    run.append("a/trainer.log", trained(3, "11:59:58", loss="nan"))
    run.recorder.catch_up()
    loss = run.concept("loss")
    assert list(loss.steps) == [0, 1, 2, 3]
    assert math.isnan(loss.values[3])
    assert loss.times[3] == NOON - 2


def test_dates_of_lines_that_only_have_a_time(tmp_path: Path) -> None:
    run = Run(tmp_path, PRINTED)
    clocks = ["10:00:00", "23:00:00", "01:00:00", "20:00:00", "02:00:00", "11:30:00"]
    text = "".join(trained(step, clock) for step, clock in enumerate(clocks))
    run.logs["trainer"] = log = run.append("a/trainer.log", text)
    os.utime(log, (NOON - 1800, NOON - 1800))
    run.recorder.catch_up()
    hours = [(NOON - at) / 3600 for at in run.concept("loss").times]
    assert hours == [50.0, 37.0, 35.0, 16.0, 10.0, 0.5]


def test_a_launcher_that_repeats_its_children_counts_nothing_twice(tmp_path: Path) -> None:
    run = Run(tmp_path, PRINTED)
    text = "".join(trained(step) for step in range(50))
    run.logs["trainer"] = run.append("a/trainer.log", text)
    run.logs["rl"] = run.append("b/rl.log", text)
    run.recorder.catch_up()
    assert len(run.read("trainer", "loss/mean")) == 50
    run.append("b/rl.log", trained(50))
    run.recorder.catch_up()
    assert len(run.read("trainer", "loss/mean")) == 51, "the child's own log has ended"


def test_attempts_one_after_the_other(tmp_path: Path) -> None:
    run = Run(tmp_path, PRINTED)
    run.earlier = [
        ("trainer", run.append("attempt-1/output.log", "".join(trained(step) for step in range(5))))
    ]
    run.logs["trainer"] = run.append("attempt-2/output.log", trained(3, loss="0.25"))
    run.recorder.catch_up()
    run.logs["trainer"] = run.append("attempt-3/output.log", trained(4, loss="0.125"))
    run.recorder.catch_up()
    assert list(run.concept("loss").values) == [0.5, 0.5, 0.5, 0.25, 0.125]
    before = len(SeriesReader(run.control.series).read(SeriesKey("trainer", "loss/mean")))
    run.earlier.append(("trainer", tmp_path / "attempt-2/output.log"))
    run.next_supervisor()
    run.recorder.catch_up()
    assert len(SeriesReader(run.control.series).read(SeriesKey("trainer", "loss/mean"))) == before


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        ("step 3: loss/mean, optim/grad_norm", [1, 2, 3, 4]),
        ("['loss/mean', 'optim/grad_norm']", [1, 2, 4, 5]),
    ],
)
def test_values_that_were_dropped_are_gaps(tmp_path: Path, said: str, steps: list[int]) -> None:
    run = Run(tmp_path, PRINTED)
    run.write(trainer(1), trainer(2), {"step": 3, "time": NOON, "perf/mfu": 1.0}, trainer(4))
    run.logs["trainer"] = run.append(
        "trainer.log", f"11:59:00 WARNING Dropping 2 non-finite value(s) from {said}\n"
    )
    run.recorder.catch_up()
    loss = run.concept("loss")
    assert list(loss.steps) == steps
    assert [step for step, value in zip(loss.steps, loss.values, strict=True) if math.isnan(value)] == [
        3 if "step" in said else 5
    ]


def test_what_rltui_samples(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.recorder.sample({"gpu_memory/trainer": 5e9}, "rltui")
    run.recorder.sample({"vllm:num_requests_running": 3.0}, "inference/1")
    run.recorder.catch_up()
    assert list(run.concept("gpu_memory").values) == [5e9]
    assert list(run.concept("running").values) == [3.0]


def test_what_cannot_be_read_is_not_waited_for(tmp_path: Path) -> None:
    run = Run(tmp_path, PRINTED)
    (tmp_path / "metrics.jsonl").mkdir()
    (tmp_path / "trainer.log").mkdir()
    run.logs["trainer"] = tmp_path / "trainer.log"
    run.recorder.catch_up()
    assert SeriesReader(run.control.series).keys() == ()


def test_only_one_process_writes_a_store(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(trainer(1))
    run.recorder.catch_up()
    run.write(trainer(2))
    other = run.another()
    other.catch_up()
    assert other.problem is None
    assert len(run.concept("loss")) == 1, "it left that to the first"
    run.recorder.close()
    other.catch_up()
    assert len(run.concept("loss")) == 2


def test_a_store_that_somebody_removes_is_made_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(trainer(1), trainer(2))
    run.recorder.catch_up()
    shutil.rmtree(run.control.series)
    run.write(trainer(3))
    run.recorder.catch_up()
    assert list(run.concept("loss").steps) == [1, 2, 3]


def test_a_file_at_a_better_place_is_read_from_then_on(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(trainer(1))
    run.recorder.catch_up()
    rows = "".join(json.dumps(trainer(step)) + "\n" for step in (2, 3))
    run.append("monitors/metrics.jsonl", rows)
    run.recorder.catch_up()
    assert list(run.concept("loss").steps) == [2, 3], "another file is another run"
