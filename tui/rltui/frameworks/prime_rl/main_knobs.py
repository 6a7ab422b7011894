"""The knobs that people turn from day to day, of several hundred that there are. Most important first."""

from __future__ import annotations

_ENGINE = (
    "gpu_memory_utilization", "model.max_model_len", "model.enforce_eager", "parallel.tp", "parallel.dp",
)  # fmt: skip
_VLLM = ("gpu_memory_utilization", "max_model_len", "max_num_seqs", "enforce_eager", "tensor_parallel_size")
_MODEL = ("ac.freq", "ac_offloading.max_inflight_activations", "optim_cpu_offload", "fsdp_cpu_offload")
_SFT_DATA = ("batch_size", "micro_batch_size", "seq_len")

MAIN = (
    "orchestrator.batch_size",
    "orchestrator.token_batch_size",
    "orchestrator.group_size",
    "orchestrator.rollouts_per_example",
    "orchestrator.oversampling_factor",
    "orchestrator.max_inflight_rollouts",
    "orchestrator.concurrency.max_inflight",
    "orchestrator.max_off_policy_steps",
    "orchestrator.seq_len",
    "orchestrator.sampling.temperature",
    "orchestrator.sampling.max_tokens",
    "orchestrator.train.sampling.temperature",
    "orchestrator.train.sampling.max_completion_tokens",
    "trainer.optim.lr",
    "trainer.model.seq_len",
    *(f"trainer.model.{name}" for name in _MODEL),
    *(f"inference.{name}" for name in _ENGINE),
    *(f"inference.vllm.{name}" for name in _VLLM),
    "max_steps",
    "seq_len",
    "max_async_level",
    "ckpt.interval",
    "deployment.num_train_gpus",
    "deployment.num_infer_gpus",
    "weight_broadcast.type",
    *(f"sft.data.{name}" for name in _SFT_DATA),
    "sft.max_steps",
    "sft.optim.lr",
    *(f"sft.model.{name}" for name in _MODEL),
    "sft.ckpt.interval",
    "sft.deployment.num_gpus",
    "sft.deployment.num_train_gpus",
)
"""By name, of all generations: each has some of them."""

MAIN_OF_SPLIT_FILES = (
    *MAIN,
    *(f"{role}.{name}" for role in ("orchestrator", "trainer") for name in ("max_steps", "ckpt.interval")),
)
"""Where the shared ones stand in two files."""
