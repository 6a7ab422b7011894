"""Figures that follow from a config of this generation."""

from __future__ import annotations

from collections.abc import Iterator

from rltui.core.config_report import DerivedValue
from rltui.frameworks.base import ConfigFiles, figure
from rltui.frameworks.batch_figures import batch_figures, packing_figures
from rltui.frameworks.prime_rl.current.check import CHECKS
from rltui.frameworks.prime_rl.current.knobs_orchestrator import BATCH
from rltui.frameworks.prime_rl.current.rules_rl import has_inference, is_single
from rltui.frameworks.prime_rl.current.spelling import spelled
from rltui.frameworks.prime_rl.sft_figures import sft_figures
from rltui.frameworks.rule_makers import Values, is_on

_MAX_TOKENS = "orchestrator.train.sampling.max_completion_tokens"


def derive(files: ConfigFiles) -> tuple[DerivedValue, ...]:
    """What a step amounts to. Empty while a value has a wrong type or is out of bounds."""
    values = CHECKS.sound_values(spelled(files))
    if values is None:
        return ()
    found: list[DerivedValue] = []
    if "rl" in files:
        ranks = values["orchestrator.num_train_workers"]
        found.extend(batch_figures(values, BATCH, max_tokens=_MAX_TOKENS))
        found.extend(
            packing_figures(values, BATCH, max_tokens=_MAX_TOKENS, row_tokens=BATCH.seq_len, ranks=ranks)
        )
        found.append(_in_flight(values, "orchestrator.concurrency", "episodes in flight"))
        found.extend(_gpus(values))
    if "sft" in files:
        single = values["sft.deployment.type"] == "single_node"
        found.extend(sft_figures(values, gpus=values["sft.deployment.num_train_gpus"] if single else None))
        if is_on(values.get("sft.eval")):
            found.append(_in_flight(values, "sft.eval.concurrency", "eval episodes in flight"))
    return tuple(found)


def _in_flight(v: Values, at: str, name: str) -> DerivedValue:
    """Adapts itself: the config only says from where and within which bounds."""
    first, low, high = (v[f"{at}.{key}_inflight"] for key in ("initial", "min", "max"))
    if low == high:
        return figure(name, low, "episodes", f"always {low}: min_inflight and max_inflight are the same")
    start = f"starts with {first}" if first is not None else "starts with what the KV cache surely holds"
    most = "without an upper bound" if high is None else f"at most {high}"
    return figure(
        name, first, "episodes",
        f"{start}, then adapts to the load of inference: at least {low}, {most}",
    )  # fmt: skip


def _gpus(v: Values) -> Iterator[DerivedValue]:
    if not is_single(v):
        return
    train = v["deployment.num_train_gpus"]
    infer = v["deployment.num_infer_gpus"] if has_inference(v) else 0
    text = f"{infer} for inference (the first ones) + {train} for the trainer = {infer + train} GPUs"
    if infer:
        copies, tensor = v["inference.vllm.data_parallel_size"], v["inference.vllm.tensor_parallel_size"]
        text += f"; {copies} copies of the model on {tensor} each" if infer > 1 else ""
    yield figure("GPUs", infer + train, "GPUs", text)
