"""Knobs at the top of an RL file: they fan out to several programs, or steer the launcher."""

from __future__ import annotations

from rltui.core.knobs import Knob

I, O, T = "inference", "orchestrator", "trainer"  # noqa: E741 - the three programs
INFERENCE, ORCHESTRATOR, TRAINER = (I,), (O,), (T,)
BOTH = (O, T)
ALL = (I, O, T)

SHARED = (
    Knob(
        "model.name", "str", ALL,
        "Model on the Hugging Face hub or in a folder: trained, sampled from and served.",
        "Qwen/Qwen3-0.6B",
    ),
    Knob(
        "max_steps", "int", BOTH,
        "Optimizer steps of the run; without it, it goes on until it is stopped.",
        nullable=True, unit="steps",
    ),
    Knob(
        "seq_len", "int", BOTH,
        "Longest sequence, prompt and completion together; trainer and orchestrator follow it.",
        nullable=True, minimum=1, unit="tokens", control="doubling",
    ),
    Knob(
        "tokenizer.name", "str", BOTH,
        "Tokenizer on the hub or in a folder; without it, the model's own.",
        nullable=True,
    ),
    Knob(
        "tokenizer.chat_template", "str", ALL,
        "Jinja template, or a file with one, that turns messages into text; without it, the tokenizer's own.",
        nullable=True,
    ),
    Knob(
        "ckpt.interval", "int", BOTH,
        "Steps between checkpoints to resume from; without it, only one at the end.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "ckpt.keep_last", "int", BOTH,
        "How many of the newest checkpoints stay on disk; without it, all do.",
        nullable=True, minimum=1, unit="checkpoints",
    ),
    Knob(
        "ckpt.keep_interval", "int", BOTH,
        "Checkpoints at every multiple of this step are never deleted.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "ckpt.output_dir", "str", TRAINER,
        "Folder for checkpoints, such as a larger disk; without it, the run's own folder.",
        nullable=True,
    ),
    Knob(
        "log.level", "str", ALL,
        "Least important log lines that are written, such as debug or info.",
        nullable=True,
    ),
    Knob(
        "log.json_logging", "bool", ALL,
        "Log lines as JSON for log collectors; rltui shows the plain ones better.",
        False,
    ),
    Knob(
        "monitors.wandb.project", "str", BOTH,
        "Weights & Biases project; the table being there switches it on.",
        "prime-rl", nullable=True,
    ),
    Knob(
        "monitors.wandb.entity", "str", BOTH,
        "Weights & Biases team or user; without it, the account's own.",
        nullable=True,
    ),
    Knob(
        "monitors.wandb.name", "str", BOTH,
        "Name of the run in Weights & Biases; without it, run.name.",
        nullable=True,
    ),
    Knob(
        "monitors.wandb.group", "str", BOTH,
        "Group of runs in Weights & Biases.",
        nullable=True,
    ),
    Knob(
        "monitors.wandb.tags", "list", BOTH,
        "Tags of the run in Weights & Biases.",
        nullable=True,
    ),
    Knob(
        "monitors.file.path", "str", BOTH,
        "File for the metrics in the run's folder; rltui reads step, reward and times from it.",
        "metrics.jsonl",
    ),
    Knob(
        "weight_broadcast.type", "enum", ALL,
        "How new weights get from the trainer to inference: over NCCL, through files, or over NIXL.",
        choices=("nccl", "filesystem", "nixl"),
    ),
    Knob(
        "weight_broadcast.host", "str", ALL,
        "Host on which the trainer offers its weights.",
        "localhost",
    ),
    Knob("weight_broadcast.port", "int", ALL, "Port on which the trainer offers its weights.", 29501),
    Knob(
        "weight_broadcast.timeout", "int", ALL,
        "How long a transfer of weights may take before it counts as failed.",
        1200, unit="s",
    ),
    Knob(
        "weight_broadcast.quantize_in_weight_transfer", "bool", ALL,
        "Send weights over NCCL as FP8, in the layout of the inference kernels.",
        False,
    ),
    Knob(
        "rollout_transport.type", "enum", BOTH,
        "How batches get from the orchestrator to the trainer: over ZMQ, or through files.",
        choices=("zmq", "filesystem"),
    ),
    Knob("rollout_transport.host", "str", BOTH, "Host of the trainer for the orchestrator.", "localhost"),
    Knob(
        "rollout_transport.port", "int", BOTH,
        "Port for batches; the next one is taken for the trainer's ready message.",
        5555,
    ),
    Knob(
        "rollout_transport.hwm", "int", BOTH,
        "Messages that may wait in a socket before the sender blocks.",
        10, unit="messages",
    ),
    Knob(
        "deployment.type", "enum", ALL,
        "One machine, or several under SLURM, which rltui does not start.",
        "single_node", choices=("single_node", "multi_node"),
    ),
    Knob(
        "deployment.num_train_gpus", "int", ALL,
        "GPUs for the trainer; they come after those of inference.",
        1, minimum=1, unit="GPUs",
    ),
    Knob(
        "deployment.num_infer_gpus", "int", ALL,
        "GPUs for inference, the first ones; engines are added until they fill them.",
        1, minimum=0, unit="GPUs",
    ),
    Knob("deployment.gpus_per_node", "int", ALL, "GPUs that the machine has.", 8, minimum=1, unit="GPUs"),
    Knob(
        "run.name", "str", BOTH,
        "Name of the run and its folder; without it, every launch gets a new one, and resuming needs it.",
        nullable=True,
    ),
    Knob(
        "run.dir", "str", BOTH,
        "Folder of the run below output_dir; without it, run.name.",
        nullable=True,
    ),
    Knob("output_dir", "str", BOTH, "Folder in which each run gets a folder.", "outputs"),
    Knob(
        "resume.step", "int", BOTH,
        "Checkpoint to go on from; with an empty [resume] table, the newest one.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "resume.dir", "str", BOTH,
        "Checkpoint of another run to go on from: a folder named step_<number>.",
        nullable=True,
    ),
    Knob(
        "clean", "bool", BOTH,
        "The rl launcher deletes the run's folder before it starts.",
        False,
    ),
)  # fmt: skip
