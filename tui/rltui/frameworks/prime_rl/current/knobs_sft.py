"""Knobs of an SFT file that are not its trainer's: launcher, evals and their inference server."""

from __future__ import annotations

from rltui.core.knobs import Knob
from rltui.frameworks.prime_rl.current.knobs_inference import SFT_KNOBS as INFERENCE
from rltui.frameworks.prime_rl.current.knobs_orchestrator import concurrency, evaluation
from rltui.frameworks.prime_rl.current.knobs_shared import SHARED
from rltui.frameworks.prime_rl.current.knobs_trainer import SFT_TRAINER_KNOBS
from rltui.frameworks.prime_rl.knob_tables import Place

EVALS = ("sft",)
_AS_IN_RL = (
    "tokenizer.name", "tokenizer.chat_template", "log.json_logging", "monitors.wandb.project",
    "monitors.wandb.entity", "monitors.wandb.name", "monitors.wandb.group", "monitors.wandb.tags",
    "monitors.file.path", "run.name", "run.dir", "output_dir", "resume.step", "resume.dir", "clean",
    "deployment.type", "deployment.num_train_gpus", "deployment.num_infer_gpus", "deployment.gpus_per_node",
)  # fmt: skip
_LAUNCHER = Place(("sft",), file="sft", namespace="sft").put(knob for knob in SHARED if knob.key in _AS_IN_RL)
_CLIENT = (
    Knob(
        "eval.client.base_url", "str", EVALS,
        "Address of the server that evals ask; without it, that of [inference].",
        "http://localhost:8000/v1", file="sft", namespace="sft",
    ),
    Knob(
        "eval.env_server_base_port", "int", EVALS,
        "First port of the environment servers; each source takes the next one.",
        5000, minimum=1, maximum=65535, file="sft", namespace="sft",
    ),
)  # fmt: skip

KNOBS = (
    *SFT_TRAINER_KNOBS,
    *_LAUNCHER,
    *evaluation("eval", EVALS, file="sft", namespace="sft"),
    *concurrency("eval.concurrency", EVALS, file="sft", namespace="sft"),
    *_CLIENT,
    *INFERENCE,
)
