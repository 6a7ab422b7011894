"""What a supervised trainer will need before it ever ran, and what to lower."""

from __future__ import annotations

from dataclasses import replace

from rltui.core.gpu.forecast import MemoryUser, forecast
from rltui.core.gpu.report import GpuDevice
from rltui.core.gpu.training import Training, TrainingNeed, TrainingShape
from rltui.views.gpu.forecast import memory_verdict

GIB = 1 << 30
SEED = Training("sft", "Qwen3-0.6B", 4, 4096, 32, "data.micro_batch_size", "data.seq_len")
"""The `sft.toml` of the tutorials."""
SHAPE = TrainingShape(596_049_920, 28, 71_848, 1024, 151_936)
"""Of Qwen3-0.6B; the bytes per layer as torch counted them."""
NEED = TrainingNeed(SEED, SHAPE)


def test_the_seed_fits_a_large_gpu_and_not_a_small_one() -> None:
    """The tutorial is tuned for 80 GB, and says to lower the micro-batch on 24."""
    assert 60 * GIB < (NEED.estimate_bytes() or 0) < 66 * GIB
    alone = replace(SEED, micro_batch=1, seq_len=2048)
    assert 14 * GIB < (NEED.estimate_bytes(alone) or 0) < 17 * GIB
    halves = TrainingNeed(replace(SEED, processes=2), SHAPE)
    assert (NEED.estimate_bytes() or 0) - (halves.estimate_bytes() or 0) == 8 * SHAPE.parameters
    assert (NEED.estimate_bytes(replace(SEED, recomputes=True)) or 0) < 0.6 * (NEED.estimate_bytes() or 0)
    assert TrainingNeed(replace(SEED, is_full=False), SHAPE).estimate_bytes() is None
    assert TrainingNeed(SEED).estimate_bytes() is None


def test_ladder_lowers_the_micro_batch_first_and_keeps_it_a_divisor() -> None:
    rungs = [(item.micro_batch, item.seq_len) for item in NEED.ladder()]
    assert rungs == [(2, 4096), (1, 4096), (1, 2048), (1, 1024), (1, 512)]
    odd = TrainingNeed(replace(SEED, micro_batch=9, batch=18, seq_len=600))
    assert [item.micro_batch for item in odd.ladder()] == [3, 1]
    assert TrainingNeed(replace(SEED, micro_batch=1, seq_len=512)).advice(GIB) == ""


def test_advice_is_the_first_rung_that_fits() -> None:
    assert NEED.advice(40 * GIB) == "write data.micro_batch_size = 2 (about 35.8 GiB)"
    assert NEED.advice(21 * GIB).startswith("write data.micro_batch_size = 1 and data.seq_len = 2048")
    whole = "lower data.micro_batch_size 4 → 2 → 1, then data.seq_len 4096 → 2048 → 1024 → 512"
    assert NEED.advice(GIB) == whole, "none of them fits"
    assert TrainingNeed(SEED).advice(40 * GIB) == whole
    measured = 40 * GIB
    assert "= 2 (about 24.4 GiB)" in NEED.advice(30 * GIB, measured), "moved by what a first run showed"


def verdict(need: TrainingNeed | None, used_gib: int, peak_gib: int | None = None) -> tuple[str, str]:
    gpu = GpuDevice(
        index=0,
        uuid="GPU-0",
        total_bytes=80 * GIB,
        used_bytes=used_gib * GIB,
        free_bytes=(80 - used_gib) * GIB,
    )
    peaks = {} if peak_gib is None else {gpu.key: peak_gib}
    user = MemoryUser("sft", (gpu.key,), starts=True, training=need, peak_bytes=peaks)
    (result,) = forecast([gpu], [user])
    return result.verdict, memory_verdict(result).text


def test_forecast_says_so_before_the_first_start() -> None:
    kind, text = verdict(NEED, 0)
    assert kind == "unknown"
    assert text.startswith(
        "sft should fit: about 62.8 GiB estimated from model and micro-batch (4 × 4096 tokens"
    )
    kind, text = verdict(NEED, 20)
    assert kind == "unknown", "so near that the figure is too rough to stop anybody"
    assert "sft may not fit" in text
    assert text.endswith("write data.micro_batch_size = 2 (about 35.8 GiB)")
    kind, text = verdict(NEED, 50)
    assert kind == "trainer_tight", "asks before it starts"
    kind, text = verdict(TrainingNeed(SEED), 0)
    assert kind == "unknown"
    assert "unknown until its first run" in text
    assert "if that is not enough, lower data.micro_batch_size 4 → 2 → 1" in text
    assert "if that is not enough" not in verdict(None, 0)[1]


def test_what_was_seen_goes_before_the_estimate() -> None:
    assert verdict(NEED, 0, peak_gib=30 * GIB)[0] == "fits"
    kind, text = verdict(NEED, 55, peak_gib=30 * GIB)
    assert kind == "trainer_short"
    assert text.endswith("free the memory first, or write data.micro_batch_size = 2 (about 19.4 GiB)")
