from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.engine_metrics import EngineMeter
from rltui.core.metric_names import find
from rltui.core.series import SeriesKey

SAMPLE = Path(__file__).parents[1] / "data" / "vllm-0.32-metrics.txt"


def said(**values: float) -> bytes:
    """One engine, as vLLM of today says it."""
    return "\n".join(
        f'vllm:{name}{{engine="0",model_name="m"}} {value}' for name, value in values.items()
    ).encode()


def test_what_a_real_server_said() -> None:
    meter = EngineMeter(10.0)
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
    meter = EngineMeter(10.0)
    meter.add(said(num_requests_running=0), 0.0)
    assert meter.add(said(num_requests_running=4), 2.0) == {}
    assert meter.add(said(num_requests_running=8), 9.9) == {}
    assert meter.add(said(num_requests_running=6), 10.0) == {"": {"vllm:num_requests_running": 6.0}}


def test_old_names_and_means_of_what_was_finished() -> None:
    meter = EngineMeter(1.0)
    first = {"prefix_cache_queries_total": 10, "prefix_cache_hits_total": 5, "cache_usage_perc": 0.2}
    later = {"prefix_cache_queries_total": 20, "prefix_cache_hits_total": 14, "cache_usage_perc": 0.4}
    tokens = "time_to_first_token_seconds"

    def answer(values: dict[str, float], seconds: float, count: float) -> bytes:
        old = {f"gpu_{name}": value for name, value in values.items()}
        return said(**old, **{f"{tokens}_sum": seconds, f"{tokens}_count": count})

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
    meter = EngineMeter(1.0)
    text = (
        b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 5\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{model_name="a",engine="1"} 0.6\n'
    )
    rows = meter.add(text, 0.0)
    assert rows[""] == {"vllm:num_requests_running": 8.0, "vllm:kv_cache_usage_perc": pytest.approx(0.4)}
    assert rows["/1"] == {"vllm:num_requests_running": 5.0, "vllm:kv_cache_usage_perc": 0.6}
    assert rows.keys() == {"", "/0", "/1"}


def test_a_server_that_began_anew_has_no_negative_rate() -> None:
    meter = EngineMeter(1.0)
    meter.add(said(generation_tokens_total=500), 0.0)
    assert meter.add(said(generation_tokens_total=20), 5.0) == {}
    assert meter.add(said(generation_tokens_total=30), 10.0)[""] == {"vllm:generation_tokens_total:rate": 2.0}


@given(st.lists(st.tuples(st.binary(max_size=80), st.floats(-1e9, 1e9)), max_size=5))
def test_anything_may_be_said(answers: list[tuple[bytes, float]]) -> None:
    meter = EngineMeter(1.0)
    for noise, at in answers:
        text = b"vllm:num_requests_running" + noise + b" 1e999\nvllm:generation_tokens_total " + noise
        for row in meter.add(text, at).values():
            assert all(isinstance(value, float) for value in row.values())
