"""Keys of `rl.toml` and `sft.toml` of this generation, December 2025 to May 2026: all that were ever read.

The grammar changed nearly every week; a file is not asked for which of them it was written.
"""

from __future__ import annotations

from rltui.frameworks.prime_rl.key_tables import (
    EVAL_SAMPLING,
    LOG_EXTRAS,
    LORA,
    OPTIM,
    SAMPLING,
    SCHEDULER,
    SFT_DATA,
    TOKENIZER,
    WEIGHT_CKPT,
    KeyTables,
    grammar,
    under,
)

_VLM = "vision_encoder_attr language_model_attr freeze_vision_encoder"
_SLURM = "job_name project_dir template_path partition dry_run nodelist exclude account time pre_run_command"
_RENDERER = (
    "name tool_parser reasoning_parser pool_size preserve_all_thinking preserve_thinking_between_tool_calls"
)
_LOG = "level vf_level file log_data env_worker_logs json_logging"
_WANDB = "project name offline id entity group tags"
_BROADCAST = "type host port timeout inference_world_size quantize_in_weight_transfer"
_TRANSPORT = "type host port hwm"
_CKPT = "interval resume_step keep keep_last keep_interval skip_progress"

_TRAINER: KeyTables = {
    "": "toml_files output_dir max_steps memory_profiler_path trace_path dist_timeout_seconds "
    "matmul_precision bench*",
    "model": "name seq_len attn fsdp_cpu_offload optim_cpu_offload reshard_after_forward trust_remote_code "
    "dp_replicate ep tp cp cp_style impl load_using_meta optimization_dtype reduce_dtype moe_use_grouped_mm "
    "freeze_moe_router fused_lm_head_chunk_size fused_lm_head_token_chunk_size ep_comm_backend "
    "deepep_num_sms deepep_token_chunk_size fp8",
    "model.compile": "fullgraph",
    "model.ac": "freq mode targets",
    "model.ac_offloading": "pin_memory max_inflight_activations",
    "model.debug": "num_layers random_init force_balanced_routing",
    "model.lora": LORA,
    "model.experimental": "",
    "model.experimental.lora": LORA,
    "model.vlm": _VLM,
    "tokenizer": TOKENIZER,
    "optim?": f"{OPTIM} mu",
    "scheduler?": SCHEDULER,
    "ckpt": f"{_CKPT} skip_scheduler skip_dataloader skip_optimizer output_dir weights_only "
    "skip_gather_master_weights",
    "ckpt.weights": WEIGHT_CKPT,
    "log": f"{_LOG} ranks_filter",
    "wandb": _WANDB,
    "wandb.log_extras": LOG_EXTRAS,
    "heartbeat": "url",
    "gc": "interval",
}
_RL_TRAINER: KeyTables = {
    **_TRAINER,
    "": f"{_TRAINER['']} max_async_level max_concurrent_runs enable_router_replay",
    "data": "",
    "data.fake": "batch_size seq_len generate_samples",
    "loss?": "type ratio_type mask_ratio_high mask_ratio_low sequence_mask_ratio_low kl_tau kl_mask_type "
    "token_mask_high token_mask_low sequence_clip_high geo_mask_high geo_mask_low sequence_mask_low "
    "sequence_mask_high adv_tau teacher_tau import_path kwargs* ipo_mask_low ipo_mask_high dppo_mask_low "
    "dppo_mask_high",
    "weight_broadcast?": f"{_BROADCAST} adapter_only save_sharded save_format",
    "rollout_transport?": _TRANSPORT,
    "metrics_server": "host port",
    "experimental": "token_export*",
}
_CLIENT: KeyTables = {
    "": "timeout connect_timeout wait_for_ready_timeout base_url api_key_var headers* headers_from_env* "
    "extra_headers_from_state* skip_model_check server_type dp_rank_count admin_base_url router_url",
    "elastic": "hostname port sync_interval",
}
_MODEL: KeyTables = {
    "": "name trust_remote_code",
    "lora": "name rank alpha",
    "vlm": _VLM,
}
_POLICY: KeyTables = {"": "", **under("client", _CLIENT), **under("model", _MODEL)}
_ENV = (
    "id name args* extra_env_kwargs* address num_workers ratio max_retries max_total_completion_tokens "
    "timeout timeout_seconds state_columns"
)
_ORCHESTRATOR: KeyTables = {
    "": "toml_files trajectory_strategy output_dir max_concurrent batch_size token_batch_size "
    "oversampling_factor max_inflight_rollouts rollouts_per_example seq_len mask_env_responses "
    "num_train_workers max_steps max_off_policy_steps max_async_level strict_async_level bench* seed "
    "lora_name workers_per_env reload_weights_on_start max_env_worker_restarts tasks_per_minute "
    "use_token_client collect_inference_metrics env_install_prerelease use_sft_loss use_renderer "
    "training_mode",
    **under("client", _CLIENT),
    **under("model", _MODEL),
    **under("model", {key: names for key, names in _POLICY.items() if key}),
    "optim": "lr",
    **under("teacher", _POLICY),
    **under("student", _POLICY),
    **under("teacher_model", _POLICY),
    **under("teacher_rollout_model", _POLICY),
    "tokenizer": TOKENIZER,
    "renderer": _RENDERER,
    "sampling": SAMPLING,
    "sampling.temp_scheduler": "type start_temperature end_temperature total_steps",
    "env_mix?": "strategy probabilities stopping_strategy seed",
    "env[]": _ENV,
    "train": "num_workers max_retries",
    "train.env[]": _ENV,
    "train.env[].sampling": SAMPLING,
    "train.sampling": SAMPLING,
    "eval": "num_examples rollouts_per_example interval eval_base_model reasoning_field per_rollout "
    "skip_eval_on_resume skip_eval_on_restart cancel_inflight_rollouts_on_eval num_workers max_retries",
    "eval.env[]": f"{_ENV} num_examples rollouts_per_example skip_first interval",
    "eval.env[].sampling": EVAL_SAMPLING,
    "eval.sampling": EVAL_SAMPLING,
    "eval.retry": "max_attempts wait_multiplier wait_min wait_max reraise",
    "eval.save": "env_hub stream",
    "eval.save.disk": "path",
    "eval.save.hf": "dataset_name dataset_subset dataset_split private",
    "buffer": "seed easy_fraction hard_fraction easy_threshold hard_threshold online_difficulty_filtering "
    "env_ratios hash_keys skip_verification",
    "advantage?": "type length_weighted_mean import_path kwargs* length_shaping_alpha length_shaping "
    "length_penalty*",
    "filters[]": "type enforce token_id_threshold logprob_offset window prob_threshold",
    "log": _LOG,
    "wandb": _WANDB,
    "wandb.log_extras": LOG_EXTRAS,
    "prime_monitor": "base_url api_key_var run_name team_id frontend_url",
    "prime_monitor.log_extras": LOG_EXTRAS,
    "ckpt": f"{_CKPT} skip_buffer buffer_path wait_for_weights_timeout",
    "val": "num_examples rollouts_per_example interval",
    "verification": "enabled",
    "weight_broadcast?": _BROADCAST,
    "rollout_transport?": _TRANSPORT,
    "heartbeat": "url",
    "experimental": "use_prefix_cache_salt",
}
_INFERENCE: KeyTables = {
    "": "toml_files gpu_memory_utilization seed enable_lora max_lora_rank max_loras max_cpu_loras "
    "lora_target_modules api_server_count enable_prefix_caching enable_expert_parallel all2all_backend "
    "enable_eplb enable_dbo enable_fp32_lm_head enable_return_routed_experts use_deep_gemm "
    "data_parallel_size_local data_parallel_rpc_port vllm_extra* output_dir dry_run",
    "server": "host port liveness_timeout_seconds",
    "model": "name dtype max_model_len enforce_eager trust_remote_code enable_auto_tool_choice "
    "tool_call_parser reasoning_parser rope_scaling* chat_template",
    "model.vlm": _VLM,
    "parallel": "tp dp",
    "weight_broadcast": "toml_files type",
    "deployment": "type gpus_per_node num_nodes router_port backend_port router_policy num_prefill_nodes "
    "num_decode_nodes num_prefill_replicas num_decode_replicas prefill_port decode_port "
    "prefill_env_overrides* decode_env_overrides*",
    "deployment.kv_cache_offload": "cpu_bytes",
    "kv_cache_offload": "cpu_bytes",
    "slurm": _SLURM,
    "experimental": "reset_prefix_cache_after_update",
}
_RL: KeyTables = {
    "": "toml_files output_dir max_steps max_model_len max_async_level seq_len bench clean clean_output_dir "
    "dump_config dry_run inference_gpu_ids trainer_gpu_ids teacher_gpu_ids",
    **under("trainer", _RL_TRAINER),
    **under("orchestrator", _ORCHESTRATOR),
    **under("inference", _INFERENCE),
    **under("teacher_inference", _INFERENCE),
    "model": "toml_files name",
    "model.vlm": _VLM,
    "tokenizer": TOKENIZER,
    "log": "toml_files level file json_logging",
    "ckpt": "toml_files interval resume_step keep keep_last keep_interval output_dir",
    "wandb": "toml_files project name offline shared entity group tags",
    "weight_broadcast": "toml_files type port timeout quantize_in_weight_transfer",
    "deployment": "type gpus_per_node num_train_gpus num_infer_gpus num_teacher_gpus num_train_nodes "
    "num_infer_nodes num_teacher_nodes nodes_per_fsdp_group num_infer_replicas",
    "slurm": _SLURM,
    "experimental": "",
}
_SFT: KeyTables = {
    **_TRAINER,
    "": f"{_TRAINER['']} loss_impl clean_output_dir dry_run use_renderer",
    **under("data", SFT_DATA),
    "val": "interval eval_on_start",
    **under("val.data", SFT_DATA),
    "deployment": "type gpus_per_node num_gpus num_nodes nodes_per_fsdp_group",
    "slurm": _SLURM,
    "renderer": _RENDERER,
    "experimental": "",
}

