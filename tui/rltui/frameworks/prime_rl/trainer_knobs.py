"""Knobs of the tables that the RL trainer and the SFT trainer of every generation have in common.

Keys are those below the table that a `Place` names: `model`, `optim`, `scheduler`, `ckpt`.
"""

from __future__ import annotations

from rltui.core.knobs import Knob

_FLASH = ("sdpa", "flash_attention_2", "flash_attention_3")

MODEL_NAME = Knob(
    "name", "str", (),
    "Model to train: a name on the Hugging Face hub, or a folder.",
    "Qwen/Qwen3-0.6B",
)  # fmt: skip
SEQ_LEN = Knob(
    "seq_len", "int", (),
    "Tokens of one packed micro-batch: the main lever on the trainer's memory.",
    2048, minimum=1, unit="tokens", control="doubling",
)  # fmt: skip
ATTN_SPLIT = Knob(
    "attn", "enum", (),
    "How attention is computed; flash_attention_3 needs a Hopper GPU.",
    "flash_attention_2", choices=_FLASH,
)  # fmt: skip
ATTN = Knob(
    "attn", "enum", (),
    "How attention is computed; flash_attention_3 needs a Hopper GPU.",
    "flash_attention_2", choices=("eager", *_FLASH, "flash_attention_4", "fa4"),
)  # fmt: skip
IMPL_SPLIT = Knob(
    "impl", "enum", (),
    "Whose code of the model is run: hf is the transformers library's.",
    "hf", choices=("hf", "liger_kernel", "custom"),
)  # fmt: skip
IMPL = Knob(
    "impl", "enum", (),
    "Whose code of the model is run: auto takes prime-rl's own where there is one.",
    "auto", choices=("hf", "custom", "auto"),
)  # fmt: skip
OPTIM_CPU_OFFLOAD = Knob(
    "optim_cpu_offload", "bool", (),
    "Keep the optimizer's state in main memory: saves GPU memory, costs time at each step.",
    default=False,
)  # fmt: skip
TENSOR_PARALLEL = Knob(
    "tp", "int", (),
    "GPUs that share each layer of the trained model.",
    1, minimum=1, unit="GPUs",
)  # fmt: skip

