from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rltui.base.text import GIB
from rltui.core.gpu.budget import CONTEXT_BYTES, EngineMeasurements, EngineMemory, ModelShape
from rltui.core.gpu.forecast import (
    MARGIN_BYTES,
    MemoryUser,
    forecast,
    refused_start,
    worst_per_component,
)
from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuReservation, GpuShare, MemoryVerdict
from rltui.frameworks.engines.vllm import VLLM
from rltui.views.gpu.forecast import memory_verdict, wait_text

A = "/GPU-a"


def share_of(component: str | None, size: float, owner: GpuOwner = "component") -> GpuShare:
    return GpuShare(owner=owner, component=component, used_bytes=round(size * GIB))


def device(total: float, *shares: GpuShare, uuid: str = "GPU-a", index: int = 0, **more: object) -> GpuDevice:
    size = round(total * GIB)
    used_bytes = sum(share.used_bytes for share in shares)
    values = {"total_bytes": size, "used_bytes": used_bytes, "free_bytes": size - used_bytes} | more
    return GpuDevice.from_plain({"index": index, "uuid": uuid, "shares": shares, **values})


def engine(utilization: float, **values: object) -> MemoryUser:
    memory = EngineMemory("inference", utilization, rules=VLLM.memory, version=(0, 32), **values)  # type: ignore[arg-type]
    return MemoryUser("inference", (A,), starts=True, engine=memory)


def trainer(peak: float | None = None, **values: object) -> MemoryUser:
    peaks: Mapping[str, int] = {} if peak is None else {A: round(peak * GIB)}
    return MemoryUser("trainer", (A,), peak_bytes=peaks, **values)  # type: ignore[arg-type]


def one(*args: object, **kwargs: object) -> MemoryVerdict:
    (result,) = forecast(*args, **kwargs)  # type: ignore[arg-type]
    return memory_verdict(result)


def with_engine(user: MemoryUser, **values: object) -> MemoryUser:
    assert user.engine is not None
    return replace(user, engine=replace(user.engine, **values))  # type: ignore[arg-type]


def test_an_engine_on_an_empty_device_fits() -> None:
    verdict = one([device(79.9)], [engine(0.9)])
    assert verdict.text == "fits: inference takes 71.9 GiB (0.9 × 79.9) of GPU 0; 79.9 free"
    assert verdict.verdict == "fits"
    assert verdict.safe_utilization is verdict.suggested_utilization is None


def test_a_trainer_that_runs_makes_it_refuse() -> None:
    verdict = one([device(79.9, share_of("trainer", 18.2))], [engine(0.9), trainer()])
    assert verdict.text == (
        "inference needs 71.9 GiB free on GPU 0 (0.9 × 79.9), 61.7 free: 18.2 held by trainer; set"
        " gpu_memory_utilization = 0.76, or free the memory first"
    )
    assert verdict.verdict == "will_refuse"
    assert verdict.is_bad
    assert "Free memory on device cuda:0 (61.70/79.90 GiB)" in verdict.notes[0]


def test_what_the_plan_ends_is_free_by_then() -> None:
    full = device(80, share_of("trainer", 18), share_of("inference", 40), share_of(None, 10, "orphan"))
    users = [replace(engine(0.9), stops=True), trainer(stops=True)]
    refused = one([full], users)
    assert refused.free_bytes == 70 * GIB
    assert "10.0 held by leftovers" in refused.text
    assert "rltui gpus orphans --end" in refused.text
    assert one([full], users, freed={A: 10 * GIB}).verdict == "fits"


def test_what_leftovers_hold_does_not_end_with_their_component() -> None:
    device_ = device(80, share_of("inference", 10), share_of("inference", 20, "orphan"))
    assert one([device_], [replace(engine(0.9), stops=True)]).free_bytes == 60 * GIB


def test_a_trainer_that_the_plan_ends_needs_nothing() -> None:
    full = device(80, share_of("trainer", 18))
    verdict = one([full], [engine(0.9), trainer(30, stops=True)])
    assert verdict.verdict == "fits"
    assert verdict.peak_bytes is None
    assert "trainer" not in verdict.text


def test_a_suggestion_is_small_enough_for_the_check_and_for_the_trainer() -> None:
    large = device(200, share_of("trainer", 1), share_of(None, 100, "other"))
    user = engine(0.9, measured=EngineMeasurements(budget_bytes=20 * GIB))
    user = replace(user, peak_bytes={A: 20 * GIB})
    verdict = one([large], [user, trainer(1)])
    assert (verdict.safe_utilization, verdict.suggested_utilization) == (0.49, 0.48)
    assert one([large], [user, trainer(30)]).suggested_utilization == 0.34


