from __future__ import annotations

from collections.abc import Sequence

from rltui.core.metrics.bottleneck import BottleneckKnobs, bottleneck
from rltui.core.metrics.engine import InferenceActivity
from rltui.core.metrics.tracks import RunTracks

KNOBS = BottleneckKnobs(in_flight="in.flight", kv_memory="kv.memory", sequences="max.seqs", lead="lead")
NAMES = {"trainer": "trainer", "orchestrator": "orchestrator", "inference": "inference"}


def run(*, batch: float | None = 0.0, policy: float | None = 0.0, steps: int = 12) -> RunTracks:
    """Steps of 10 s, of which the trainer waits `batch` and the orchestrator `policy`."""
    tracks = RunTracks()
    for step in range(1, steps + 1):
        waited = {} if batch is None else {"time/wait_for_batch": batch}
        tracks.add({"step": step, "time": 1e9 + 10 * step, "loss/mean": 0.1, **waited}, 0.0)
        waited = {} if policy is None else {"time/wait_for_policy": policy}
        tracks.add({"step": step, "time": 1e9 + 10 * step, "train/reward": 0.1, **waited}, 0.0)
    return tracks


def bottleneck_of(figures: RunTracks, activities: Sequence[InferenceActivity] = ()) -> tuple[str, str | None]:
    result = bottleneck(figures, activities, KNOBS, NAMES)
    return ("", None) if result is None else (result.text, result.knob)


def busy(running: int, waiting: int, kv: float | None) -> list[InferenceActivity]:
    return [InferenceActivity(running=running, waiting=waiting, kv_usage_frac=kv)] * 3


def test_whoever_waits_most_is_told_with_the_knob() -> None:
    assert bottleneck_of(run(batch=1.0, policy=2.0)) == ("", None), "nobody waits much"
    text, knob = bottleneck_of(run(batch=6.0, policy=3.0))
    assert text.startswith("trainer waits for a batch 60 % of the time (last 10 steps); rollouts are slower")
    assert knob == "in.flight"
    text, knob = bottleneck_of(run(batch=1.0, policy=4.0))
    assert text.startswith("orchestrator waits for weights 40 % of the time")
    assert knob == "lead"
    text, knob = bottleneck_of(run(batch=0.5, policy=4.0))
    assert text.endswith(
        "training is slower than rollouts: give the trainer more compute, or less work per step"
    )
    assert knob is None, "the trainer hardly waits: to be further ahead would not help"


def test_what_the_servers_do_tells_why_batches_are_late() -> None:
    late = run(batch=6.0)
    assert "the KV cache is full (97 %)" in bottleneck_of(late, busy(64, 100, 0.97))[0]
    assert bottleneck_of(late, busy(64, 100, 0.97))[1] == "kv.memory"
    assert "100 requests are waiting for the server" in bottleneck_of(late, busy(64, 100, 0.4))[0]
    assert bottleneck_of(late, busy(64, 100, 0.4))[1] == "max.seqs"
    assert "the server has room (3 requests running)" in bottleneck_of(late, busy(3, 0, 0.1))[0]


def test_where_no_metrics_tell_the_queue_does() -> None:
    silent = run(batch=None, policy=None)
    assert bottleneck_of(silent) == ("", None)
    assert bottleneck_of(silent, busy(60, 2, 0.5)) == ("", None)
    assert bottleneck_of(silent, busy(30, 90, 0.95)) == (
        "90 of 120 requests to inference wait for KV cache; give the cache more memory (kv.memory)",
        "kv.memory",
    )  # fmt: skip
    assert bottleneck_of(silent, busy(30, 90, None))[1] == "max.seqs"


def test_a_restart_between_two_steps_is_no_waiting() -> None:
    figures = run(batch=6.0)
    figures.add({"step": 13, "time": 1e9 + 5000, "loss/mean": 0.1, "time/wait_for_batch": 4000.0}, 0.0)
    result = bottleneck(figures, (), KNOBS, NAMES)
    assert result is not None
    assert (result.share_frac, result.steps) == (0.6, 9)


def test_too_few_steps_tell_nothing() -> None:
    assert bottleneck_of(run(batch=9.0, steps=3)) == ("", None)
    assert bottleneck_of(RunTracks()) == ("", None)


def test_what_waited_before_the_present_start_says_nothing_of_it() -> None:
    """Finding R9: "waits for a batch 84 %" stood there while the trainer was importing."""
    figures = run(batch=6.0)
    last = figures.trained.last(1)[0]
    assert bottleneck(figures, (), KNOBS, NAMES, started=last + 1) is None
    assert bottleneck(figures, (), KNOBS, NAMES, started=0.0) is not None
