"""What keys of earlier generations are called in this one."""

from __future__ import annotations

_VLLM = (
    "gpu_memory_utilization", "enable_prefix_caching", "api_server_count", "enable_lora", "max_lora_rank",
    "seed", "max_loras", "max_cpu_loras", "lora_target_modules", "quantization", "enable_expert_parallel",
    "all2all_backend", "enable_eplb", "enable_dbo", "enable_return_routed_experts",
    "data_parallel_size_local", "data_parallel_rpc_port",
)  # fmt: skip
_LEVEL = "it is gone: max_off_policy_steps bounds how old the weights of a rollout may be"
_IN_FLIGHT = "it is gone: how much is in flight adapts itself, within orchestrator.concurrency"
_COMMON = {
    "wandb": "it is [monitors.wandb] in this generation",
    "clean_output_dir": "it is called clean in this generation",
    "ckpt.resume_step": "it is resume.step in this generation; an empty [resume] takes the newest one",
    "ckpt.weights": "it is gone: checkpoints hold what is needed to resume",
    "toml_files": "it is gone: give several files with @ on the command line",
}


RL = {
    **_COMMON,
    "inference_gpu_ids": "it is gone: [deployment] says how many GPUs each part gets",
    "trainer_gpu_ids": "it is gone: [deployment] says how many GPUs each part gets",
    "teacher_gpu_ids": "it is gone: a teacher is a model of orchestrator.algo",
    "deployment.num_teacher_gpus": "it is gone: a teacher is a model of orchestrator.algo",
    "teacher_inference": "it is gone: a teacher is a model of orchestrator.algo",
    "max_model_len": "it is inference.vllm.max_model_len",
    "max_async_level": _LEVEL,
    "trainer.max_async_level": _LEVEL,
    "trainer.ckpt.resume_step": _COMMON["ckpt.resume_step"],
    "trainer.wandb": _COMMON["wandb"],
    "trainer.model.experimental": "it is gone: LoRA is [trainer.model.lora]",
    "trainer.model.tp": "it is gone: the trainer shares layers by FSDP alone",
    "trainer.model.fused_lm_head_chunk_size": "it is fused_lm_head_token_chunk_size in this generation",
    "orchestrator.max_async_level": _LEVEL,
    "orchestrator.strict_async_level": _LEVEL,
    "orchestrator.rollouts_per_example": "it is called orchestrator.group_size in this generation",
    "orchestrator.eval.rollouts_per_example": "it is called orchestrator.eval.group_size in this generation",
    "orchestrator.oversampling_factor": _IN_FLIGHT,
    "orchestrator.max_inflight_rollouts": _IN_FLIGHT,
    "orchestrator.max_concurrent": _IN_FLIGHT,
    "orchestrator.env": "it is [[orchestrator.train.source]] in this generation",
    "orchestrator.train.env": "it is [[orchestrator.train.source]] in this generation",
    "orchestrator.eval.env": "it is [[orchestrator.eval.source]] in this generation",
    "orchestrator.sampling": "it is [orchestrator.train.sampling] in this generation",
    "orchestrator.train.sampling.max_tokens": "it is called max_completion_tokens in this generation",
    "orchestrator.eval.sampling.max_tokens": "it is called max_completion_tokens in this generation",
    "orchestrator.client": "it is [orchestrator.model.client] in this generation",
    "orchestrator.wandb": _COMMON["wandb"],
    "orchestrator.ckpt.resume_step": _COMMON["ckpt.resume_step"],
    "orchestrator.use_token_client": "it is gone: tokens are always sent as they are",
    "inference.model": "it is [inference.vllm] in this generation, with model instead of name",
    "inference.parallel": "it is gone: see tensor_parallel_size and data_parallel_size of [inference.vllm]",
    "inference.vllm_extra": "it is [inference.vllm] in this generation",
    **{f"inference.{key}": f"it is inference.vllm.{key} in this generation" for key in _VLLM},
}
"""Key of an RL file → what to say of it."""
SFT = {
    **_COMMON,
    "deployment.num_gpus": "it is called deployment.num_train_gpus in this generation",
    "data.pack_function": "it is gone: rows are always filled with examples one after the other",
    "model.tp": RL["trainer.model.tp"],
    "model.experimental": "it is gone: LoRA is [model.lora]",
    "model.fused_lm_head_chunk_size": RL["trainer.model.fused_lm_head_chunk_size"],
    "loss_impl": "it is gone: see model.fused_lm_head_token_chunk_size",
}
"""The same for an SFT file."""
