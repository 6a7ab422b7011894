"""Rules of an SFT file."""

from __future__ import annotations

from rltui.frameworks.batch_rules import micro_batches
from rltui.frameworks.prime_rl.current.rules_inference import inference_rules
from rltui.frameworks.prime_rl.current.rules_model import fault_if, model_rules
from rltui.frameworks.prime_rl.current.rules_rl import concurrency_rules, gpu_rule
from rltui.frameworks.rule_makers import (
    Values,
    divisible,
    is_on,
    nearest_multiples,
    same,
    same_length,
    same_port,
    when,
)
from rltui.frameworks.rules import Rule

_CP, _BATCH, _MICRO = "sft.model.cp", "sft.data.batch_size", "sft.data.micro_batch_size"
_RANKS, _BROADCAST = "sft.deployment.num_train_gpus", "sft.weight_broadcast.type"
_KIND = "sft.deployment.type"


def _evals(v: Values) -> bool:
    return is_on(v.get("sft.eval"))


def _serves(v: Values) -> bool:
    return _evals(v) and is_on(v.get("sft.inference"))


def _validates(v: Values) -> bool:
    return is_on(v.get("sft.val.data"))


def _parallel(v: Values) -> bool:
    return bool(v[_CP] > 1)


def _rows_rules(at: str) -> tuple[Rule, ...]:
    """Of `[data]` or `[val.data]`."""
    micro, seq_len = f"{at}.micro_batch_size", f"{at}.seq_len"
    return (
        micro_batches(f"{at}.batch_size", micro),
        when(divisible(seq_len, _CP), lambda v: _parallel(v) and v[seq_len] is not None),
        fault_if(
            micro, (_CP,), lambda v: _parallel(v) and v[micro] not in (None, 1),
            lambda v: f"{micro} ({v[micro]}) must be 1 while {_CP} is {v[_CP]}",
        ),
        fault_if(
            micro, ("sft.model.vlm",), lambda v: is_on(v.get("sft.model.vlm")) and v[micro] not in (None, 1),
            lambda v: f"{micro} ({v[micro]}) must be 1 for a model with images (sft.model.vlm)",
        ),
    )  # fmt: skip


def _whole_rounds(v: Values) -> str | None:
    rows, at_once = v[_BATCH] * v[_CP], v[_RANKS] * v[_MICRO]
    if v[_KIND] != "single_node" or v[_BATCH] % v[_MICRO] != 0 or rows % at_once == 0:
        return None
    return (
        f"{_BATCH} ({v[_BATCH]}) * {_CP} ({v[_CP]}) = {rows} must be divisible by {_RANKS} ({v[_RANKS]}) * "
        f"{_MICRO} ({v[_MICRO]}) = {at_once}, or the trainer stops as it starts: nearest valid product is "
        f"{nearest_multiples(rows, at_once)}"
    )


SFT_RULES: tuple[Rule, ...] = (
    *_rows_rules("sft.data"),
    *(when(rule, _validates) for rule in _rows_rules("sft.val.data")),
    Rule(_BATCH, (_BATCH, _CP, _RANKS, _MICRO, _KIND), _whole_rounds),
    same_length("sft.data.subsets", "sft.data.splits", what="name the split of each subset"),
    same_length("sft.data.probabilities", "sft.data.subsets", what="give each subset one"),
    same_length("sft.data.probabilities", "sft.data.splits", what="give each split one"),
    fault_if(
        "sft.inference", ("sft.eval",), lambda v: is_on(v.get("sft.inference")) and not _evals(v),
        "[inference] is only for evals: add [eval] with a source, or remove [inference]",
    ),
    fault_if(
        "sft.eval", ("sft.inference",), lambda v: _evals(v) and not is_on(v.get("sft.inference")),
        lambda v: "[eval] without [inference]: sft starts no server, so one must answer at "
        f"eval.client.base_url ({v['sft.eval.client.base_url']})",
        "hint",
    ),
    gpu_rule("sft.", counted=_serves),
    when(same("sft.inference.vllm.model", "sft.model.name"), _serves),
    when(same_port("sft.eval.client.base_url", "sft.inference.server.port"), _serves),
    fault_if(
        _BROADCAST, (), lambda v: _evals(v) and v[_BROADCAST] == "nixl",
        f"{_BROADCAST} nixl is not for SFT: use nccl or filesystem",
    ),
    fault_if(
        _BROADCAST, (), lambda v: _evals(v) and v[_BROADCAST] == "nccl" and is_on(v.get("sft.model.lora")),
        f"{_BROADCAST} nccl cannot carry sft.model.lora: set it to filesystem",
    ),
    fault_if(
        "sft.eval.retrigger_on_resume", (_BROADCAST,),
        lambda v: _evals(v) and v["sft.eval.retrigger_on_resume"] and v[_BROADCAST] != "filesystem",
        lambda v: f"sft.eval.retrigger_on_resume needs {_BROADCAST} to be filesystem, not {v[_BROADCAST]}",
    ),
    fault_if(
        _KIND, (), lambda v: v[_KIND] != "single_node" and not is_on(v.get("sft.slurm")),
        f"{_KIND} multi_node needs [slurm], which starts the processes of the other machines",
    ),
    *concurrency_rules("sft.eval.concurrency"),
    *inference_rules("sft.", also_slurm=False),
    *model_rules("sft."),
)  # fmt: skip
