"""Keys of the four files of this generation (e519eb0a5, December 2025), beside those of September 2025."""

from __future__ import annotations

from rltui.frameworks.prime_rl.key_tables import (
    LORA,
    OPTIM,
    SCHEDULER,
    SFT_DATA,
    TOKENIZER,
    WEIGHT_CKPT,
    KeyTables,
    grammar,
    under,
)

_EXTRAS = "samples distributions interval"
_LOG: KeyTables = {
    "log": "level vf_level file log_data",
    "wandb": "project name offline id",
    "wandb.log_extras": _EXTRAS,
    "heartbeat": "url",
}
_TRAINER: KeyTables = {
    **_LOG,
    "": "toml_files output_dir max_steps memory_profiler_path bench trace_path dist_timeout_seconds",
    "model": "name attn fsdp_cpu_offload reshard_after_forward trust_remote_code dp_replicate ep tp cp impl "
    "load_using_meta optimization_dtype reduce_dtype moe_use_grouped_mm",
    "model.compile": "fullgraph",
    "model.ac": "freq",
    "model.ac_offloading": "pin_memory max_inflight_activations",
    "model.debug": "num_layers random_init",
    "model.experimental": "",
    "model.experimental.lora": LORA,
    "tokenizer": TOKENIZER,
    "optim?": OPTIM,
    "scheduler?": SCHEDULER,
    "ckpt": "interval resume_step keep skip_progress skip_scheduler skip_dataloader",
    "ckpt.weights": WEIGHT_CKPT,
}
_RL_TRAINER: KeyTables = {
    **_TRAINER,
    "": f"{_TRAINER['']} max_async_level",
    "data": "",
    "data.fake": "batch_size seq_len",
    "loss": "ratio_type mask_ratio_high mask_ratio_low sequence_mask_ratio_low kl_tau kl_mask_type",
    "weight_broadcast?": "adapter_only type save_sharded save_format host port timeout inference_world_size",
}
_SFT: KeyTables = {**_TRAINER, **under("data", SFT_DATA), "": f"{_TRAINER['']} loss_impl"}
_ENV = "id args* name"
_EVAL_SAMPLING = (
    "temperature repetition_penalty top_p top_k min_p max_tokens min_tokens reasoning_effort seed extra_body*"
)
_ORCHESTRATOR: KeyTables = {
    **_LOG,
    "": "toml_files trajectory_strategy output_dir max_concurrent batch_size oversampling_factor "
    "rollouts_per_example seq_len mask_env_responses num_train_workers max_steps max_off_policy_steps "
    "max_async_level strict_async_level bench seed lora_name",
    "client": "timeout base_url api_key_var headers* server_type",
    "model": "name trust_remote_code",
    "sampling": "temperature repetition_penalty max_tokens min_tokens seed extra_body*",
    "env_mix?": "strategy probabilities stopping_strategy seed",
    "env[]": _ENV,
    "eval": "num_examples rollouts_per_example interval eval_base_model",
    "eval.env[]": f"{_ENV} num_examples rollouts_per_example skip_first",
    "eval.sampling": _EVAL_SAMPLING,
    "eval.save": "env_hub",
    "eval.save.disk": "path",
    "eval.save.hf": "dataset_name dataset_subset dataset_split private",
    "buffer": "seed easy_fraction hard_fraction easy_threshold hard_threshold online_difficulty_filtering",
    "advantage": "length_weighted_mean",
    "ckpt": "interval resume_step keep skip_progress skip_buffer buffer_path",
    "val": "num_examples rollouts_per_example interval",
    "weight_broadcast?": "type host port timeout",
}
_INFERENCE: KeyTables = {
    "": "toml_files gpu_memory_utilization seed enable_lora max_lora_rank",
    "server": "host port",
    "model": "name dtype max_model_len enforce_eager trust_remote_code enable_auto_tool_choice "
    "tool_call_parser reasoning_parser",
    "parallel": "tp dp",
    "weight_broadcast": "toml_files type",
}

_AUTUMN = "went away in autumn 2025: only older checkouts read it"
_OLD = {
    "trainer": (
        "model.log_signature data.fake.micro_batch_size loss.norm_type loss.type loss.clip_ratio "
        "loss.ratio_length_norm weights async_level recompute_logprobs log_recomputed_logprob_error"
    ),
    "sft": "model.log_signature data.num_examples weights",
    "orchestrator": (
        "environment eval.environment_ids eval.environment_args eval.max_concurrent eval.save_to_disk "
        "eval.save_to_hf buffer.from_scratch buffer.type buffer.easy_border buffer.hard_border "
        "buffer.min_reward buffer.max_reward buffer.oversampling_factor micro_batch_size advantage_type "
        "mask_truncated_completions zero_truncated_completions length_bonus async_level "
        "advantage.global_std_norm advantage.local_std_norm advantage.leave_one_out advantage.neg_clipped "
        "advantage.std_norm"
    ),
    "inference": "",
}
LATER = {
    "token_batch_size": "it came in February 2026; here a batch is batch_size rollouts",
    "max_inflight_rollouts": "it came in February 2026; here oversampling_factor * batch_size are in flight",
    "concurrency": "it came in August 2026; here oversampling_factor * batch_size are in flight",
    "group_size": "it came in May 2026; here it is rollouts_per_example",
    "train.env": "it came in April 2026; here it is [[env]]",
    "train.source": "it came in July 2026; here it is [[env]]",
    "train.sampling": "it came in April 2026; here it is [sampling]",
    "renderer": "it came in May 2026; this generation has none",
    "monitors": "it came in August 2026; here it is [wandb]",
    "vllm": "it came in August 2026; here [model], [parallel] and gpu_memory_utilization hold its keys",
    "vllm_extra": "it came in March 2026; here vLLM's other flags go on the command line of inference",
    "deployment": "it came in February 2026; here the command line of rl says which GPUs are used",
    "clean_output_dir": "it came in February 2026; here rl has clean, which is on by default",
    "model.seq_len": "the trainer has none in this generation: seq_len of the orchestrator decides",
    "seq_len": "the trainer has none in this generation: seq_len of the orchestrator decides",
    "model.lora": "here it is [model.experimental.lora]",
    "model.optim_cpu_offload": "it came in February 2026; here there is model.fsdp_cpu_offload",
    "max_num_seqs": "vLLM's other flags go on the command line of inference, not into its file",
    "*.keep_last": "here it is keep",
    "*.keep_interval": "it came in 2026; here keep says how many of the newest are kept",
    "*.max_completion_tokens": "it came in April 2026; here it is max_tokens",
}
"""Keys of later generations, and what they are here; `*.` before one of any table."""
_WHAT = "prime-rl of 2025"

GRAMMARS = {
    role: grammar(
        _WHAT, tables, namespace=role, renamed=LATER, dated=dict.fromkeys(_OLD[role].split(), _AUTUMN)
    )
    for role, tables in (
        ("trainer", _RL_TRAINER),
        ("orchestrator", _ORCHESTRATOR),
        ("inference", _INFERENCE),
        ("sft", _SFT),
    )
}
"""By role."""
