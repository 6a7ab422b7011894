"""Rules of an SFT file."""

from __future__ import annotations

from rltui.frameworks.batch_rules import micro_batches
from rltui.frameworks.prime_rl.current.rules_inference import inference_rules
from rltui.frameworks.prime_rl.current.rules_model import fault_if, model_rules
from rltui.frameworks.prime_rl.current.rules_rl import concurrency_rules, gpu_rule
from rltui.frameworks.prime_rl.sft_rules import CP, DATA_RULES, MICRO, gpu_rounds, shared_row_rules
from rltui.frameworks.rule_makers import (
    Values,
    divisible,
    is_on,
    same,
    same_port,
    when,
)
from rltui.frameworks.schemas import Rule

_BROADCAST, _KIND = "sft.weight_broadcast.type", "sft.deployment.type"


def _evals(v: Values) -> bool:
    return is_on(v.get("sft.eval"))


def _serves(v: Values) -> bool:
    return _evals(v) and is_on(v.get("sft.inference"))


def _validates(v: Values) -> bool:
    return is_on(v.get("sft.val.data"))


def _parallel(v: Values) -> bool:
    return bool(v[CP] > 1)


def _one_row(micro: str) -> Rule:
    """Images do not fit into packed rows."""
    return fault_if(
        micro, ("sft.model.vlm",), lambda v: is_on(v.get("sft.model.vlm")) and v[micro] not in (None, 1),
        lambda v: f"{micro} ({v[micro]}) must be 1 for a model with images (sft.model.vlm)",
    )  # fmt: skip


def _validation_rules() -> tuple[Rule, ...]:
    """Of `[val.data]`, where that is there."""
    at = "sft.val.data"
    micro, seq_len = f"{at}.micro_batch_size", f"{at}.seq_len"
    rules = (
        micro_batches(f"{at}.batch_size", micro),
        when(divisible(seq_len, CP), _parallel, also=(CP,)),
        fault_if(
            micro, (CP,), lambda v: _parallel(v) and v[micro] != 1,
            lambda v: f"{micro} ({v[micro]}) must be 1 while {CP} ({v[CP]}) is above 1",
        ),
        _one_row(micro),
    )  # fmt: skip
    return tuple(when(rule, _validates) for rule in rules)


SFT_RULES: tuple[Rule, ...] = (
    *DATA_RULES,
    *shared_row_rules(),
    *_validation_rules(),
    _one_row(MICRO),
    gpu_rounds("sft.deployment.num_train_gpus", _KIND),
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
