from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rltui.core.experiment.stalls import (
    LONGEST_STEP_S,
    Heartbeat,
    LivenessSignals,
    StallRule,
    WatchClock,
    phase_of,
    step_of,
)
from rltui.core.logs.lines import decode_line, plain_text
from rltui.core.metrics.engine import InferenceActivity
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.start_phases import start_phases

JOB = StallRule(silence_s=300.0, factor=10.0)
SERVICE = replace(JOB, output_suffices=False)
LOOK_S = 2.0


class Watched:
    """A component in fake time: `run` looks every two seconds, as the supervisor does."""

    def __init__(
        self, rule: StallRule, signs: LivenessSignals, *, activity: InferenceActivity | None = None
    ) -> None:
        self.pulse = Heartbeat(rule)
        self.signs = signs
        self.activity = activity
        self.answers = activity is not None
        self.time = 0.0

    def run(self, seconds: float, **growth: int) -> str | None:
        """The evidence after `seconds`; per look, the signs grow by `growth`."""
        evidence = self.observe()
        for _ in range(int(seconds / LOOK_S)):
            self.time += LOOK_S
            values = {name: getattr(self.signs, name) + more for name, more in growth.items()}
            self.signs = replace(self.signs, **values)
            evidence = self.observe()
        return evidence

    def observe(self) -> str | None:
        if self.activity is not None:
            self.pulse.answered(self.activity if self.answers else None, self.time)
        return self.pulse.observe(self.signs, self.time)

    def generate(self, tokens: int) -> None:
        assert self.activity is not None
        count = (self.activity.generated_tokens or 0) + tokens
        self.activity = replace(self.activity, generated_tokens=count)


def test_a_job_that_logs_is_alive_and_one_that_stopped_logging_is_not() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, log_bytes=0))
    assert job.run(1000, log_bytes=5) is None
    assert job.run(300) is None
    assert job.run(10) == "no output for 5m10s"
    assert job.run(2, log_bytes=1) is None, "recovered with the first sign"


def test_a_job_without_any_rhythm_is_left_alone_for_silence_s() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, log_bytes=123))
    assert job.run(300) is None
    assert job.run(2) == "no output for 5m02s"


def test_a_job_of_which_nothing_can_be_seen_is_never_stalled() -> None:
    assert Watched(JOB, LivenessSignals(pid=7)).run(10_000) is None


def test_rows_and_output_must_both_be_silent() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, log_bytes=0, metric_rows=0))
    job.run(100, log_bytes=5, metric_rows=1, metric_step=1)
    assert job.run(1000, log_bytes=5) is None, "a trainer that logs is alive"
    job.run(100, log_bytes=5, metric_rows=1, metric_step=1)
    evidence = job.run(310)
    assert evidence == "no metrics for 5m10s (usually every 2.0s), no output for 5m10s"


def test_the_own_rhythm_of_slow_steps_counts() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, log_bytes=0, metric_rows=0))
    for _ in range(5):
        job.run(100)
        job.run(2, log_bytes=5, metric_rows=1, metric_step=1)
    assert job.run(1000) is None, "10 × 102 s are not over"
    evidence = job.run(30)
    assert evidence is not None
    assert evidence.startswith("no metrics for 17m (usually every 1m42s)")


def test_the_own_rhythm_of_rare_output_counts() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, log_bytes=0))
    for _ in range(5):
        job.run(58)
        job.run(2, log_bytes=5)
    assert job.run(600) is None
    assert job.run(10) == "no output for 10m (usually every 1m00s)"


def test_output_at_every_look_does_not_lengthen_a_short_silence() -> None:
    job = Watched(replace(JOB, silence_s=4.0), LivenessSignals(pid=7, log_bytes=0))
    job.run(100, log_bytes=5)
    assert job.run(6) == "no output for 6s"


def test_steps_faster_than_the_looks_have_their_true_period() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, metric_rows=0))
    job.run(100, metric_rows=8, metric_step=8)
    assert job.run(310) == "no metrics for 5m10s (usually every 0.2s)"


