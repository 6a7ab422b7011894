"""What can be turned in a tinyrl config: names and meanings of prime-rl's merged file of spring 2026."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import value_at

INFERENCE, ORCHESTRATOR, TRAINER, SFT = "inference", "orchestrator", "trainer", "sft"
_O = (ORCHESTRATOR,)
_T = (TRAINER,)
_I = (INFERENCE,)
_OT = (ORCHESTRATOR, TRAINER)

_SHARED = (
    Knob(
        "model.name", "str", (INFERENCE, ORCHESTRATOR, TRAINER),
        "Folder of the model that is trained; the sft step makes it where it is missing.",
    ),
    Knob(
        "max_steps", "int", _OT,
        "How many optimizer steps the run takes; without it, it goes on until it is stopped.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "seq_len", "int", _OT,
        "Longest sequence, prompt and completion together; the two seq_len below follow it unless set.",
        nullable=True, minimum=1, unit="tokens",
    ),
    Knob(
        "max_async_level", "int", _OT,
        "How many steps the model that generates may be ahead of the trainer; 0 makes them take turns.",
        default=1, minimum=0, unit="steps",
    ),
    Knob("seed", "int", _OT, "Starting point of all random numbers.", default=0, minimum=0),
)  # fmt: skip

_ORCHESTRATOR = (
    Knob(
        "orchestrator.batch_size", "int", _O,
        "Rollouts (sampled answers) per step; more give a steadier gradient and a slower step.",
        default=128, nullable=True, minimum=1, unit="rollouts",
    ),
    Knob(
        "orchestrator.token_batch_size", "int", _O,
        "Collect rollouts until they hold this many tokens, instead of a fixed number of them.",
        nullable=True, minimum=1, unit="tokens",
    ),
    Knob(
        "orchestrator.rollouts_per_example", "int", _O,
        "Answers sampled for each prompt; each one is judged against the mean of its group.",
        default=1, minimum=1, unit="rollouts",
    ),
    Knob(
        "orchestrator.oversampling_factor", "float", _O,
        "Rollouts in flight, as a multiple of batch_size.",
        nullable=True, minimum=1.0,
    ),
    Knob(
        "orchestrator.max_inflight_rollouts", "int", _O,
        "Rollouts that are being generated at the same time; more keep inference busier.",
        nullable=True, minimum=1, unit="rollouts",
    ),
    Knob(
        "orchestrator.seq_len", "int", _O,
        "Longest sequence the orchestrator hands to the trainer; longer rollouts are cut.",
        default=2048, minimum=1, unit="tokens",
    ),
    Knob(
        "orchestrator.max_off_policy_steps", "int", _O,
        "Rollouts begun more than this many steps ago are thrown away.",
        default=8, minimum=0, unit="steps",
    ),
    Knob(
        "orchestrator.sampling.temperature", "float", _O,
        "How adventurous sampling is: 1 follows the model's own probabilities, lower is safer.",
        default=1.0, minimum=0.0,
    ),
    Knob(
        "orchestrator.sampling.max_tokens", "int", _O,
        "Longest completion that is generated.",
        nullable=True, minimum=1, unit="tokens",
    ),
    Knob(
        "orchestrator.client.base_url", "str", _O,
        "Address of the inference server; without it, the one that inference.server says.",
        nullable=True,
    ),
)  # fmt: skip

_TRAINER = (
    Knob(
        "trainer.optim.lr", "float", _T,
        "Learning rate: how far one step moves the weights.",
        default=1e-6, minimum=0.0,
    ),
    Knob(
        "trainer.optim.weight_decay", "float", _T,
        "How strongly weights are pulled towards zero.",
        default=0.01, minimum=0.0,
    ),
    Knob(
        "trainer.optim.max_norm", "float", _T,
        "Longer gradients are scaled down to this norm.",
        default=1.0, minimum=0.0,
    ),
    Knob(
        "trainer.model.seq_len", "int", _T,
        "Longest sequence the trainer takes; at least orchestrator.seq_len.",
        default=2048, minimum=1, unit="tokens",
    ),
)  # fmt: skip

_INFERENCE = (
    Knob(
        "inference.gpu_memory_utilization", "float", _I,
        "Share of a GPU's memory that inference takes for itself; a trainer on the same GPU needs the rest.",
        default=0.9, above=0.0, maximum=1.0,
    ),
    Knob(
        "inference.server.port", "int", (INFERENCE, ORCHESTRATOR),
        "TCP port of the inference server.",
        default=8000, minimum=1, maximum=65535,
    ),
    Knob(
        "inference.server.host", "str", (INFERENCE, ORCHESTRATOR),
        "Address the inference server listens on.",
        nullable=True,
    ),
    Knob(
        "inference.model.max_model_len", "int", _I,
        "Longest sequence the server accepts; without it, what the model was made for.",
        nullable=True, minimum=1, unit="tokens",
    ),
)  # fmt: skip

_CKPT = (
    Knob(
        "ckpt.interval", "int", _OT,
        "Write a checkpoint every so many steps; without it, only at the end of [ckpt] runs.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "ckpt.resume_step", "int", _OT,
        "Continue from the checkpoint of this step; -1 takes the newest.",
        nullable=True, minimum=-1, unit="step",
    ),
    Knob(
        "ckpt.keep_last", "int", _OT,
        "How many checkpoints are kept; without it, all.",
        nullable=True, minimum=1, unit="checkpoints",
    ),
)  # fmt: skip


def _of_sft(*knobs: Knob) -> tuple[Knob, ...]:
    return tuple(replace(knob, readers=(SFT,), file="sft", namespace="sft") for knob in knobs)


_SFT_FILE = _of_sft(
    Knob("max_steps", "int", (), "Optimizer steps of the warm-up.", nullable=True, minimum=1, unit="steps"),
    Knob("data.batch_size", "int", (), "Examples per optimizer step.", 128, minimum=1, unit="examples"),
    Knob(
        "data.micro_batch_size", "int", (),
        "Examples computed at once; batch_size is reached in several such rounds.",
        1, minimum=1, unit="examples",
    ),
    Knob("data.seq_len", "int", (), "Longest example.", 128, minimum=1, unit="tokens"),
    Knob("optim.lr", "float", (), "Learning rate of the warm-up.", 1e-6, minimum=0.0),
)  # fmt: skip

KNOBS = (*_SHARED, *_ORCHESTRATOR, *_TRAINER, *_INFERENCE, *_CKPT, *_SFT_FILE)
BY_NAME = {knob.name: knob for knob in KNOBS}


def defaults(files: ConfigFiles) -> Mapping[str, Any]:
    """Defaults that follow from other values. Values of a wrong type count as not set."""
    if "rl" not in files:
        return {}
    data = files["rl"].data

    def given(name: str) -> TomlValue:
        value = value_at(data, name)
        return value if value is not None and BY_NAME[name].fault(value) is None else None

    found: dict[str, Any] = {}
    if (seq_len := given("seq_len")) is not None:
        found |= {"orchestrator.seq_len": seq_len, "trainer.model.seq_len": seq_len}
    if given("orchestrator.token_batch_size") is not None:
        return {**found, "orchestrator.batch_size": None}
    factor = given("orchestrator.oversampling_factor") or 1.0
    batch_size = given("orchestrator.batch_size") or BY_NAME["orchestrator.batch_size"].default
    return {**found, "orchestrator.max_inflight_rollouts": int(batch_size * factor)}
