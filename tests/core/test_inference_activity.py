from __future__ import annotations

from pathlib import Path

from rltui.core.stalls import InferenceActivity, facts_of, parse_activity
from rltui.tinyrl.inference.statistics import Statistics

SAMPLE = Path(__file__).parents[1] / "data" / "vllm-0.32-metrics.txt"


def test_a_real_exposition() -> None:
    activity = parse_activity(SAMPLE.read_bytes())
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
    activity = parse_activity(text)
    assert activity == InferenceActivity(128, 12, 1_500_000, 0.375)
    assert activity.requests == 140
    assert facts_of(activity) == ("KV 38 %", "128 run 12 wait")


def test_the_names_of_vllm_0_10() -> None:
    text = b"vllm:num_requests_running 1.0\r\nvllm:gpu_cache_usage_perc 0.25\r\n"
    text += b"vllm:num_requests_waiting NaN\r\n"
    activity = parse_activity(text)
    assert activity == InferenceActivity(running=1, waiting=0, generated_tokens=None, kv_usage_frac=0.25)


def test_what_is_no_vllm_has_no_activity() -> None:
    assert parse_activity(b"") is None
    assert parse_activity(b"process_open_fds 34.0\nvllm:num_requests_running what\n") is None
    assert facts_of(InferenceActivity(running=1)) == ("1 run 0 wait",)


def test_the_embedded_engine_uses_the_same_names() -> None:
    statistics = Statistics(capacity_tokens=1000)
    statistics.running, statistics.waiting, statistics.used_tokens = 3, 2, 250
    statistics.generated(17)
    activity = parse_activity(statistics.exposition("outputs/model", 0.5).encode())
    assert activity == InferenceActivity(running=3, waiting=2, generated_tokens=17, kv_usage_frac=0.25)


def test_figures_that_cannot_be_are_no_reading() -> None:
    text = b"vllm:num_requests_running 1e300\nvllm:generation_tokens_total 1e17\nvllm:num_requests_waiting 2"
    activity = parse_activity(text)
    assert activity is not None
    assert (activity.running, activity.waiting, activity.generated_tokens) == (0, 2, None)
