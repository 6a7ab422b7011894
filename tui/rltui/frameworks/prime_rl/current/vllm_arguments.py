"""Arguments of vLLM's server that prime-rl passes on without looking: for guesses at what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rltui.core.api import Problem
from rltui.core.suggest import closest
from rltui.core.toml_values import format_key
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl.current.schema_inference import VLLM

_FURTHER = frozenset(
    """
    additional_config allowed_origins api_key async_scheduling block_size calculate_kv_scales
    chat_template_content_format code_revision compilation_config config_format cpu_offload_gb
    cudagraph_capture_sizes data_parallel_address data_parallel_backend data_parallel_external_lb
    data_parallel_hybrid_lb data_parallel_rank data_parallel_start_rank decode_context_parallel_size
    default_chat_template_kwargs disable_cascade_attn disable_custom_all_reduce disable_fastapi_docs
    disable_hybrid_kv_cache_manager disable_log_stats disable_sliding_window disable_uvicorn_access_log
    distributed_executor_backend download_dir enable_auto_tool_choice enable_chunked_prefill
    enable_force_include_usage enable_log_outputs enable_log_requests enable_prompt_embeds
    enable_prompt_tokens_details enable_request_id_headers enable_server_load_tracking enable_sleep_mode
    eplb_config fully_sharded_loras generation_config headless hf_config_path hf_overrides hf_token
    ignore_patterns kv_cache_dtype kv_cache_memory_bytes kv_events_config kv_offloading_backend
    kv_offloading_size kv_sharing_fast_prefill kv_transfer_config limit_mm_per_prompt load_format
    log_config_file log_error_stack logits_processor_pattern logits_processors logprobs_mode
    long_prefill_token_threshold lora_dtype lora_modules mamba_cache_dtype mamba_ssm_cache_dtype
    max_log_len max_logprobs max_long_partial_prefills max_num_batched_tokens max_num_partial_prefills
    max_num_seqs max_parallel_loading_workers middleware mm_encoder_tp_mode mm_processor_cache_gb
    mm_processor_cache_type mm_processor_kwargs model_impl model_loader_extra_config
    num_gpu_blocks_override otlp_traces_endpoint override_generation_config pipeline_parallel_size
    preemption_mode prefix_caching_hash_algo response_role return_tokens_as_token_ids revision root_path
    rope_theta runner safetensors_load_strategy scheduler_cls scheduling_policy served_model_name
    skip_mm_profiling skip_tokenizer_init speculative_config ssl_ca_certs ssl_certfile ssl_keyfile
    stream_interval structured_outputs_config swap_space task tokenizer tokenizer_mode tokenizer_revision
    tool_parser_plugin tool_server uvicorn_log_level worker_cls worker_extension_cls
    """.split()
)
"""The common ones of the releases from 2025 and 2026; what is not among them may still exist."""


def argument_hints(file: ConfigFile, namespace: str) -> Iterator[Problem]:
    """Keys of `[inference.vllm]` that look like a slip: vLLM would refuse them as it starts."""
    table = value_at(file.data, "inference.vllm")
    known = VLLM.values | VLLM.free | _FURTHER
    for key in table if isinstance(table, Mapping) else ():
        if key in known:
            continue
        guess = closest(key, known)
        name = format_key((*((namespace,) if namespace else ()), "inference", "vllm", key))
        meant = f"did you mean {guess}?" if guess else "no argument of that name is known here"
        yield Problem(
            severity="warning" if guess else "hint", key=name, file=file.path,
            message=f"{name} goes to vLLM unchecked, which stops as it starts if it does not know it: {meant}",
        )  # fmt: skip
