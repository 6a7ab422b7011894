"""What comes from outside cannot end a reader: no row, line, reply, record or name (findings H14, F2)."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.foreign import HUGE, numbers, values
from tests.params import slow_but

from rltui.core.experiment.layout import ComponentSpec
from rltui.core.experiment.lifecycle import ExitInfo
from rltui.core.metrics.engine import parse_activity
from rltui.core.metrics.non_finite import non_finite_alerts
from rltui.core.metrics.progress import MetricSeries
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.run_settings import RunFiles
from rltui.services.config.config_file import read_file
from rltui.services.experiment.attempt_end import explained
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.intent import IntentFile
from rltui.services.experiment.journal import read_journal
from rltui.services.experiment.launch import read_launch
from rltui.services.gpu.peaks import read_peaks
from rltui.services.metrics.rows import MetricRows, MetricSources
from rltui.services.processes import read_attempt
from rltui.services.runs.folder import RunFolder
from rltui.services.runs.observed import written_max_steps
from rltui.supervisor.observation import ProgressTracker

FEW = settings(max_examples=15, suppress_health_check=list(HealthCheck))
FRAMEWORKS = [registry.get(name) for name in registry.IDS]
EVERY_FRAMEWORK = slow_but({framework.id: framework for framework in FRAMEWORKS}, "prime-rl", "tinyrl")
DATA = Path(__file__).parents[1] / "data"

texts = st.one_of(st.binary(max_size=60), values.map(lambda value: json.dumps(value).encode()))
NESTED = b'{"a":' * 3000 + b"1" + b"}" * 3000


@pytest.fixture(autouse=True)
def files_below_the_tests_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples of hypothesis share a `tmp_path`, so that each makes a folder of its own there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def metric_names(framework: Any) -> list[str]:
    names = framework.progress.names
    used = [names.reward, names.trainer_step, names.tokens_per_s, names.step_time, names.rollouts]
    return [*used, *(fact.metric for fact in framework.progress.facts), "step", "time", "odd"]


def written(content: bytes, name: str = "file") -> Path:
    path = Path(tempfile.mkdtemp()) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("framework", EVERY_FRAMEWORK)
@FEW
@given(data=st.data())
def test_metric_rows(framework: Any, data: st.DataObject) -> None:
    keys = st.sampled_from(metric_names(framework))
    rows = data.draw(st.lists(st.dictionaries(keys, st.one_of(numbers, values), max_size=8), max_size=6))
    lines = [json.dumps(row).encode() for row in rows] + data.draw(st.lists(texts, max_size=2)) + [NESTED]
    path = written(b"\n".join(data.draw(st.permutations(lines))) + b"\n")
    tracker = ProgressTracker(MetricSources((path,), framework))
    tracker.max_steps = data.draw(st.one_of(st.none(), st.integers(), st.sampled_from([10**400])))
    tracker.poll()
    with path.open("ab") as file:
        file.write(b"\n".join(lines) + b"\n")
    tracker.poll()
    progress = tracker.progress
    assert progress.eta_s is None or 0 <= progress.eta_s < 1e11
    progress.to_json().decode()
    tuple(tracker.title_details(fact.component) for fact in framework.progress.facts)
    tuple(non_finite_alerts(tracker.take_non_finite()))
    for name in metric_names(framework):
        tracker.series.mean(name)
    tracker.rewind(data.draw(st.one_of(st.none(), st.integers(0, 100))))


def test_a_huge_integer_beside_a_nan(tmp_path: Path) -> None:
    """Finding H14, as it was seen."""
    framework = registry.get("tinyrl")
    row = f'"step": 1, "loss/mean": {10**400}, "x": NaN'
    (tmp_path / "m").write_text(f'{{{row}}}\n{{"step": 2, "y": 0.5}}\n')
    tracker = ProgressTracker(MetricSources((tmp_path / "m",), framework))
    assert tracker.poll()
    assert tracker.progress.step == 1
    assert {item.key for item in tracker.take_non_finite()} == {"loss/mean", "x"}


def sample_lines() -> list[str]:
    logs = [
        path for path in DATA.rglob("*") if path.suffix in (".log", ".txt") and path.stat().st_size < 200_000
    ]
    lines = [line for path in logs for line in path.read_text(errors="replace").splitlines()]
    return sorted({line[:400] for line in lines if re.search(r"\d", line)})


LINES = sample_lines()
WORSE = ["9" * 5000, "1e999", "nan", "-1", "٣", "0" * 300 + "1", "", "9" * 400 + ".9"]
"""In the place of a number."""


def spoiled(data: st.DataObject) -> str:
    line = data.draw(st.sampled_from(LINES))
    worse = data.draw(st.sampled_from(WORSE))
    found = list(re.finditer(r"\d+(\.\d+)?", line))
    place = data.draw(st.sampled_from(found))
    return line[: place.start()] + worse + line[place.end() :]


@pytest.mark.parametrize("framework", EVERY_FRAMEWORK)
@FEW
@given(data=st.data())
def test_lines_of_logs(framework: Any, data: st.DataObject) -> None:
    lines = [spoiled(data) for _ in range(5)]
    log = written("\n".join(lines).encode() + b"\n")
    metrics = MetricRows(MetricSources((log.with_name("none"),), framework, logs=lambda: {"trainer": log}))
    series = MetricSeries(framework.progress.names)
    for row in metrics.read():
        series.add(row.values)
    series.progress(20).to_json().decode()
    for kind in ("service", "job"):
        spec = ComponentSpec.model_validate({"id": "trainer", "kind": kind, "command": ["true"]})
        explained(ExitInfo(code=1), spec, log, framework.failures)


@pytest.mark.parametrize(
    "line", ["Step " + "9" * 5000 + " | Time: 1.0s | Loss: 0.1", "9" * 60_000], ids=range(2)
)
def test_a_number_of_thousands_of_digits(tmp_path: Path, line: str) -> None:
    (tmp_path / "log").write_text(f"12:00:00 SUCCESS {line}\n")
    for framework in FRAMEWORKS:
        sources = MetricSources((tmp_path / "none",), framework, logs=lambda: {"trainer": tmp_path / "log"})
        MetricRows(sources).read()


names = st.sampled_from(
    ["num_requests_running", "num_requests_waiting", "generation_tokens_total", "kv_cache_usage_perc"]
)


@FEW
@given(
    st.lists(st.tuples(names, st.sampled_from([*map(str, HUGE), *WORSE, "3"])), max_size=6),
    st.binary(max_size=40),
)
def test_metrics_of_a_server(samples: list[tuple[str, str]], rest: bytes) -> None:
    text = "\n".join(f"vllm:{name} {value}" for name, value in samples).encode()
    activity = parse_activity(text + b"\n" + rest, VLLM.metrics)
    if activity is not None:
        assert all(activity.facts)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "attempt": ("attempt.json", lambda path: read_attempt(path.parent)),
    "spec": ("spec.json", lambda path: read_launch(path.parent)),
    "peaks": ("gpu.json", lambda path: read_peaks(path.parent)),
    "intent": ("intent.json", lambda path: IntentFile(path).read()),
    "journal": ("journal.jsonl", read_journal),
    "steps": ("configs/trainer.json", lambda path: written_max_steps(path.parents[1], RunFiles())),
    "steps in TOML": ("configs/trainer.toml", lambda path: written_max_steps(path.parents[1], RunFiles())),
}


def shapes(reader: str) -> list[str]:
    """Keys that the reader looks for."""
    keys = {
        "attempt": [
            "experiment",
            "attempt",
            "state",
            "boot",
            "pid",
            "pid_start",
            "descendants",
            "started_at",
        ],
        "spec": ["argv", "cwd", "env", "ready", "port", "gpus"],
        "peaks": ["peak_bytes"],
        "intent": ["boot", "alive", "failed_at", "transaction", "rollback"],
        "journal": ["at", "kind", "text", "data"],
    }
    return keys.get(reader, ["max_steps"])


@pytest.mark.parametrize("reader", READERS)
@FEW
@given(data=st.data())
def test_records(reader: str, data: st.DataObject) -> None:
    name, read = READERS[reader]
    whole = st.fixed_dictionaries(dict.fromkeys(shapes(reader), values))
    content = data.draw(
        st.one_of(texts, whole.map(lambda value: json.dumps(value).encode()), st.just(NESTED))
    )
    read(written(content, name))


@pytest.mark.parametrize("reader", READERS)
def test_records_that_are_no_files(reader: str, tmp_path: Path) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    path.mkdir(parents=True)
    read(path)
    path.rmdir()
    path.symlink_to("/dev/zero")
    read(path)


@FEW
@given(st.lists(st.text("step_0123456789", min_size=1, max_size=30), max_size=5))
def test_names_in_a_run_folder(names: list[str]) -> None:
    framework = registry.get("tinyrl")
    root = Path(tempfile.mkdtemp())
    for name in [*names, "step_" + "9" * 200, "step_5"]:
        (root / framework.run.locations.checkpoints / name).mkdir(parents=True, exist_ok=True)
    folder = RunFolder(root, framework.run.locations)
    assert all(step < 10**15 for step in folder.checkpoint_folders())
    folder.latest_checkpoint()
    (root / ".rltui/components/trainer/attempt-").mkdir(parents=True)
    for name in ["attempt-" + "9" * 200, "old-attempt-7", "attempt-3", "attempt-x"]:
        (root / ".rltui/components/trainer" / name).mkdir()
    assert ControlFolder(root).attempts("trainer") == [3]


@pytest.mark.parametrize(
    "text", ["a = " + "9" * 5000, "a = " + "[" * 5000, "a = 1e999", "\0", "a = 1\na = 2"]
)
def test_toml_with_anything_in_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with suppress(ConfigError):
        read_file(tmp_path / "x.toml")
