"""Knobs of the orchestrator and the inference server that the two older generations have in common."""

from __future__ import annotations

from rltui.core.knobs import Knob

BATCH_SIZE = Knob(
    "batch_size", "int", (),
    "Rollouts (sampled answers) per step; more give a steadier gradient and a slower step.",
    128, nullable=True, minimum=1, unit="rollouts", control="doubling",
)  # fmt: skip
GROUP = Knob(
    "rollouts_per_example", "int", (),
    "Answers sampled for each prompt; each one is judged against the mean of its group.",
    1, minimum=1, unit="rollouts", control="doubling",
)  # fmt: skip
OVERSAMPLING = Knob(
    "oversampling_factor", "float", (),
    "Rollouts in flight, as a multiple of batch_size.",
    1.0, minimum=1.0,
)  # fmt: skip
MAX_CONCURRENT = Knob(
    "max_concurrent", "int", (),
    "Rollouts that may be generated and scored at the same time; without it, there is no limit.",
    nullable=True, unit="rollouts", control="doubling",
)  # fmt: skip
STRICT_ASYNC = Knob(
    "strict_async_level", "bool", (),
    "Always stay exactly max_async_level steps ahead, even where newer weights are there already.",
    default=False,
)  # fmt: skip
MAX_ASYNC = Knob(
    "max_async_level", "int", (),
    "How many steps inference may be ahead of the trainer; 0 makes them take turns.",
    1, minimum=0, unit="steps",
)  # fmt: skip
ORCHESTRATOR = (
    Knob(
        "seq_len", "int", (),
        "Longest rollout to train on, prompt included; longer ones are cut.",
        2048, minimum=1, unit="tokens", control="doubling",
    ),
    Knob(
        "max_off_policy_steps", "int", (),
        "Rollouts whose policy is more than this many steps behind are thrown away.",
        8, minimum=0, unit="steps",
    ),
    Knob(
        "num_train_workers", "int", (),
        "Processes of the trainer that take other data; rl sets it from the number of GPUs.",
        1, minimum=1, unit="processes",
    ),
    Knob("seed", "int", (), "Start of the orchestrator's random numbers.", 42, nullable=True),
)  # fmt: skip
TEMPERATURE = Knob(
    "temperature", "float", (),
    "Spread of sampling: 1 follows the model's own probabilities, 0 always takes the likeliest.",
    1.0, nullable=True, minimum=0.0,
)  # fmt: skip
MAX_TOKENS = Knob(
    "max_tokens", "int", (),
    "Longest completion that is generated per turn; without it, up to the model's context.",
    nullable=True, unit="tokens", control="doubling",
)  # fmt: skip
SAMPLING = (
    Knob("min_tokens", "int", (), "Shortest completion that is generated.", 0, minimum=0, unit="tokens"),
    Knob(
        "repetition_penalty", "float", (),
        "Above 1, tokens that were used already become less likely.",
        1.0, minimum=0.0,
    ),
    Knob("seed", "int", (), "Start of the random numbers of sampling.", nullable=True),
)  # fmt: skip
EVAL = (
    Knob(
        "interval", "int", (),
        "Evaluate every so many steps; without the table [eval], never.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "num_examples", "int", (),
        "Examples of each evaluation; -1 takes all.",
        nullable=True, unit="examples",
    ),
    Knob(
        "rollouts_per_example", "int", (),
        "Answers sampled for each example of an evaluation.",
        nullable=True, minimum=1, unit="rollouts",
    ),
    Knob("eval_base_model", "bool", (), "Whether to evaluate before the first step.", nullable=True),
)  # fmt: skip
EVAL_TABLE = {"interval": 100, "num_examples": -1, "rollouts_per_example": 1, "eval_base_model": True}
"""What they are where the table is there without them."""
VAL = (
    Knob(
        "interval", "int", (),
        "Validate every so many steps; without the table [val], never.",
        nullable=True, unit="steps",
    ),
    Knob(
        "num_examples", "int", (),
        "Examples of each validation.",
        nullable=True, minimum=1, unit="examples",
    ),
    Knob(
        "rollouts_per_example", "int", (),
        "Answers sampled for each example of a validation.",
        nullable=True, minimum=1, unit="rollouts",
    ),
)  # fmt: skip
VAL_TABLE = {"interval": 10, "num_examples": 16, "rollouts_per_example": 1}
BUFFER = (
    Knob(
        "easy_threshold", "float", (),
        "Prompts whose mean reward is at least this count as easy.",
        nullable=True,
    ),
    Knob(
        "hard_threshold", "float", (),
        "Prompts whose mean reward is at most this count as hard.",
        nullable=True,
    ),
    Knob(
        "easy_fraction", "float", (),
        "Share of a batch that may come from easy prompts.",
        0.0, minimum=0.0, maximum=1.0,
    ),
    Knob(
        "hard_fraction", "float", (),
        "Share of a batch that may come from hard prompts.",
        0.0, minimum=0.0, maximum=1.0,
    ),
    Knob(
        "online_difficulty_filtering", "bool", (),
        "Leave out groups in which all rollouts got reward 0 or all got 1: nothing is learnt from them.",
        default=False,
    ),
)  # fmt: skip
BASE_URL = Knob(
    "client.base_url", "list", (),
    "Addresses of the inference servers; the port must be that of the server.",
    ["http://localhost:8000/v1"],
)  # fmt: skip
CLIENT_TIMEOUT = Knob(
    "client.timeout", "int", (),
    "How long a request to inference may take.",
    1200, unit="s",
)  # fmt: skip