COMPILE = (
    Knob(
        "compile.fullgraph", "bool", (),
        "Refuse to split the compiled graph; [model.compile] without it compiles, no table does not.",
        nullable=True,
    ),
)  # fmt: skip
ACTIVATIONS = (
    Knob(
        "ac.freq", "int", (),
        "Recompute the activations of every so many layers instead of keeping them: less memory, slower.",
        nullable=True, minimum=1, unit="layers",
    ),
    Knob(
        "ac_offloading.max_inflight_activations", "int", (),
        "Move activations to main memory, with so many on their way at a time.",
        nullable=True, minimum=1,
    ),
    Knob(
        "ac_offloading.pin_memory", "bool", (),
        "Whether main memory for activations is pinned: faster transfers.",
        nullable=True,
    ),
)  # fmt: skip
AC_MODE = Knob(
    "ac.mode", "enum", (),
    "Recompute whole layers, or only the parts that ac.targets names.",
    nullable=True, choices=("full", "selective"),
)  # fmt: skip
SHARDING = (
    Knob(
        "fsdp_cpu_offload", "bool", (),
        "Keep weights, gradients and optimizer state in main memory: saves most GPU memory, slowest.",
        default=False,
    ),
    Knob(
        "reshard_after_forward", "bool", (),
        "Give back a layer's weights after its forward pass: less memory, more traffic between GPUs.",
        default=True,
    ),
    Knob(
        "dp_replicate", "int", (),
        "Copies of the sharded model; more copies mean less traffic and more memory.",
        1, minimum=1, unit="copies",
    ),
    Knob(
        "ep", "int", (),
        "GPUs over which the experts of a MoE layer are spread.",
        1, minimum=1, unit="GPUs",
    ),
    Knob(
        "cp", "int", (),
        "GPUs that share each sequence: for sequences that are too long for one.",
        1, minimum=1, unit="GPUs",
    ),
)  # fmt: skip
DTYPES = (
    Knob(
        "optimization_dtype", "enum", (),
        "Precision of the weights that the optimizer changes.",
        "float32", choices=("bfloat16", "float32"),
    ),
    Knob(
        "reduce_dtype", "enum", (),
        "Precision in which gradients of several GPUs are added.",
        "float32", choices=("bfloat16", "float32"),
    ),
)  # fmt: skip
REMOTE_CODE = Knob(
    "trust_remote_code", "bool", (),
    "Run Python code that comes with the model.",
    default=False,
)  # fmt: skip
LORA = (
    Knob(
        "rank", "int", (),
        "Train small matrices of this rank beside frozen weights (LoRA); without the table all weights.",
        nullable=True, minimum=1, control="doubling",
    ),
    Knob(
        "alpha", "float", (),
        "How strongly the LoRA matrices count: their output is scaled by alpha / rank.",
        nullable=True, minimum=0.0,
    ),
    Knob(
        "dropout", "float", (),
        "Share of LoRA inputs that are left out at random while training.",
        nullable=True, minimum=0.0, maximum=1.0,
    ),
)  # fmt: skip
OPTIM = (
    Knob(
        "type", "enum", (),
        "The optimizer; muon is for matrices, sgd has no state.",
        "adamw", choices=("sgd", "adamw", "muon"),
    ),
    Knob("lr", "float", (), "Learning rate: how far a step goes.", 1e-6, minimum=0.0),
    Knob("weight_decay", "float", (), "How strongly weights are pulled to zero.", 0.01, minimum=0.0),
    Knob("max_norm", "float", (), "Longer gradients are scaled down to this norm.", 1.0, minimum=0.0),
    Knob("betas1", "float", (), "How long AdamW remembers gradients.", 0.9, minimum=0.0),
    Knob("betas2", "float", (), "How long AdamW remembers squared gradients.", 0.999, minimum=0.0),
)  # fmt: skip
SCHEDULER = (
    Knob(
        "type", "enum", (),
        "How the learning rate changes over the run.",
        "constant", choices=("constant", "linear", "cosine"),
    ),
    Knob(
        "warmup_steps", "int", (),
        "Steps over which the learning rate rises to its full size; not with type constant.",
        10, minimum=0, unit="steps",
    ),
    Knob(
        "decay_steps", "int", (),
        "Last steps of the run over which the learning rate falls; with type linear.",
        10, minimum=0, unit="steps",
    ),
    Knob("min_lr", "float", (), "Learning rate at the end; not with type constant.", 0.0, minimum=0.0),
)  # fmt: skip
CKPT = (
    Knob(
        "interval", "int", (),
        "Write a checkpoint every so many steps; with [ckpt] alone only at the end, without it never.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "resume_step", "int", (),
        "Continue from the checkpoint of this step; -1 takes the newest.",
        nullable=True, minimum=-1, unit="step",
    ),
)  # fmt: skip
CKPT_KEEP_SPLIT = Knob(
    "keep", "int", (),
    "How many of the newest checkpoints are kept; without it, all.",
    nullable=True, minimum=1, unit="checkpoints",
)  # fmt: skip
CKPT_KEEP = (
    Knob(
        "keep_last", "int", (),
        "How many of the newest checkpoints are kept; without it, all.",
        nullable=True, minimum=1, unit="checkpoints",
    ),
    Knob(
        "keep_interval", "int", (),
        "Checkpoints at multiples of this step are kept for good.",
        nullable=True, minimum=1, unit="steps",
    ),
)  # fmt: skip
MAX_STEPS = Knob(
    "max_steps", "int", (),
    "Optimizer steps of the run; without it, it never ends.",
    nullable=True, unit="steps",
)  # fmt: skip
DIST_TIMEOUT = Knob(
    "dist_timeout_seconds", "int", (),
    "How long GPUs wait for each other before the trainer gives up.",
    600, unit="s",
)  # fmt: skip
TRACE_PATH = Knob(
    "trace_path", "str", (),
    "Write a profile of every step there; needs max_steps below 10.",
    nullable=True,
)  # fmt: skip
FAKE_DATA = (
    Knob(
        "fake.batch_size", "int", (),
        "Train on random data with so many sequences per step, to measure speed and memory.",
        nullable=True, minimum=1, unit="sequences", control="doubling",
    ),
)  # fmt: skip
