"""What the orchestrator reads."""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.prime_rl.current.schema_parts import (
    CLIENT,
    CONCURRENCY,
    EVAL,
    FILE_MONITOR,
    HEARTBEAT,
    LOG,
    PRIME_MONITOR,
    RENDERER,
    RESUME,
    TOKENIZER,
    TRANSPORT,
    VLM,
    WANDB,
    WEIGHT_BROADCAST,
    checkpoint,
)
from rltui.frameworks.prime_rl.current.schema_table import optional, table, union

_FROZEN = replace(
    CLIENT, values=CLIENT.values | {"name"}, required=frozenset({"name"}), word="policy", must=True
)
"""A model that is not trained: a teacher, or what samples in place of the policy."""
_SAMPLING = table(source=replace(_FROZEN, must=False))
_PENALTY = optional("type num_output_tokens_weight num_input_tokens_weight num_turns_weight")
_ROLE = optional("alpha")
ALGO = union(
    "grpo",
    {
        "grpo": table(sampling=_SAMPLING, length_penalty=_PENALTY),
        "echo": table(
            sampling=_SAMPLING,
            length_penalty=_PENALTY,
            roles=table(system=_ROLE, user=_ROLE, assistant=_ROLE, tool=_ROLE),
            filter=optional("import_path! kwargs~"),
        ),
        "max_rl": table(sampling=_SAMPLING),
        "rae": table("decay", sampling=_SAMPLING),
        "hierarchical_grpo": table("episode_agents!", sampling=_SAMPLING),
        "opd": table(sampling=_SAMPLING, teacher=replace(_FROZEN, word=None)),
        "opsd": table("demo_key template", sampling=_SAMPLING, renderer=RENDERER),
        "sft": table(sampling=_SAMPLING),
    },
)
_TRAIN_SAMPLING = table("temperature max_completion_tokens? extra_body~")
_TRAIN_SOURCE = replace(
    table(
        "env~ serve~ name? ratio group_size",
        sampling=_TRAIN_SAMPLING,
        algo=replace(ALGO, default=None, optional=True),
        curriculum=optional(
            "gates~", sampler=union(None, {"standard": table(), "difficulty_pool": table("pools~ seed")})
        ),
    ),
    entries=True,
)
ORCHESTRATOR = replace(
    table(
        "env_vars~ collect_inference_metrics inference_metrics_roles? output_dir tasks_per_minute? "
        "env_server_base_port batch_size? token_batch_size? group_size seq_len num_train_workers "
        "pad_to_multiple_of max_steps? max_off_policy_steps",
        algo=ALGO,
        model=table("name trust_remote_code", vlm=VLM, lora=optional("name? rank? alpha?"), client=CLIENT),
        train=table("filter_zero_advantages", source=_TRAIN_SOURCE, sampling=_TRAIN_SAMPLING),
        tokenizer=TOKENIZER,
        renderer=RENDERER,
        eval=EVAL,
        log=LOG,
        monitors=table(wandb=WANDB, file=FILE_MONITOR, prime=PRIME_MONITOR),
        ckpt=checkpoint("wait_for_weights_timeout?"),
        resume=RESUME,
        weight_broadcast=union("filesystem", WEIGHT_BROADCAST),
        rollout_transport=union("zmq", TRANSPORT),
        concurrency=CONCURRENCY,
        heartbeat=HEARTBEAT,
    ),
    must=True,
)