INFERENCE = (
    Knob(
        "gpu_memory_utilization", "float", (),
        "Share of each GPU's memory that vLLM takes for itself; a trainer on the same GPU needs the rest.",
        0.9, control="fraction",
    ),
    Knob(
        "model.max_model_len", "int", (),
        "Longest prompt plus completion that the server accepts; without it, what the model can do.",
        nullable=True, unit="tokens", control="doubling",
    ),
    Knob(
        "model.enforce_eager", "bool", (),
        "Do without CUDA graphs: a faster start and less memory, slower generation.",
        default=False,
    ),
    Knob(
        "model.dtype", "enum", (),
        "Precision of weights and activations while sampling.",
        "auto", choices=("auto", "float16", "bfloat16", "float32"),
    ),
    Knob("model.trust_remote_code", "bool", (), "Run Python code that comes with the model.", default=False),
    Knob(
        "model.tool_call_parser", "str", (),
        "How vLLM finds tool calls in what the model writes.",
        nullable=True,
    ),
    Knob("parallel.tp", "int", (), "GPUs that share each layer while sampling.", 1, minimum=1, unit="GPUs"),
    Knob(
        "parallel.dp", "int", (),
        "Copies of the model that sample side by side; rl sets it from the number of GPUs.",
        1, minimum=1, unit="copies",
    ),
)  # fmt: skip
PORT = Knob(
    "server.port", "int", (),
    "TCP port of the inference server.",
    8000, minimum=1, maximum=65535,
)  # fmt: skip
HOST = Knob(
    "server.host", "str", (),
    "Address that the inference server listens on; without it, every one.",
    nullable=True,
)  # fmt: skip
BROADCAST = Knob(
    "type", "enum", (),
    "How new weights reach inference: through files, or directly from GPU to GPU.",
    "filesystem", choices=("filesystem", "nccl"),
)  # fmt: skip
WANDB = (
    Knob("project", "str", (), "Project at Weights & Biases.", nullable=True),
    Knob("name", "str", (), "Name of the run at Weights & Biases.", nullable=True),
    Knob("offline", "bool", (), "Write for Weights & Biases without sending anything.", nullable=True),
)  # fmt: skip
WANDB_TABLE = {"project": "prime-rl", "offline": False}
OUTPUT_DIR = Knob(
    "output_dir", "str", (),
    "Folder for logs, checkpoints and weights: one for each run.",
    "outputs",
)  # fmt: skip