def test_a_trainer_that_starts_too_gets_what_is_left() -> None:
    users = [engine(0.5), trainer(11.2, starts=True)]
    verdict = one([device(79.9)], users)
    assert verdict.text == (
        "fits: inference takes 40.0 GiB (0.5 × 79.9) of GPU 0, leaves 39.4 for trainer, peak 11.2"
    )
    assert verdict.peak_bytes == round(11.2 * GIB)
    assert verdict.safe_utilization == 0.83


def test_a_trainer_whose_peak_is_known_may_be_short() -> None:
    verdict = one(
        [device(80)], [engine(0.9), trainer(30, starts=True, peak_note="seq_len was 2048, is 4096")]
    )
    assert verdict.verdict == "trainer_short"
    assert verdict.text == (
        "trainer will not fit: the peak was 30.0 GiB, inference (0.9 × 80.0) leaves 7.4 on GPU 0; largest"
        " safe gpu_memory_utilization: 0.6"
    )
    assert verdict.suggested_utilization == verdict.safe_utilization == 0.6
    assert "since the last peak of trainer: seq_len was 2048, is 4096" in verdict.notes


def test_a_trainer_that_stays_may_still_grow() -> None:
    verdict = one([device(80, share_of("trainer", 10))], [engine(0.6), trainer(40)])
    assert verdict.verdict == "trainer_short"
    assert verdict.left_bytes == round(80 * GIB - 48 * GIB - CONTEXT_BYTES)


def test_a_trainer_that_never_ran_is_said_to_be_unknown() -> None:
    verdict = one([device(80)], [engine(0.5), trainer(starts=True)])
    assert verdict.verdict == "fits"
    assert "peak unknown until its first run" in verdict.text
    assert any("unknown until the first run" in note for note in verdict.notes)


def test_a_shared_device_with_little_left_for_a_trainer_that_never_ran_is_a_warning() -> None:
    verdict = one([device(80)], [engine(0.9), trainer(starts=True)])
    assert verdict.verdict == "trainer_tight"
    assert verdict.is_bad
    assert verdict.suggested_utilization == 0.5
    assert "(0.9 × 80.0) of GPU 0 and leaves" in verdict.text
    assert verdict.text.endswith("unknown until its first run; start with gpu_memory_utilization = 0.5")


def test_a_trainer_beside_an_engine_that_runs() -> None:
    shared = device(80, share_of("inference", 60))
    running = replace(engine(0.75), starts=False)
    verdict = one([shared], [running, trainer(30, starts=True)])
    assert (verdict.component, verdict.verdict) == ("trainer", "trainer_short")
    assert verdict.text == (
        "trainer will not fit: its peak was 30.0 GiB, 20.0 free on GPU 0: 60.0 held by inference; restart"
        " inference with gpu_memory_utilization = 0.6 or less"
    )
    assert one([shared], [running, trainer(19, starts=True)]).verdict == "fits"
    assert one([shared], [running, trainer(starts=True)]).verdict == "unknown"


def test_a_trainer_alone() -> None:
    verdict = one([device(80, share_of(None, 60, "other"))], [trainer(30, starts=True)])
    assert verdict.text == (
        "trainer will not fit: its peak was 30.0 GiB, 20.0 free on GPU 0: 60.0 held by another user; free"
        " the memory first, or reduce the memory use of trainer"
    )


def test_old_versions_take_their_graphs_beside_the_budget() -> None:
    old = with_engine(engine(0.5), version=(0, 16))
    measurements = EngineMeasurements(graphs_bytes=3 * GIB, version=(0, 16))
    lefts = [
        one([device(80)], [user, trainer(5, starts=True)]).left_bytes
        for user in (engine(0.5), old, with_engine(old, measured=measurements))
    ]
    assert lefts == [40 * GIB - CONTEXT_BYTES - extra for extra in (0, GIB, 3 * GIB)]


def test_what_the_last_attempt_took_beside_its_budget_is_believed() -> None:
    measurements = EngineMeasurements(budget_bytes=40 * GIB)
    user_before = replace(engine(0.5, measured=measurements), peak_bytes={A: 42 * GIB})
    assert one([device(80)], [user_before]).left_bytes == 38 * GIB
    other_attempt = replace(user_before, peak_bytes={A: 72 * GIB})
    assert one([device(80)], [other_attempt]).left_bytes == 40 * GIB - CONTEXT_BYTES


def test_too_little_for_any_cache_says_which_utilization_has_some() -> None:
    small = engine(0.1, shape=ModelShape(weights_bytes=16 * GIB))
    verdict = one([device(80)], [small])
    assert verdict.verdict == "no_kv_cache"
    assert verdict.suggested_utilization == 0.22
    assert one([device(80)], [with_engine(small, utilization=0.22)]).verdict == "fits"
    assert one([device(80)], [with_engine(small, utilization=0.21)]).verdict == "no_kv_cache"


