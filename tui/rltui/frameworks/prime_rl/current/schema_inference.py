"""What the inference server reads: `[inference]`, in RL files and in SFT files with online evals."""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.prime_rl.current.schema_parts import LOG, SLURM
from rltui.frameworks.prime_rl.current.schema_table import optional, table, union

VLLM = table(
    "model dtype max_model_len? enforce_eager trust_remote_code chat_template? tool_call_parser? "
    "reasoning_parser? tensor_parallel_size data_parallel_size data_parallel_size_local? "
    "data_parallel_rpc_port api_server_count seed gpu_memory_utilization enable_prefix_caching? "
    "quantization? enable_lora max_loras max_cpu_loras max_lora_rank? lora_target_modules? "
    "enable_expert_parallel all2all_backend enable_eplb enable_dbo "
    "enable_return_routed_experts rope_scaling~ *~"
)
"""What prime-rl itself knows; every further key goes to vLLM unseen."""
_TIERS = table(cpu=optional("num_bytes!"), disk=optional("path!"))
INFERENCE = optional(
    "backend_port env_vars~ use_deep_gemm use_pd_kv_transfer enable_fp32_lm_head enable_fp32_router_logits "
    "output_dir dry_run",
    server=table("host? port liveness_timeout_seconds"),
    router=union(
        None,
        {
            "vllm-router": table("policy"),
            "llm-d": table(
                "scorers~ prefill_scorer_overrides~ decode_scorer_overrides~ non_cached_tokens "
                "decode_sidecar_port"
            ),
        },
        may_be_none=True,
    ),
    vllm=VLLM,
    log=LOG,
    weight_broadcast=table("type"),
    kv_cache_offload=union(
        None,
        {"native": _TIERS, "mooncake": replace(_TIERS, values=frozenset({"device_name"}))},
        may_be_none=True,
    ),
    deployment=union(
        "single_node",
        {
            "single_node": table("gpus_per_node"),
            "multi_node": table("gpus_per_node num_nodes"),
            "disaggregated": table(
                "gpus_per_node prefill_nodes_per_replica decode_nodes_per_replica num_prefill_replicas "
                "num_decode_replicas prefill_port decode_port prefill_env_vars~ decode_env_vars~ "
                "prefill_vllm_overrides~ decode_vllm_overrides~"
            ),
        },
    ),
    slurm=SLURM,
)
