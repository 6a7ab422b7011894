"""Every key of an RL file and of an SFT file of this generation."""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.prime_rl.current.schema_inference import INFERENCE
from rltui.frameworks.prime_rl.current.schema_orchestrator import ORCHESTRATOR
from rltui.frameworks.prime_rl.current.schema_parts import (
    CLIENT,
    CONCURRENCY,
    EVAL,
    FILE_MONITOR,
    PRIME_MONITOR,
    RENDERER,
    RESUME,
    RUN,
    SLURM,
    TOKENIZER,
    TRANSPORT,
    VLM,
    WEIGHT_BROADCAST,
    deployment,
)
from rltui.frameworks.prime_rl.current.schema_table import optional, table, union
from rltui.frameworks.prime_rl.current.schema_trainer import TRAINER, trainer

_SHARED_BROADCAST = {
    name: replace(member, values=member.values - {"inference_world_size"})
    for name, member in WEIGHT_BROADCAST.items()
}
RL = table(
    "env_vars~ output_dir clean max_steps? seq_len? dry_run",
    trainer=TRAINER,
    orchestrator=ORCHESTRATOR,
    inference=INFERENCE,
    run=RUN,
    log=table("level? json_logging"),
    ckpt=optional("output_dir? interval? keep_last? keep_interval?"),
    resume=RESUME,
    monitors=table(
        wandb=optional("project? entity? name? group? tags? offline?"),
        file=FILE_MONITOR,
        prime=PRIME_MONITOR,
    ),
    model=optional("name", vlm=VLM),
    tokenizer=optional(TOKENIZER),
    weight_broadcast=union(None, _SHARED_BROADCAST, may_be_none=True),
    rollout_transport=union("zmq", TRANSPORT, may_be_none=True),
    deployment=deployment(
        "num_train_gpus num_infer_gpus",
        "num_train_nodes! num_infer_nodes? num_infer_replicas nodes_per_fsdp_group? "
        "orchestrator_on_inference",
    ),
    slurm=SLURM,
)

_ROWS = "batch_size seq_len micro_batch_size num_workers seed"
_DATASET = table(
    f"{_ROWS} name subsets? splits? probabilities? stopping_strategy shuffle",
    loss_mask=table("system user assistant tool"),
)
SFT = trainer(
    "clean dry_run",
    renderer=RENDERER,
    data=union("sft", {"fake": table(f"{_ROWS} length input_ids"), "sft": _DATASET}),
    val=optional(
        "interval eval_on_start",
        data=replace(union("sft", {"sft": _DATASET}), must=True),
    ),
    eval=replace(
        EVAL,
        values=EVAL.values | {"env_server_base_port"},
        tables={**EVAL.tables, "client": CLIENT, "concurrency": CONCURRENCY},
    ),
    inference=INFERENCE,
    weight_broadcast=union(None, WEIGHT_BROADCAST, may_be_none=True),
    run=RUN,
    deployment=deployment(
        "num_train_gpus num_infer_gpus num_eval_gpus",
        "num_train_nodes num_infer_nodes num_eval_nodes nodes_per_fsdp_group?",
    ),
    slurm=SLURM,
)
SHAPES = {"rl": RL, "sft": SFT}
