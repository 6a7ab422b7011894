"""The knobs that decide about device memory, of all frameworks and generations, in order of advice.

Only those that a config has are offered, so this one table serves every framework. Sources: for trainers
`facts/prime-rl.md`, Memory of the trainer; for engines `facts/vllm.md`, Failures.
"""

from __future__ import annotations

from rltui.core.gpu.advice import Lever, LeverRole

_TRAINING: tuple[LeverRole, ...] = ("trainer", "sft")
_RUNNING = frozenset({"allocation", "other"})
_ENGINE = _RUNNING | {"warm_up", "graph_capture"}
_LITTLE_CACHE = frozenset({"no_kv_cache", "kv_cache_small"})

LEVERS: tuple[Lever, ...] = (
    Lever(
        _TRAINING,
        "halve",
        ("data.micro_batch_size", "micro_batch_size"),
        "fewer examples at a time; same batch size, more rounds",
        _RUNNING,
        divides="batch_size",
    ),
    Lever(
        ("sft",),
        "halve",
        ("data.seq_len", "seq_len"),
        "shorter examples; longer ones are truncated",
        _RUNNING,
    ),
    Lever(
        ("trainer",),
        "halve",
        ("trainer.model.seq_len", "model.seq_len", "data.seq_len"),
        "shorter packed micro-batches, which set the trainer's peak; longer rollouts are truncated",
        _RUNNING,
        shared=("seq_len",),
        followers=("orchestrator.seq_len", "orch.seq_len"),
    ),
    Lever(("trainer",), "halve", ("max_seq_len",), "shorter sequences; longer ones are truncated", _RUNNING),
    Lever(
        _TRAINING,
        "turn_on",
        ("model.ac.freq", "model.ac", "gradient_checkpointing"),
        "recomputes activations instead of storing them; slower steps",
        _RUNNING,
    ),
    Lever(
        _TRAINING,
        "turn_on",
        ("model.ac_offloading.max_inflight_activations", "model.ac_offloading"),
        "keeps activations in host memory; slower steps",
        _RUNNING,
        on=5,  # prime-rl's own default where the table is there
    ),
    Lever(
        _TRAINING,
        "turn_on",
        ("model.optim_cpu_offload",),
        "keeps optimizer state in host memory; slower steps",
        _RUNNING,
        unless=("model.fsdp_cpu_offload", "model.full_offload"),
    ),
    Lever(
        _TRAINING,
        "turn_on",
        ("model.fsdp_cpu_offload",),
        "keeps weights in host memory; much slower steps",
        _RUNNING,
        unless=("model.optim_cpu_offload", "model.full_offload"),
    ),
    Lever(
        _TRAINING,
        "turn_on",
        ("use_lora", "model.lora.rank"),
        "trains adapters instead of all weights; needs a higher learning rate, and cannot resume full"
        " checkpoints",
        _RUNNING,
        on=16,  # prime-rl's own default where the table is there
    ),
    Lever(
        ("inference",),
        "lower_share",
        ("gpu_memory_utilization",),
        "asks for no more memory than is free",
        frozenset({"start_check"}),
    ),
    Lever(
        ("inference",),
        "fit_length",
        ("max_model_len",),
        "each request needs less KV cache; longer requests are rejected",
        frozenset({"kv_cache_small"}),
    ),
    Lever(
        ("inference",),
        "raise_share",
        ("gpu_memory_utilization",),
        "leaves more memory for the KV cache",
        _LITTLE_CACHE,
    ),
    Lever(
        ("inference",),
        "halve",
        ("max_num_seqs",),
        "the warm-up allocates memory for every request that may run at once",
        frozenset({"warm_up"}),
    ),
    Lever(
        ("inference",),
        "lower_share",
        ("gpu_memory_utilization",),
        "a smaller KV cache leaves more for memory outside the budget",
        _ENGINE,
    ),
    Lever(
        ("inference",),
        "turn_on",
        ("enforce_eager",),
        "no CUDA graphs; slower generation",
        frozenset({"graph_capture"}),
    ),
    Lever(
        ("inference",),
        "fit_length",
        ("max_model_len",),
        "shorter requests; longer ones are rejected",
        _ENGINE | {"no_kv_cache"},
    ),
    Lever(
        ("inference",), "halve", ("max_num_seqs",), "fewer requests at a time", _RUNNING | {"graph_capture"}
    ),
    Lever(
        ("inference",),
        "halve",
        ("max_num_batched_tokens",),
        "a smaller peak in each step; long prompts take more steps",
        _ENGINE | {"no_kv_cache"},
    ),
    Lever(
        ("inference",),
        "turn_on",
        ("enforce_eager",),
        "no CUDA graphs; slower generation",
        _RUNNING | {"warm_up"},
    ),
)