def test_a_resume_that_repeats_steps_is_a_sign_of_life_without_a_period() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, metric_rows=100, metric_step=100))
    job.run(100, metric_rows=1, metric_step=1)
    job.signs = replace(job.signs, metric_rows=151, metric_step=40)
    assert job.run(300) is None
    assert job.run(10) == "no metrics for 5m10s (usually every 2.0s)"


def test_a_step_that_is_written_down_is_a_sign_of_life() -> None:
    job = Watched(JOB, LivenessSignals(pid=7, log_bytes=0, beat=1))
    job.run(100, log_bytes=5, beat=1)
    assert job.run(1000, beat=1) is None, "silent, but it trains"
    assert job.run(310) == "no step recorded for 5m10s (usually every 2.0s), no output for 21m"


def test_zero_means_never() -> None:
    job = Watched(replace(JOB, silence_s=0.0), LivenessSignals(pid=7, log_bytes=0, is_stopped=True))
    assert job.run(10_000) is None


def test_a_stopped_process_is_stalled_at_once_and_excused_when_it_goes_on() -> None:
    job = Watched(JOB, LivenessSignals(pid=4711, log_bytes=0))
    job.run(100, log_bytes=5)
    job.signs = replace(job.signs, is_stopped=True)
    assert job.observe() == "pid 4711 is stopped by a signal; resume it: kill -CONT 4711"
    job.run(1000)
    job.signs = replace(job.signs, is_stopped=False)
    assert job.run(300) is None
    assert job.run(10) is not None


def test_a_service_without_metrics_may_be_silent() -> None:
    service = Watched(SERVICE, LivenessSignals(pid=7, log_bytes=10))
    assert service.run(10_000) is None
    service.signs = replace(service.signs, is_stopped=True)
    assert service.observe() is not None


def test_an_idle_server_is_never_stalled() -> None:
    server = Watched(
        JOB, LivenessSignals(pid=7, log_bytes=10), activity=InferenceActivity(generated_tokens=344)
    )
    assert server.run(10_000) is None


def test_requests_without_tokens_are_a_stall_even_if_it_logs() -> None:
    busy = InferenceActivity(running=128, waiting=12, generated_tokens=344)
    server = Watched(SERVICE, LivenessSignals(pid=7, log_bytes=10), activity=busy)
    assert server.run(300, log_bytes=5) is None
    evidence = "no token for 5m10s while 128 requests are running and 12 waiting"
    assert server.run(10, log_bytes=5) == evidence
    server.generate(1)
    assert server.run(300, log_bytes=5) is None


def test_the_silence_begins_with_the_requests() -> None:
    idle = InferenceActivity(generated_tokens=344)
    server = Watched(SERVICE, LivenessSignals(pid=7), activity=idle)
    server.run(1000)
    server.activity = replace(idle, running=1)
    assert server.run(300) is None
    assert server.run(4) is not None
    server.activity = idle
    assert server.observe() is None


def test_a_server_that_is_seldom_asked_is_not_stalled_between_two_answers() -> None:
    pulse = Heartbeat(replace(SERVICE, silence_s=5.0))
    pulse.answered(InferenceActivity(running=1, generated_tokens=1), 0.0)
    assert pulse.observe(LivenessSignals(pid=7), 9.0) is None, "nobody knows what it did since"
    pulse.answered(InferenceActivity(running=1, generated_tokens=2), 10.0)
    assert pulse.observe(LivenessSignals(pid=7), 19.0) is None
    pulse.answered(InferenceActivity(running=1, generated_tokens=2), 20.0)
    assert pulse.observe(LivenessSignals(pid=7), 20.0) is not None


def test_requests_that_only_wait_are_a_stall_where_it_is_silent_otherwise() -> None:
    queued = InferenceActivity(waiting=3, generated_tokens=344)
    server = Watched(SERVICE, LivenessSignals(pid=7, log_bytes=10), activity=queued)
    assert server.run(1000, log_bytes=1) is None
    evidence = server.run(400)
    assert evidence is not None
    assert "no token" in evidence
    assert "no output for" in evidence


def test_a_server_that_answered_once_and_is_silent_now() -> None:
    server = Watched(
        SERVICE, LivenessSignals(pid=7, log_bytes=10), activity=InferenceActivity(generated_tokens=1)
    )
    server.run(100)
    server.answers = False
    assert server.run(300) is None
    assert server.run(12) == "no output for 6m52s, no request metrics for 5m12s"
    assert server.run(2, log_bytes=1) is None, "it logs, so it lives"
    server.answers = True
    assert server.run(400) is None


