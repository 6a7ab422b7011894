"""Knobs of `[orchestrator]`."""

from __future__ import annotations

from dataclasses import replace

from rltui.core.knobs import Knob
from rltui.frameworks.prime_rl import rl_knobs, trainer_knobs
from rltui.frameworks.prime_rl.detection import ORCHESTRATOR
from rltui.frameworks.prime_rl.knob_tables import Place


def _at(table: str = "") -> Place:
    return Place((ORCHESTRATOR,), f"orchestrator.{table}" if table else "orchestrator")


_TOKENS = Knob(
    "token_batch_size", "int", (),
    "Collect rollouts until they hold this many tokens, instead of a fixed number of them.",
    nullable=True, minimum=1, unit="tokens", control="doubling",
)  # fmt: skip
_INFLIGHT = Knob(
    "max_inflight_rollouts", "int", (),
    "Rollouts that are being generated at the same time; more keep inference busier.",
    nullable=True, minimum=1, unit="rollouts", control="doubling",
)  # fmt: skip
_COMPLETION = replace(rl_knobs.MAX_TOKENS, key="max_completion_tokens")

ORCHESTRATOR_KNOBS = (
    *_at().put(
        (
            rl_knobs.BATCH_SIZE,
            _TOKENS,
            rl_knobs.GROUP,
            replace(rl_knobs.OVERSAMPLING, default=None, nullable=True),
            _INFLIGHT,
            rl_knobs.MAX_CONCURRENT,
            Knob(
                "tasks_per_minute", "int", (),
                "Rollouts that may be started per minute; without it, there is no limit.",
                nullable=True, minimum=1, unit="1/min",
            ),
            *rl_knobs.ORCHESTRATOR,
            rl_knobs.MAX_ASYNC,
            rl_knobs.STRICT_ASYNC,
            trainer_knobs.MAX_STEPS,
            rl_knobs.BASE_URL,
            rl_knobs.CLIENT_TIMEOUT,
            Knob(
                "use_token_client", "bool", (),
                "Send tokens instead of text to inference, so that both sides count the same ones.",
                default=True,
            ),
        )
    ),
    *_at("model").put((trainer_knobs.MODEL_NAME,)),
    Knob(
        "orchestrator.optim.lr", "float", (ORCHESTRATOR,),
        "Learning rate of this run where several share a trainer; else trainer.optim.lr counts.",
        1e-4, minimum=0.0,
    ),
    *_at("sampling").put((rl_knobs.TEMPERATURE, rl_knobs.MAX_TOKENS, *rl_knobs.SAMPLING)),
    *_at("sampling.temp_scheduler").put(
        (
            Knob(
                "total_steps", "int", (),
                "Steps over which the temperature changes; needed without max_steps.",
                nullable=True, minimum=1, unit="steps",
            ),
        )
    ),
    *_at("train.sampling").put(
        (rl_knobs.TEMPERATURE, _COMPLETION, rl_knobs.MAX_TOKENS, *rl_knobs.SAMPLING)
    ),
    *_at("eval").put(rl_knobs.EVAL),
    *_at("val").put(rl_knobs.VAL),
    *_at("buffer").put(
        (
            *rl_knobs.BUFFER,
            Knob(
                "skip_verification", "bool", (),
                "Do not score rollouts: all rewards are 0.",
                default=False,
            ),
        )
    ),
    *_at("ckpt").put((*trainer_knobs.CKPT, *trainer_knobs.CKPT_KEEP)),
    *_at("weight_broadcast").put((rl_knobs.BROADCAST,)),
)  # fmt: skip
