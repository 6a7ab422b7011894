from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.metrics.engine import EngineMeter, InferenceActivity, parse_activity
from rltui.core.metrics.names import find
from rltui.core.metrics.series import SeriesKey
from rltui.frameworks.engines.vllm import VLLM
from rltui.tinyrl.inference.statistics import Statistics

SAMPLE = Path(__file__).parents[2] / "data" / "vllm-0.32-metrics.txt"


def exposition(**values: float) -> bytes:
    """One engine, as vLLM of today says it."""
    return "\n".join(
        f'vllm:{name}{{engine="0",model_name="m"}} {value}' for name, value in values.items()
    ).encode()


def test_what_a_real_server_said() -> None:
    meter = EngineMeter(10.0, VLLM.metrics)
    text = SAMPLE.read_bytes()
    first = meter.add(text, 100.0)
    assert first == {
        "": {"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0, "vllm:kv_cache_usage_perc": 0}
    }
    more = text.replace(
        b'_total{engine="0",model_name="tiny"} 344.0', b'_total{engine="0",model_name="tiny"} 544.0'
    )
    row = meter.add(more, 110.0)[""]
    assert row["vllm:generation_tokens_total:rate"] == 20.0
    assert row["vllm:prompt_tokens_total:rate"] == 0.0
    assert "vllm:time_to_first_token_seconds:mean" not in row, "none was finished"


def test_gauges_are_means_and_points_keep_their_pace() -> None:
    meter = EngineMeter(10.0, VLLM.metrics)
    meter.add(exposition(num_requests_running=0), 0.0)
    assert meter.add(exposition(num_requests_running=4), 2.0) == {}
    assert meter.add(exposition(num_requests_running=8), 9.9) == {}
    assert meter.add(exposition(num_requests_running=6), 10.0) == {"": {"vllm:num_requests_running": 6.0}}


def test_old_names_and_means_of_what_was_finished() -> None:
    meter = EngineMeter(1.0, VLLM.metrics)
    first = {"prefix_cache_queries_total": 10, "prefix_cache_hits_total": 5, "cache_usage_perc": 0.2}
    later = {"prefix_cache_queries_total": 20, "prefix_cache_hits_total": 14, "cache_usage_perc": 0.4}
    tokens = "time_to_first_token_seconds"

    def answer(values: dict[str, float], seconds: float, count: float) -> bytes:
        old = {f"gpu_{name}": value for name, value in values.items()}
        return exposition(**old, **{f"{tokens}_sum": seconds, f"{tokens}_count": count})

    meter.add(answer(first, 1, 2), 0.0)
    row = meter.add(answer(later, 4, 4), 5.0)[""]
    assert row == {
        "vllm:gpu_cache_usage_perc": 0.4,
        "vllm:time_to_first_token_seconds:mean": 1.5,
        "vllm:prefix_cache_hit_rate": 0.9,
    }
    keys = [SeriesKey("inference", name) for name in row]
    assert find("kv_use", keys) == ("inference", "vllm:gpu_cache_usage_perc")
    assert find("cache_hits", keys) == ("inference", "vllm:prefix_cache_hit_rate")


def test_several_engines_are_series_of_their_own_and_one_together() -> None:
    meter = EngineMeter(1.0, VLLM.metrics)
    text = (
        b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 5\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{model_name="a",engine="1"} 0.6\n'
    )
    rows = meter.add(text, 0.0)
    assert rows[""] == {"vllm:num_requests_running": 8.0, "vllm:kv_cache_usage_perc": pytest.approx(0.4)}
    assert rows["/1"] == {"vllm:num_requests_running": 5.0, "vllm:kv_cache_usage_perc": 0.6}
    assert rows.keys() == {"", "/0", "/1"}


def test_a_server_that_began_anew_has_no_negative_rate() -> None:
    meter = EngineMeter(1.0, VLLM.metrics)
    meter.add(exposition(generation_tokens_total=500), 0.0)
    assert meter.add(exposition(generation_tokens_total=20), 5.0) == {}
    assert meter.add(exposition(generation_tokens_total=30), 10.0)[""] == {
        "vllm:generation_tokens_total:rate": 2.0
    }


@given(st.lists(st.tuples(st.binary(max_size=80), st.floats(-1e9, 1e9)), max_size=5))
def test_anything_may_be_said(answers: list[tuple[bytes, float]]) -> None:
    meter = EngineMeter(1.0, VLLM.metrics)
    for noise, at in answers:
        text = b"vllm:num_requests_running" + noise + b" 1e999\nvllm:generation_tokens_total " + noise
        for row in meter.add(text, at).values():
            assert all(isinstance(value, float) for value in row.values())


def test_a_real_exposition() -> None:
    activity = parse_activity(SAMPLE.read_bytes(), VLLM.metrics)
    assert activity == InferenceActivity(running=0, waiting=0, generated_tokens=344, kv_usage_frac=0.0)


def test_engines_are_added_and_other_series_are_not() -> None:
    text = b"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a } b"} 100.0
vllm:num_requests_running{engine="1",model_name="a } b"} 28.0
vllm:num_requests_waiting{engine="0"} 12.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 12.0
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
vllm:gpu_cache_usage_perc{engine="0"} 0.9
vllm:generation_tokens_total{engine="0"} 1.5e+06 1795217592
vllm:generation_tokens_created{engine="0"} 1.7952175921028485e+09
vllm:request_generation_tokens_sum{engine="0"} 99.0
"""
    activity = parse_activity(text, VLLM.metrics)
    assert activity == InferenceActivity(128, 12, 1_500_000, 0.375)
    assert activity.requests == 140
    assert activity.facts == ("KV 38 %", "128 run 12 wait")


def test_the_names_of_vllm_0_10() -> None:
    text = b"vllm:num_requests_running 1.0\r\nvllm:gpu_cache_usage_perc 0.25\r\n"
    text += b"vllm:num_requests_waiting NaN\r\n"
    activity = parse_activity(text, VLLM.metrics)
    assert activity == InferenceActivity(running=1, waiting=0, generated_tokens=None, kv_usage_frac=0.25)


def test_what_is_no_vllm_has_no_activity() -> None:
    assert parse_activity(b"", VLLM.metrics) is None
    assert parse_activity(b"process_open_fds 34.0\nvllm:num_requests_running what\n", VLLM.metrics) is None
    assert InferenceActivity(running=1).facts == ("1 run 0 wait",)


def test_the_embedded_engine_uses_the_same_names() -> None:
    statistics = Statistics(capacity_tokens=1000)
    statistics.running, statistics.waiting, statistics.used_tokens = 3, 2, 250
    statistics.generated(17)
    activity = parse_activity(statistics.exposition("outputs/model", 0.5).encode(), VLLM.metrics)
    assert activity == InferenceActivity(running=3, waiting=2, generated_tokens=17, kv_usage_frac=0.25)


def test_figures_that_cannot_be_are_no_reading() -> None:
    text = b"vllm:num_requests_running 1e300\nvllm:generation_tokens_total 1e17\nvllm:num_requests_waiting 2"
    activity = parse_activity(text, VLLM.metrics)
    assert activity is not None
    assert (activity.running, activity.waiting, activity.generated_tokens) == (0, 2, None)
