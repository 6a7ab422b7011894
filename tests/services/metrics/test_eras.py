"""The metrics of every generation, as its programs write them, under the concepts that are asked for."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rltui.core.metrics.names import CONCEPTS, find, find_all, label_of
from rltui.core.metrics.series import SeriesKey
from rltui.frameworks import registry
from rltui.services.experiment.files import ControlFolder
from rltui.services.metrics.recorder import RunRecorder
from rltui.services.metrics.rows import MetricSources
from rltui.services.metrics.store import SeriesReader

DATA = Path(__file__).parents[2] / "data"
PRIME = registry.get("prime-rl")


def recorded(folder: Path, log: Path | None = None) -> SeriesReader:
    control = ControlFolder(folder)
    logs = {} if log is None else {"rl": log}
    sources = MetricSources((folder / "metrics.jsonl",), PRIME, logs=lambda: logs)
    recorder = RunRecorder(control, sources)
    recorder.catch_up()
    recorder.close()
    return SeriesReader(control.series)


def newest(reader: SeriesReader) -> dict[str, float]:
    """By concept."""
    found = {concept.id: find(concept.id, reader.keys()) for concept in CONCEPTS}
    series = {id_: reader.read(key).lines()[0] for id_, key in found.items() if key is not None}
    return {id_: points.values[-1] for id_, points in series.items()}


SPLIT = {
    "reward": 0.12, "loss": math.nan, "entropy": math.inf, "kl": math.nan, "grad_norm": math.nan, "lr": 3e-6,
    "seq_len": 101.5, "staleness": 2.0, "tokens_per_s": 12345.0, "mfu": 12.3, "peak_memory": 34.5,
    "step_time": 3.4, "orchestrator_time": 10.02, "eval": 0.5,
}  # fmt: skip
MERGED = {
    "reward": 0.25, "loss": 0.02, "val_loss": 1.5, "entropy": 0.3, "kl": 0.0002, "grad_norm": 0.2, "lr": 1e-6,
    "seq_len": 120.0, "staleness": 1.0, "tokens_per_s": 9100.0, "mfu": 8.6, "peak_memory": 40.2,
    "step_time": 3.6, "orchestrator_time": 9.8,
}  # fmt: skip
CURRENT = {
    "reward": 0.3, "loss": -0.05, "val_loss": 1.5, "entropy": 0.5, "kl": 0.0001, "grad_norm": 0.5, "lr": 2e-5,
    "truncation": 0.0, "trainable": 0.5, "errors": 0.0, "cancelled": 0.0, "staleness": 0.0,
    "tokens_per_s": 12345.0, "mfu": 12.3, "peak_memory": 34.5,
    "step_time": 3780.0, "orchestrator_time": 12.0, "eval": 0.75, "env_reward": 0.9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"), [("split", SPLIT), ("merged", MERGED), ("current", CURRENT)], ids=["a", "b", "c"]
)
def test_lines(tmp_path: Path, name: str, expected: dict[str, float]) -> None:
    log = tmp_path / "rl.log"
    log.write_bytes((DATA / f"prime_rl/logs/{name}.log").read_bytes())
    assert newest(recorded(tmp_path, log)) == pytest.approx(expected, nan_ok=True)


SPRING = {
    "reward": 0.25, "reward_low": 0.0, "reward_high": 0.75, "env_reward": 0.1, "eval": 0.5, "loss": 0.01,
    "entropy": 0.4, "kl": 0.0002, "grad_norm": 0.2, "lr": 1e-6, "truncation": 0.02, "zero_signal": 0.3,
    "solved_all": 0.1, "errors": 0.01, "seq_len": 120.0, "staleness": 0.5, "step_time": 3.5,
    "orchestrator_time": 9.8, "wait_for_batch": 1.9, "wait_for_policy": 0.5, "forward_backward": 1.2,
    "broadcast": 0.2, "tokens_per_s": 9000.0, "mfu": 8.5, "peak_memory": 40.1, "rollouts": 128.0,
}  # fmt: skip
AUTUMN = {
    "reward": 0.61, "loss": 0.02, "entropy": 0.3, "kl": 0.0003, "grad_norm": 0.11, "lr": 3e-6,
    "truncation": 0.05, "staleness": 1.2, "step_time": 4.5, "orchestrator_time": 4.4, "wait_for_batch": 2.5,
    "wait_for_policy": 0.9, "forward_backward": 1.8, "broadcast": 0.2, "tokens_per_s": 11873.0, "mfu": 21.5,
    "kv_use": 0.71, "running": 212.0, "waiting": 3.0, "generation": 8123.5, "preemptions": 0.1,
    "cache_hits": 0.4, "peak_memory": 34.5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"), [("spring-2026", SPRING), ("autumn-2026", AUTUMN)], ids=["c", "d"]
)
def test_files(tmp_path: Path, name: str, expected: dict[str, float]) -> None:
    (tmp_path / "metrics.jsonl").write_bytes((DATA / f"metrics/{name}.jsonl").read_bytes())
    reader = recorded(tmp_path)
    assert newest(reader) == pytest.approx(expected)
    sources = {key.source for key in reader.keys()}  # noqa: SIM118 - no dict
    assert {"trainer", "orch"} <= sources <= {"trainer", "orch", "rltui", ""}


def test_concepts_with_many_series_name_each() -> None:
    keys = [
        SeriesKey("orch", f"train/{name}/effective/agent/reward/mean") for name in ("gsm8k", "agg", "b-c")
    ]
    found = find_all("env_reward", keys)
    concept = next(concept for concept in CONCEPTS if concept.id == "env_reward")
    assert [label_of(concept, key) for key in found] == ["b-c", "gsm8k"]
    assert find("reward", keys) == ("orch", "train/agg/effective/agent/reward/mean")
    assert find("loss", keys) is None


def test_the_server_itself_is_believed_rather_than_what_the_orchestrator_polls() -> None:
    keys = [
        SeriesKey("orch", "inference/agg/kv_cache_usage_perc/mean"),
        SeriesKey("inference/1", "vllm:kv_cache_usage_perc"),
        SeriesKey("inference", "vllm:kv_cache_usage_perc"),
    ]
    assert find("kv_use", keys) == keys[2]


ROW = st.dictionaries(
    st.sampled_from(
        ["step", "time", "producer", "loss/mean", "optim/lr", "train/agg/effective/agent/reward/mean"]
    )
    | st.text(max_size=8),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2),
    max_size=6,
)
LINE = st.builds(json.dumps, ROW).map(str.encode) | st.binary(max_size=60)
PRINTED = (DATA / "prime_rl/logs/current.log").read_bytes().split(b"\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    file=st.lists(LINE, max_size=12),
    printed=st.lists(st.sampled_from(PRINTED) | st.binary(max_size=60), max_size=12),
    cut=st.integers(0, 40),
)
def test_anything_may_stand_in_the_files(
    tmp_path_factory: pytest.TempPathFactory, file: list[bytes], printed: list[bytes], cut: int
) -> None:
    """No crash; a second recorder goes on where the first was; nothing is told twice."""
    folder = tmp_path_factory.mktemp("run")
    content, log = b"\n".join(file), folder / "rl.log"
    log.write_bytes(b"\n".join(printed))
    (folder / "metrics.jsonl").write_bytes(content[: len(content) - cut])
    recorded(folder, log)
    with (folder / "metrics.jsonl").open("ab") as rest:
        rest.write(content[max(0, len(content) - cut) :] + b"\n")
    with log.open("ab") as rest:
        rest.write(b"\n")
    in_pieces = recorded(folder, log)
    whole = folder / "whole"
    whole.mkdir()
    os.link(folder / "metrics.jsonl", whole / "metrics.jsonl")
    at_once = recorded(whole)
    for key in at_once.keys():  # noqa: SIM118 - no dict
        if key.source != "rltui":
            assert len(in_pieces.read(key)) >= len(at_once.read(key))
