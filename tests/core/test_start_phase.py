from __future__ import annotations

from pathlib import Path

import pytest

from rltui.core.lines import decode_line, plain_text
from rltui.core.stalls import phase_of

REAL = Path(__file__).parents[1] / "data" / "vllm-0.32-cpu-startup.log"


def test_a_real_start_goes_through_its_phases() -> None:
    lines = [plain_text(decode_line(line)) for line in REAL.read_bytes().split(b"\n")]
    told = dict.fromkeys(phase_of(lines[:end]) for end in range(1, len(lines)))
    assert list(told) == [
        None,
        "reads its arguments",
        "reads the model's config",
        "starts its engine",
        "loads the model",
        *[phase for phase in told if phase and phase.startswith("loads weights")],
        "weights loaded",
        *[phase for phase in told if phase in ("compiles", "compiled")],
        "KV cache made",
        "engine ready",
        "opens its port",
    ]


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]", "loads weights 50 %"),
        ("Capturing CUDA graphs (decode, FULL):  25%|██▌  | 1/4", "captures CUDA graphs 25 %"),
        (
            "(EngineCore_DP0 pid=7) INFO 11-20 23:33:00 [x.py:1] Model loading took 1.1201 GiB memory",
            "model loaded",
        ),
        ("09:00:00    INFO Waiting for policy inference pool to be ready", "waits for inference"),
        ("09:00:09 SUCCESS Policy inference pool ready after 9s", "inference is there"),
        ("09:00:00    INFO Loading train environments (a, b)", "waits for the env servers"),
        (
            "09:00:09    INFO Syncing inference to the trainer's startup broadcast (v0)",
            "waits for the trainer's weights",
        ),
        ("09:01:00 WARNING Still waiting for the receiver of v0 after 60s", "waits for its partner"),
        ("step 3", None),
        ("7" * 65_000, None),
    ],
)
def test_phases_by_line(line: str, phase: str | None) -> None:
    assert phase_of([line]) == phase
