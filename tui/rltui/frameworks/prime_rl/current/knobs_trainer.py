"""Knobs of the two trainers: below `[trainer]` of an RL file, and at the top of an SFT file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.prime_rl import trainer_knobs as shared
from rltui.frameworks.prime_rl.knob_tables import Place
from rltui.frameworks.prime_rl.sft_knobs import DATA

_MODEL = (
    shared.MODEL_NAME,
    shared.SEQ_LEN,
    shared.REMOTE_CODE,
    replace(
        shared.ATTN,
        default="auto",
        choices=("flash_attention_2", "flash_attention_3", "flash_attention_4", "auto"),
        help="How attention is computed; auto takes the newest that the GPU can do.",
    ),
    shared.IMPL,
    *(replace(knob, nullable=False) for knob in (*shared.COMPILE, shared.AC_MODE, *shared.ACTIVATIONS)),
    *(replace(knob, nullable=True, default=None) if knob.key == "ep" else knob for knob in shared.SHARDING),
    replace(shared.OPTIM_CPU_OFFLOAD, default=True),
    *shared.DTYPES,
    Knob(
        "full_offload.cpu_optimizer_backend", "enum", (),
        "Run the optimizer on the CPU during the backward pass; torch is slower and for comparing.",
        nullable=True, choices=("native", "torch"),
    ),
    Knob(
        "full_offload.numa_bind", "bool", (),
        "Keep each rank on the CPUs next to its GPU.",
        nullable=True,
    ),
    Knob(
        "ep_comm_backend", "enum", (),
        "What carries tokens to experts on other GPUs.",
        "torch", choices=("torch", "deepep"),
    ),
    Knob(
        "cp_style", "enum", (),
        "How GPUs share a sequence: ring passes keys on, ulysses swaps sequence for heads.",
        "ring", choices=("ring", "ulysses"),
    ),
    Knob(
        "moe_router_dtype", "enum", (),
        "Precision in which a mixture-of-experts model chooses its experts.",
        "float32", choices=("bfloat16", "float32"),
    ),
    Knob(
        "freeze_moe_router", "bool", (),
        "Leave the choice of experts as it is.",
        default=False,
    ),
    Knob(
        "quantization.type", "enum", (),
        "Train in 8 bits: fp8, or mxfp8 on Blackwell GPUs.",
        nullable=True, choices=("fp8", "mxfp8"),
    ),
    Knob(
        "fused_lm_head_token_chunk_size", "int", (),
        "Tokens whose logits exist at the same time; fewer save memory, disabled keeps all.",
        8192, unit="tokens", control="doubling",
    ),
    Knob(
        "debug.num_layers", "int", (),
        "Only the first layers of the model, for trying out.",
        nullable=True, unit="layers",
    ),
    Knob("debug.random_init", "bool", (), "Random weights, for trying out.", default=False),
)  # fmt: skip
_OPTIM = (
    *(replace(knob, nullable=True) if knob.key == "max_norm" else knob for knob in shared.OPTIM
      if knob.key != "type"),
    replace(shared.OPTIM[0], choices=("adamw", "sgd", "muon", "sign_sgd"),
            help="The optimizer; muon is for matrices, sgd and sign_sgd need less memory."),
    Knob("mu", "float", (), "How long muon remembers gradients.", 0.95, minimum=0.0),
    Knob("momentum", "float", (), "How long sgd remembers gradients.", 0.9),
    Knob("nesterov", "bool", (), "Momentum of sgd that looks one step ahead.", default=True),
)  # fmt: skip
_CKPT = (
    shared.CKPT[0],
    *shared.CKPT_KEEP,
    Knob(
        "output_dir", "str", (),
        "Folder for checkpoints, such as a larger disk; without it, the run's own folder.",
        nullable=True,
    ),
)  # fmt: skip
_TOP = (
    shared.MAX_STEPS,
    replace(shared.DIST_TIMEOUT, default=3600),
    shared.TRACE_PATH,
    Knob(
        "matmul_precision", "enum", (),
        "Precision of float32 products: high lets NVIDIA GPUs use TF32.",
        "high", choices=("highest", "high", "medium"),
    ),
    Knob(
        "gc.interval", "int", (),
        "Steps between collections of Python's garbage, so that no rank waits for another's.",
        50, minimum=1, unit="steps",
    ),
    Knob("log.level", "str", (), "Least important log lines of the trainer.", "info"),
)  # fmt: skip
_LOSS = (
    Knob(
        "type", "enum", (),
        "How advantages become a loss.",
        "default", choices=("default", "ipo", "custom"),
    ),
    Knob(
        "dppo_mask_low", "float", (),
        "Tokens that became less likely by more than this are left out.",
        0.2, minimum=0.0,
    ),
    Knob(
        "dppo_mask_high", "float", (),
        "Tokens that became likelier by more than this are left out.",
        0.2, minimum=0.0,
    ),
    Knob("ipo_threshold", "float", (), "The same bound both ways, for type ipo.", 0.1, minimum=0.0),
    Knob("adv_tau", "float", (), "Weight of the advantage.", 1.0, minimum=0.0),
    Knob(
        "kl_tau", "float", (),
        "Weight of staying close to the policy that sampled.",
        1e-3, minimum=0.0,
    ),
)  # fmt: skip
_RL_ONLY = (
    *(replace(knob, key=f"data.{knob.key}") for knob in shared.FAKE_DATA),
    Knob(
        "enable_router_replay", "bool", (),
        "Choose the same experts as inference did; only for prime-rl's own models.",
        default=False,
    ),
    Knob(
        "enable_token_export", "bool", (),
        "Write every token with its figures to files, to look into rollouts.",
        default=False,
    ),
    Knob(
        "rollout_transport.type", "enum", (),
        "The shared rollout_transport.type for the trainer alone; must equal the orchestrator's.",
        "zmq", choices=("zmq", "filesystem"),
    ),
    Knob(
        "metrics_server.port", "int", (),
        "Port for the trainer's metrics in Prometheus format; the table being there switches it on.",
        nullable=True, minimum=1, maximum=65535,
    ),
)  # fmt: skip
_SFT_ONLY = (
    *DATA,
    Knob(
        "data.num_workers", "int", (),
        "Processes that prepare batches while the GPU computes.",
        1, minimum=1, unit="processes",
    ),
    Knob(
        "val.interval", "int", (),
        "Steps between validations; the table being there, with [val.data], switches them on.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "val.eval_on_start", "bool", (),
        "Validate before the first step too.",
        nullable=True,
    ),
    *(replace(knob, key=f"val.{knob.key}", default=None, nullable=True) for knob in DATA
      if knob.key in ("data.name", "data.batch_size", "data.micro_batch_size", "data.seq_len")),
    Knob(
        "renderer.name", "str", (),
        "What turns messages into tokens; auto knows the common models, others need a typed one's name.",
        "auto",
    ),
    Knob(
        "weight_broadcast.type", "enum", (),
        "How new weights get to the server that evals ask: over NCCL, or through files.",
        nullable=True, choices=("nccl", "filesystem", "nixl"),
    ),
)  # fmt: skip
_LISTS = (
    Knob(
        "target_modules", "list", (),
        "Layers that get LoRA matrices, by name or pattern.",
        nullable=True,
    ),
)  # fmt: skip
_ON: Mapping[str, TomlValue] = {
    "compile.fullgraph": False,
    "ac.mode": "full",
    "ac.freq": 1,
    "ac_offloading.pin_memory": True,
    "ac_offloading.max_inflight_activations": 5,
}
"""What is in tables that are there although no file names them."""
_BOTH: Mapping[str, Mapping[str, TomlValue]] = {
    "model.lora": {
        "rank": 16, "alpha": 32.0, "dropout": 0.0,
        "target_modules": [
            "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "experts",
            "fc1_latent_proj", "fc2_latent_proj",
        ],
    },
    "model.full_offload": {"cpu_optimizer_backend": "native", "numa_bind": True},
}  # fmt: skip
WHEN_THERE: Mapping[str, Mapping[str, TomlValue]] = {
    **{f"{trainer}.{table}": keys for trainer in ("trainer", "sft") for table, keys in _BOTH.items()},
    "trainer.data.fake": {"batch_size": 2},
    "trainer.metrics_server": {"port": 8000},
    "sft.val": {"interval": 50, "eval_on_start": False},
    "sft.val.data": {
        "name": "PrimeIntellect/Reverse-Text-SFT", "batch_size": 128, "micro_batch_size": 1, "seq_len": 128,
    },
}  # fmt: skip
"""What is in tables that are off unless they are there, by the name of the table."""


def _trainer(place: Place, further: tuple[Knob, ...]) -> Iterator[Knob]:
    def below(table: str) -> Place:
        return replace(place, prefix=f"{place.prefix}.{table}" if place.prefix else table)

    yield from below("model").put(_MODEL, defaults=_ON)
    yield from below("model.lora").put((*shared.LORA, *_LISTS))
    yield from below("optim").put(_OPTIM)
    yield from below("scheduler").put(shared.SCHEDULER)
    yield from below("ckpt").put(_CKPT)
    yield from place.put((*_TOP, *further))


def _with_values(knobs: Iterator[Knob]) -> Iterator[Knob]:
    """In a table that is there, its keys cannot be `None`."""
    filled = {f"{table}.{key}" for table, keys in WHEN_THERE.items() for key in keys}
    for knob in knobs:
        yield replace(knob, nullable=knob.nullable and knob.name not in filled)


_LOSS_HERE = tuple(replace(knob, key=f"loss.{knob.key}") for knob in _LOSS)
TRAINER_KNOBS = tuple(_with_values(_trainer(Place(("trainer",), "trainer"), (*_LOSS_HERE, *_RL_ONLY))))
SFT_TRAINER_KNOBS = tuple(_with_values(_trainer(Place(("sft",), file="sft", namespace="sft"), _SFT_ONLY)))
