"""What the trainers read: `[trainer]` of an RL file, and the same tables at the top of an SFT file."""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.prime_rl.current.schema_parts import (
    GC,
    HEARTBEAT,
    MONITORS,
    RESUME,
    TOKENIZER,
    TRAINER_LOG,
    TRANSPORT,
    VLM,
    WEIGHT_BROADCAST,
    checkpoint,
)
from rltui.frameworks.prime_rl.current.schema_table import Table, Union, optional, table, union

MODEL = table(
    "name trust_remote_code conversion_dir? seq_len attn fsdp_cpu_offload optim_cpu_offload "
    "reshard_after_forward dp_replicate ep ep_comm_backend deepep_num_sms deepep_token_chunk_size? cp "
    "cp_style impl optimization_dtype reduce_dtype moe_router_dtype moe_use_grouped_mm moe_fused_kernel "
    "freeze_moe_router fused_lm_head_token_chunk_size",
    vlm=VLM,
    compile=optional("fullgraph"),
    ac=optional("mode freq targets"),
    ac_offloading=optional("pin_memory max_inflight_activations"),
    full_offload=replace(optional("cpu_optimizer_backend numa_bind"), switch=True),
    quantization=union(
        None,
        {
            "fp8": table("enable_grouped_gemm ignore_patterns"),
            "mxfp8": table("recipe enable_grouped_gemm enable_a2a ignore_patterns"),
        },
        may_be_none=True,
    ),
    index_cache=optional("topk_freq topk_pattern?"),
    lora=optional("rank alpha dropout target_modules modules_to_save"),
    debug=table("num_layers? random_init force_balanced_routing"),
)

_OPTIM = "lr weight_decay max_norm?"
OPTIM = union(
    "adamw",
    {
        "sgd": table(f"{_OPTIM} nesterov momentum"),
        "adamw": table(f"{_OPTIM} betas1 betas2"),
        "muon": table(f"{_OPTIM} mu betas1 betas2"),
        "sign_sgd": table(_OPTIM),
    },
)
SCHEDULER = union(
    "constant",
    {
        "constant": table(),
        "linear": table("warmup_steps decay_steps min_lr"),
        "cosine": table("warmup_steps min_lr"),
    },
)
CKPT = checkpoint("output_dir? skip_scheduler skip_dataloader skip_optimizer")
_LOSS = union(
    "default",
    {
        "default": table("dppo_mask_low dppo_mask_high adv_tau kl_tau"),
        "ipo": table("ipo_threshold adv_tau kl_tau"),
        "custom": table("import_path! kwargs~"),
    },
)
_COMMON = (
    "output_dir matmul_precision max_steps? memory_profiler_path? trace_path? dist_timeout_seconds env_vars~"
)


def trainer(further: str, **tables: Table | Union) -> Table:
    """What both kinds of training have, and what one of them adds."""
    return table(
        f"{_COMMON} {further}",
        model=MODEL,
        tokenizer=TOKENIZER,
        optim=OPTIM,
        scheduler=SCHEDULER,
        ckpt=CKPT,
        resume=RESUME,
        log=TRAINER_LOG,
        monitors=MONITORS,
        gc=GC,
        heartbeat=HEARTBEAT,
        **tables,
    )


TRAINER = replace(
    trainer(
        "enable_router_replay enable_token_export",
        data=table(fake=optional("batch_size generate_samples")),
        loss=_LOSS,
        weight_broadcast=union("filesystem", WEIGHT_BROADCAST),
        rollout_transport=union("zmq", TRANSPORT),
        metrics_server=optional("port host"),
    ),
    must=True,
)
