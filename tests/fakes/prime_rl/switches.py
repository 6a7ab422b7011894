"""Environment variables by which tests set pace and failures of the stand-ins."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switches:
    """How this process behaves; each field is the variable `STANDIN_<FIELD>`."""

    step_s: float
    """Time that a training step takes."""
    eval_s: float
    """Time that an evaluation during SFT takes."""
    load_s: float
    """Time that the server takes to load its model."""
    oom_at: str
    """`trainer:7`: this program ends at this step for lack of GPU memory."""
    die_at: str
    """`orchestrator:3`: this program ends at this step with a traceback."""
    refuse: str
    """`orchestrator.batch_size=96`: a program that reads this value ends with code 1."""
    shows: frozenset[str]
    """What the figures of a run show: `discards`, `seats` (several agents), `teacher` (a distillation),
    `mismatch` (after a resume).
    """
    gpus: int
    """How many GPUs the launcher finds where `CUDA_VISIBLE_DEVICES` does not say."""


def switches() -> Switches:
    def read(name: str, default: str) -> str:
        return os.environ.get(f"STANDIN_{name}", default)

    return Switches(
        step_s=float(read("STEP_S", "0.05")),
        eval_s=float(read("EVAL_S", "0.05")),
        load_s=float(read("LOAD_S", "0.05")),
        oom_at=read("OOM_AT", ""),
        die_at=read("DIE_AT", ""),
        refuse=read("REFUSE", ""),
        shows=frozenset(filter(None, read("SHOWS", "").split(","))),
        gpus=int(read("GPUS", "8")),
    )
