"""Tables that several of this generation's programs have, as in its package of configs (559b44772)."""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.prime_rl.current.schema_table import Table, Union, optional, table, union

VLM = optional("vision_encoder_attr! language_model_attr! freeze_vision_encoder")
TOKENIZER = table("name? trust_remote_code? chat_template?")
LOG = table("level vf_level json_logging log_data interval")
TRAINER_LOG = table("level vf_level json_logging log_data interval ranks_filter")
RUN = table("name? dir?")
RESUME = optional("step? dir?")
HEARTBEAT = optional("url!")
GC = optional("interval")
SLURM = optional(
    "job_name project_dir template_path? partition nodelist? exclude? account? time? pre_run_command? "
    "cleanup_grace_period shared_fs"
)
CLIENT = table(
    "wait_for_ready_timeout base_url api_key_var headers~ headers_from_env~ extra_headers_from_state~ "
    "skip_model_check admin_base_url?"
)
CONCURRENCY = table("initial_inflight? min_inflight max_inflight?")
WANDB = optional("project entity? name? group? tags? offline")
FILE_MONITOR = optional("path")
PRIME_MONITOR = optional("name?")
MONITORS = table(wandb=WANDB, file=FILE_MONITOR)
RENDERER = replace(table(), free=frozenset({"*"}))
"""Its keys are those of a package of its own, `renderers`, and depend on `name`."""
TRANSPORT = {"filesystem": table(), "zmq": table("host port hwm")}
_BROADCAST = "host port timeout inference_world_size"
WEIGHT_BROADCAST = {
    "filesystem": table(),
    "nccl": table(f"{_BROADCAST} quantize_in_weight_transfer"),
    "nixl": table(f"{_BROADCAST} session_id"),
}
EVAL_SAMPLING = table(
    "temperature? top_p? top_k? min_p? max_completion_tokens? reasoning_effort? extra_body~"
)
EVAL_SOURCE = replace(
    table("env~ serve~ name? ratio num_examples group_size interval", sampling=EVAL_SAMPLING), entries=True
)
EVAL = optional(
    "num_examples group_size interval skip_first_step retrigger_on_resume",
    source=EVAL_SOURCE,
    sampling=EVAL_SAMPLING,
)


def deployment(single: str, multi: str) -> Union:
    """One machine, or several under SLURM."""
    return union(
        "single_node",
        {"single_node": table(f"gpus_per_node {single}"), "multi_node": table(f"gpus_per_node {multi}")},
    )


def checkpoint(further: str) -> Table:
    """Off unless it is there."""
    return optional(f"interval? keep_last? keep_interval? skip_progress {further}")