def test_an_address_that_never_answered_is_no_evidence() -> None:
    pulse = Heartbeat(SERVICE)
    for second in range(0, 1000, 2):
        pulse.answered(None, float(second))
        assert pulse.observe(LivenessSignals(pid=7, log_bytes=1), float(second)) is None


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_clock_that_jumps_or_a_machine_that_slept_is_no_silence(jump_s: float) -> None:
    clock, pulse = WatchClock(), Heartbeat(JOB)
    now = 10_000.0
    for _ in range(10):
        now += LOOK_S
        assert pulse.observe(LivenessSignals(pid=7, log_bytes=1), clock.read(now)) is None
    now += jump_s
    assert pulse.observe(LivenessSignals(pid=7, log_bytes=1), clock.read(now)) is None
    assert clock.read(now) <= 20 + LONGEST_STEP_S
    evidence = None
    for _ in range(160):
        now += LOOK_S
        evidence = pulse.observe(LivenessSignals(pid=7, log_bytes=1), clock.read(now))
    assert evidence is not None


def test_a_server_that_answers_no_more_is_a_stall_though_it_last_said_that_nothing_runs() -> None:  # G9
    pulse = Heartbeat(StallRule(silence_s=300, factor=10, output_suffices=False))
    pulse.answered(InferenceActivity(running=0, waiting=0, generated_tokens=7), 0)
    assert pulse.observe(LivenessSignals(log_bytes=100), 0) is None
    pulse.answered(None, 10)
    assert pulse.observe(LivenessSignals(log_bytes=100), 300) is None
    assert (
        pulse.observe(LivenessSignals(log_bytes=100), 320)
        == "no output for 5m20s, no request metrics for 5m10s"
    )


REAL = Path(__file__).parents[2] / "data" / "vllm-0.32-cpu-startup.log"


def test_a_real_start_goes_through_its_phases() -> None:
    lines = [plain_text(decode_line(line)) for line in REAL.read_bytes().split(b"\n")]
    phases = dict.fromkeys(phase_of(lines[:end], start_phases(VLLM)) for end in range(1, len(lines)))
    assert list(phases) == [
        None,
        "reading arguments",
        "reading the model's config",
        "starting the engine",
        "loading the model",
        *[phase for phase in phases if phase and phase.startswith("loading weights")],
        "weights loaded",
        *[phase for phase in phases if phase in ("warming up", "warmed up", "compiles", "compiled")],
        "KV cache ready",
        "engine ready",
        "opening the port",
    ]


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]", "loading weights 50 %"),
        ("Capturing CUDA graphs (decode, FULL):  25%|██▌  | 1/4", "capturing CUDA graphs 25 %"),
        (
            "(EngineCore_DP0 pid=7) INFO 11-20 23:33:00 [x.py:1] Model loading took 1.1201 GiB memory",
            "model loaded",
        ),
        ("09:00:00    INFO Waiting for policy inference pool to be ready", "waiting for inference"),
        ("09:00:09 SUCCESS Policy inference pool ready after 9s", "inference ready"),
        ("09:00:00    INFO Loading train environments (a, b)", "waiting for the env servers"),
        (
            "09:00:09    INFO Syncing inference to the trainer's startup broadcast (v0)",
            "waiting for the trainer's weights",
        ),
        ("09:01:00 WARNING Still waiting for the receiver of v0 after 60s", "waiting for a peer"),
        ("step 3", None),
        ("7" * 65_000, None),
    ],
)
def test_phases_by_line(line: str, phase: str | None) -> None:
    assert phase_of([line], start_phases(VLLM)) == phase


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        (["Step 7 | Loss 0.4", "Saving weights"], 7),
        (["20:57:33 SUCCESS Step 8 | Time 0.1s", "20:57:33 SUCCESS Step 9 | Time 0.1s"], 9),
        (["Footstep 3", "max_steps=380"], None),
    ],
)
def test_the_newest_step_of_an_output(lines: list[str], step: int | None) -> None:
    assert step_of(lines) == step