def test_too_little_for_one_request_says_which_length_would_do() -> None:
    shape = ModelShape(weights_bytes=16 * GIB, kv_bytes_per_token=1 << 20, max_positions=100_000)
    verdict = one([device(80)], [engine(0.9, shape=shape)])
    assert verdict.verdict == "no_kv_cache"
    assert f"use max_model_len = {verdict.kv_cache_tokens} or less" in verdict.text
    assert "no gpu_memory_utilization helps" in verdict.text


def test_a_model_that_leaves_no_way_gets_no_suggestion() -> None:
    huge = engine(0.9, shape=ModelShape(weights_bytes=70 * GIB))
    verdict = one([device(80, share_of("trainer", 40))], [huge, trainer()])
    assert verdict.verdict == "will_refuse"
    assert verdict.suggested_utilization is None
    assert "no gpu_memory_utilization is small enough" in verdict.text


def test_a_cache_of_a_set_size_does_not_follow_the_utilization() -> None:
    shape = ModelShape(weights_bytes=16 * GIB, kv_bytes_per_token=1 << 17)
    user = engine(0.9, kv_cache_memory_bytes=10 * GIB, enforce_eager=True, shape=shape)
    verdict = one([device(80)], [user, trainer(60, starts=True)])
    assert verdict.verdict == "trainer_short"
    assert verdict.left_bytes == 80 * GIB - 26 * GIB - CONTEXT_BYTES
    assert verdict.safe_utilization is None
    assert "lower kv_cache_memory_bytes" in verdict.text


def test_engines_that_start_one_after_another_on_one_device() -> None:
    judge = replace(engine(0.5), component="judge")
    first, second = map(memory_verdict, forecast([device(80)], [engine(0.5), judge]))
    assert (first.verdict, second.verdict) == ("fits", "will_refuse")
    assert "reserved for inference" in second.text
    assert second.free_bytes == 40 * GIB - CONTEXT_BYTES


def test_each_device_has_its_verdict_and_the_worst_speaks_for_all() -> None:
    devices = [device(80), device(80, share_of(None, 50, "unknown"), uuid="GPU-b", index=1)]
    user = replace(engine(0.9, tensor_parallel=2), devices=(A, "/GPU-b", "/GPU-gone"))
    results = forecast(devices, [user, trainer(1, starts=True)])
    assert [(one.plan.device.index, one.verdict) for one in results] == [(0, "fits"), (1, "will_refuse")]
    assert "cuda:1" in memory_verdict(results[1]).notes[0]
    assert worst_per_component(results) == (results[1],)
    assert worst_per_component(results[:1] * 2) == results[:1]


def test_a_device_that_cannot_be_read() -> None:
    broken = GpuDevice(index=3, uuid="GPU-a", problem="fell off the bus")
    verdict = one([broken], [engine(0.9)])
    assert (verdict.verdict, verdict.is_bad) == ("unknown", False)
    assert verdict.text == "inference: cannot read the memory of GPU 3 (fell off the bus)"


def test_a_close_call_is_told() -> None:
    close = one([device(80, share_of(None, 7.8, "other"))], [engine(0.9), trainer(starts=False)])
    assert close.verdict == "fits"
    assert "only 205 MiB to spare" in close.notes[0]
    tight = one([device(80)], [engine(0.9), trainer(7, starts=True)])
    assert tight.verdict == "fits"
    assert any("only 410 MiB beyond the peak of trainer" in note for note in tight.notes)


def test_figures_that_look_alike_get_more_digits() -> None:
    verdict = one([device(80, share_of(None, 8.01, "other"))], [engine(0.9)])
    assert verdict.text.startswith("inference needs 72.0000 GiB free on GPU 0 (0.9 × 80.0), 71.9900 free")


def test_nothing_starts_nothing_is_said() -> None:
    assert forecast([device(80)], [replace(engine(0.9), starts=False), trainer(3)]) == ()


SIZES = st.floats(8, 200)
UTILIZATIONS = st.integers(1, 100).map(lambda part: part / 100)


@given(SIZES, st.floats(0, 1), UTILIZATIONS)
def test_it_refuses_just_where_less_is_free_than_the_budget(
    total: float, held_frac: float, utilization: float
) -> None:
    verdict = one([device(total, share_of("trainer", total * held_frac))], [engine(utilization), trainer()])
    assert verdict.free_bytes is not None
    assert verdict.budget_bytes is not None
    assert (verdict.verdict == "will_refuse") == (verdict.free_bytes < verdict.budget_bytes)


@given(SIZES, st.floats(0, 1), UTILIZATIONS)
def test_the_trainer_is_short_just_where_less_is_left_than_its_peak(
    total: float, peak_frac: float, utilization: float
) -> None:
    verdict = one([device(total)], [engine(utilization), trainer(total * peak_frac, starts=True)])
    assert verdict.left_bytes is not None
    assert verdict.peak_bytes is not None
    assert (verdict.verdict == "trainer_short") == (verdict.left_bytes < verdict.peak_bytes)