ELSEWHERE = {
    "orchestrator.concurrency": "it came in August 2026; before, it was orchestrator.max_inflight_rollouts",
    "orchestrator.train.source": "it came in July 2026; before, it was [[orchestrator.train.env]]",
    "inference.vllm": "it came in August 2026; before, it was inference.model, inference.parallel, "
    "inference.gpu_memory_utilization and inference.vllm_extra",
    "inference.router": "it came in July 2026",
    "inference.backend_port": "it came in July 2026; before, the engine listened on inference.server.port",
    "monitors": "it came in August 2026; here it is [wandb]",
    "run": "it came in August 2026; here output_dir names the run",
    "resume": "it came in August 2026; here it is ckpt.resume_step",
    "rollout_transport": "it came in summer 2026; before, it was trainer.rollout_transport and "
    "orchestrator.rollout_transport",
    "deployment.num_eval_gpus": "it came in August 2026; this generation has deployment.num_gpus",
    "orchestrator.micro_batch_size": "it went away in October 2025: packing decides now",
    "orchestrator.environment": "it went away in November 2025; here it is [[orchestrator.env]]",
    "*.async_level": "it went away in autumn 2025; here it is max_async_level",
}
"""Keys of later generations, and what they are here."""
_SFT_ELSEWHERE = {
    "deployment.num_train_gpus": "it came in summer 2026; here it is deployment.num_gpus",
    "deployment.num_infer_gpus": "it came in August 2026; here SFT has no inference",
    "inference": "it came in August 2026; here SFT has no inference",
    "eval": "it came in August 2026; here SFT has [val]",
    "monitors": ELSEWHERE["monitors"],
    "run": ELSEWHERE["run"],
    "resume": ELSEWHERE["resume"],
}
AS_OF = "May 2026"
"""What came until mid-August, while one folder was one run, is partly known: `detection` has its signs."""
_WHAT = "this generation of prime-rl"

GRAMMARS = {
    "rl": grammar(_WHAT, _RL, renamed=ELSEWHERE, as_of=AS_OF),
    "sft": grammar(_WHAT, _SFT, namespace="sft", renamed=_SFT_ELSEWHERE, as_of=AS_OF),
}
"""By role."""
