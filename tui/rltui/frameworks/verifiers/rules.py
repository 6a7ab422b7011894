"""Rules between the knobs of a vf-rl file, and advice for a run that goes wrong."""

from __future__ import annotations

from collections.abc import Mapping

from rltui.core import hints
from rltui.core.config.batch import micro_batches
from rltui.core.config.rules import (
    Rule,
    Values,
    bad_if,
    divisible,
    holds,
    nearest_multiples,
    requires,
    room_for_prompts,
    same,
    scaled,
)
from rltui.core.experiment.servers import LOOPBACK_HOSTS
from rltui.frameworks.verifiers.files import ARGS

BATCH, GROUP, MICRO = f"{ARGS}.batch_size", f"{ARGS}.rollouts_per_example", f"{ARGS}.micro_batch_size"
LENGTH, PROMPT, ANSWER = f"{ARGS}.max_seq_len", f"{ARGS}.max_prompt_len", f"{ARGS}.max_tokens"
RATE, TEMPERATURE, LORA = f"{ARGS}.learning_rate", f"{ARGS}.temperature", f"{ARGS}.use_lora"
CLIENT_PORT, SERVER_PORT = f"{ARGS}.vllm_server_port", "inference.args.port"
CLIENT_HOST = f"{ARGS}.vllm_server_host"
MODEL_LENGTH, TENSOR = "inference.args.max_model_len", "inference.args.tensor_parallel_size"
_COMMON_RATES = {True: (1e-5, 1e-4), False: (1e-6, 1e-5)}
"""Key: with LoRA, or without."""


def rules() -> tuple[Rule, ...]:
    return (
        micro_batches(BATCH, MICRO),
        holds(BATCH, GROUP),
        _whole_groups(),
        same(CLIENT_PORT, SERVER_PORT),
        room_for_prompts(ANSWER, MODEL_LENGTH),
        room_for_prompts(ANSWER, LENGTH, severity="warning"),
        _answer_as_long_as_the_model(),
        divisible("inference.gpus", TENSOR),
        bad_if(
            lambda v: v["trainer.gpus"] > 1, "trainer.gpus", (),
            lambda v: (
                f"trainer.gpus is {v['trainer.gpus']}, but vf-train is one process: additional GPUs"
                " only share its micro-batches (nn.DataParallel); give them to inference.gpus, or use"
                f" prime-rl: {hints.CONVERT_FILE}"
            ), "warning",
        ),
        bad_if(
            lambda v: v[CLIENT_HOST] not in LOOPBACK_HOSTS, CLIENT_HOST, (),
            lambda v: f"vf-train would use {v[CLIENT_HOST]}, but vf-vllm starts here: remove {CLIENT_HOST}",
            "warning",
        ),
        bad_if(
            lambda v: bool(v[f"{ARGS}.resume_from_checkpoint"]), f"{ARGS}.resume_from_checkpoint", (),
            "vf-train ignores resume_from_checkpoint and starts at step 0; to continue, set the folder of the"
            " checkpoint as the model",
            "warning",
        ),
        _common_rate(),
        requires(f"{ARGS}.load_best_model_at_end", f"{ARGS}.save_only_model", False),
    )  # fmt: skip


def _whole_groups() -> Rule:
    """vf-train takes whole groups and silently drops the rest."""
    return bad_if(
        lambda v: v[BATCH] >= v[GROUP] and v[BATCH] % v[GROUP], BATCH, (GROUP,),
        lambda v: (
            f"{BATCH} ({v[BATCH]}) is not a multiple of {GROUP} ({v[GROUP]}): vf-train makes"
            f" {v[BATCH] // v[GROUP] * v[GROUP]} rollouts and silently drops the rest; nearest valid:"
            f" {nearest_multiples(v[BATCH], v[GROUP])}"
        ), "warning",
    )  # fmt: skip


def _answer_as_long_as_the_model() -> Rule:
    """Warn that an answer without `max_tokens` may be as long as `max_seq_len`."""
    return bad_if(
        lambda v: v[ANSWER] is None and v[MODEL_LENGTH] is not None and v[LENGTH] >= v[MODEL_LENGTH],
        LENGTH, (ANSWER, MODEL_LENGTH),
        lambda v: (
            f"{LENGTH} ({v[LENGTH]}) also limits the answer while {ANSWER} is not set, and leaves no"
            f" room for a prompt within {MODEL_LENGTH} ({v[MODEL_LENGTH]}): set {ANSWER}, or raise the"
            " limit"
        ),
    )  # fmt: skip


def _common_rate() -> Rule:
    def fault(v: Values) -> str | None:
        low, high = _COMMON_RATES[v[LORA]]
        if not v[RATE] or low <= v[RATE] <= high:
            return None
        kind = "with LoRA" if v[LORA] else "for all weights"
        return f"{RATE} is {v[RATE]:g}; usual {kind} is {low:g} to {high:g}"

    return Rule(RATE, (RATE, LORA), fault, "hint")


def advice(v: Values) -> Mapping[str, str]:
    """Id of a health rule → advice for this config, from the tutorial of vf.RLTrainer."""
    smaller = f"{_half(RATE, v)}, {_double(GROUP, v)} or {_double(BATCH, v)}"
    steadier = f"in this config: {smaller}"
    warmer = scaled(TEMPERATURE, v, 1.2)
    livelier = f"in this config: {_double(RATE, v)} or {warmer}"
    base = f"first evaluate the base model: {hints.EVAL_BASE}"
    shorter = ", ".join(filter(None, (_half(GROUP, v), _half(BATCH, v), _half(ANSWER, v))))
    return {
        **dict.fromkeys(("non-finite", "reward-collapse", "kl", "importance-ratio", "grad-norm"), steadier),
        "entropy-collapse": f"in this config: {warmer} or {_half(RATE, v)}",
        "flat": f"{base}; {livelier}",
        "no-signal": f"{base}; in this config: {warmer} or {_double(GROUP, v)}",
        "truncation": f"in this config: {_double(ANSWER, v)}",
        "throughput": f"faster steps: {shorter}",
    }


def _half(name: str, v: Values) -> str:
    return scaled(name, v, 0.5)


def _double(name: str, v: Values) -> str:
    return scaled(name, v, 2)