@given(SIZES, st.floats(0, 1), st.floats(0, 1), UTILIZATIONS, st.booleans(), st.floats(0, 40))
def test_a_suggestion_helps_when_it_is_followed(
    total: float, held_frac: float, peak_frac: float, utilization: float, starts: bool, weights: float
) -> None:
    devices = [device(total, share_of("trainer", total * held_frac))]
    beside = trainer(total * peak_frac, starts=starts, stops=starts)
    user = engine(utilization, shape=ModelShape(weights_bytes=round(weights * GIB)))
    verdict = one(devices, [user, beside])
    suggested = verdict.suggested_utilization
    assert suggested is None or verdict.is_bad
    if suggested is not None:
        assert 0.01 <= suggested <= 1
        assert one(devices, [with_engine(user, utilization=suggested), beside]).verdict == "fits"


@given(SIZES, st.floats(0, 1), UTILIZATIONS, st.booleans())
def test_the_safe_utilization_fits_with_room_and_the_next_does_not(
    total: float, peak_frac: float, utilization: float, runs: bool
) -> None:
    peak = total * peak_frac
    devices = [device(total, *([share_of("trainer", peak / 2)] if runs else []))]
    users = [engine(utilization), trainer(peak, starts=not runs)]
    assume(runs is False or peak > 1)
    verdict = one(devices, users)
    safe = verdict.safe_utilization
    if safe is not None:
        assert 0.01 <= safe <= 1
        best = one(devices, [with_engine(users[0], utilization=safe), users[1]])
        assert best.verdict == "fits"
        assert not any(note.startswith("tight") for note in best.notes)
    above = one(devices, [with_engine(users[0], utilization=round((safe or 0) + 0.01, 2)), users[1]])
    assert above.left_bytes is not None
    assert above.peak_bytes is not None
    assert above.left_bytes - above.peak_bytes < MARGIN_BYTES
    assert above.is_bad or any(note.startswith("tight") for note in above.notes)


@pytest.mark.parametrize("kind", ["unified", "v1"])
def test_other_kinds_of_memory_go_by_what_is_free(kind: str) -> None:
    spark = device(120, memory_kind=kind, used_bytes=None, free_bytes=60 * GIB)
    verdict = one([spark], [engine(0.9)])
    assert verdict.verdict == "will_refuse"
    assert any("unified" in note for note in verdict.notes) == (kind == "unified")


def small_device(index: int, *, free: float, **values: object) -> GpuDevice:
    base = {"index": index, "total_bytes": 80 * GIB, "free_bytes": round(free * GIB)}
    return GpuDevice.from_plain(base | values)


def lack_of_memory(devices: list[GpuDevice], utilization: float) -> str | None:
    refused = refused_start(devices, EngineMemory("inference", utilization, rules=VLLM.memory))
    return None if refused is None else wait_text(refused)


def test_names_what_is_needed_free_and_held() -> None:
    holders = (
        GpuProcess(pid=4711, used_bytes=58 * GIB, name="VLLM::EngineCore"),
        GpuProcess(pid=9, used_bytes=9 * GIB, component="trainer", name="python"),
        GpuProcess(pid=8, used_bytes=GIB // 4, name="xorg"),
    )
    full = small_device(0, free=12.1, reserved_bytes=GIB // 10, processes=holders)
    assert lack_of_memory([full], 0.9) == (
        "GPU 0: needs 71.9 GiB free, 12.1 GiB free, 58.0 GiB held by pid 4711 VLLM::EngineCore, "
        "9.0 GiB held by trainer pid 9 python"
    )


def test_enough_memory_and_unreadable_devices_are_no_obstacle() -> None:
    roomy, full = small_device(0, free=73), small_device(1, free=1)
    assert lack_of_memory([roomy], 0.9) is None
    assert lack_of_memory([roomy, full], 0.9) is not None
    assert lack_of_memory([GpuDevice(index=0, problem="lost")], 0.9) is None
    assert lack_of_memory([], 0.9) is None
    claim = GpuReservation(experiment="b", device=roomy.key, size_bytes=70 * GIB, left_bytes=70 * GIB)
    assert lack_of_memory([roomy.replace(claims=(claim,))], 0.9) is None, "free until taken"


def test_a_budget_that_is_just_free_is_no_obstacle_and_a_slice_is_named() -> None:
    piece = GpuDevice(index=2, mig=1, total_bytes=1001, free_bytes=501)
    assert lack_of_memory([piece], 0.5) is None
    lacking = lack_of_memory([piece.replace(free_bytes=500)], 0.5)
    assert lacking is not None
    assert lacking.startswith("GPU 2.1: ")
