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
        "outputs/reverse-text-sft",
    ),
    Knob("max_steps", "int", _OT, "Optimizer steps of the run.", 60, minimum=1, unit="steps"),
    Knob(
        "seq_len", "int", _OT,
        "Longest sequence, prompt and completion together; the two seq_len below follow it unless set.",
        256, minimum=1, unit="tokens",
    ),
    Knob(
        "max_async_level", "int", _OT,
        "How many steps the orchestrator may be ahead of the trainer; 0 makes them take turns.",
        1, minimum=0, unit="steps",
    ),
    Knob("seed", "int", _OT, "Start of all random numbers: same seed, same examples.", 0, minimum=0),
)  # fmt: skip

_ORCHESTRATOR = (
    Knob(
        "orchestrator.batch_size", "int", _O,
        "Rollouts (sampled answers) per step; more give a steadier gradient and a slower step.",
        128, nullable=True, minimum=1, unit="rollouts", control="doubling",
    ),
    Knob(
        "orchestrator.token_batch_size", "int", _O,
        "Collect rollouts until they hold this many tokens, instead of a fixed number of them.",
        nullable=True, minimum=1, unit="tokens",
    ),
    Knob(
        "orchestrator.rollouts_per_example", "int", _O,
        "Answers sampled for each prompt; each one is judged against the mean of its group.",
        1, minimum=1, unit="rollouts",
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
        "Longest rollout to train on, prompt included; longer ones are cut.",
        256, minimum=1, unit="tokens",
    ),
    Knob(
        "orchestrator.max_off_policy_steps", "int", _O,
        "Rollouts whose policy is more than this many steps behind are thrown away.",
        8, minimum=0, unit="steps",
    ),
    Knob(
        "orchestrator.max_async_level", "int", _O,
        "The shared max_async_level for the orchestrator alone; must equal the trainer's.",
        1, minimum=0, unit="steps",
    ),
    Knob(
        "orchestrator.strict_async_level", "bool", _O,
        "Always stay exactly max_async_level steps ahead, even where newer weights are there already.",
        False,
    ),
    Knob(
        "orchestrator.sampling.temperature", "float", _O,
        "Spread of sampling: 1 follows the model's own probabilities, 0 always takes the likeliest.",
        1.0, minimum=0.0,
    ),
    Knob(
        "orchestrator.sampling.max_tokens", "int", _O,
        "Longest completion that is generated.",
        16, minimum=1, unit="tokens",
    ),
    Knob(
        "orchestrator.client.base_url", "str", _O,
        "Address of the inference server; without it, the one that inference.server says.",
        nullable=True,
    ),
)  # fmt: skip

_TRAINER = (
    Knob("trainer.optim.lr", "float", _T, "Learning rate: how far a step goes.", 3e-4, minimum=0.0),
    Knob(
        "trainer.optim.weight_decay", "float", _T,
        "How strongly weights are pulled towards zero.",
        0.01, minimum=0.0,
    ),
    Knob(
        "trainer.optim.max_norm", "float", _T,
        "Longer gradients are scaled down to this norm.",
        1.0, minimum=0.0,
    ),
    Knob(
        "trainer.optim.betas2", "float", _T,
        "How long AdamW remembers squared gradients.",
        0.99, minimum=0.0, below=1.0,
    ),
    Knob(
        "trainer.scheduler.warmup_steps", "int", _T,
        "Steps over which the learning rate rises to its full size.",
        5, minimum=0, unit="steps",
    ),
    Knob(
        "trainer.loss.mask_ratio_low", "float", _T,
        "Tokens that the policy has become less likely to choose than this factor are left out.",
        0.125, minimum=0.0,
    ),
    Knob(
        "trainer.loss.mask_ratio_high", "float", _T,
        "Tokens that the policy has become more likely to choose than this factor are left out.",
        8.0, minimum=0.0,
    ),
    Knob(
        "trainer.model.seq_len", "int", _T,
        "Tokens of one packed micro-batch; at least orchestrator.seq_len.",
        256, minimum=1, unit="tokens",
    ),
    Knob(
        "trainer.max_async_level", "int", _T,
        "The shared max_async_level for the trainer alone; must equal the orchestrator's.",
        1, minimum=0, unit="steps",
    ),
)  # fmt: skip

_INFERENCE = (
    Knob(
        "inference.gpu_memory_utilization", "float", _I,
        "Share of a GPU's memory that inference takes for itself; a trainer on the same GPU needs the rest.",
        0.9, above=0.0, maximum=1.0, control="fraction",
    ),
    Knob(
        "inference.max_num_seqs", "int", _I,
        "Sequences that are generated at the same time.",
        256, minimum=1, unit="sequences",
    ),
    Knob(
        "inference.model.max_model_len", "int", _I,
        "Longest prompt plus completion that the server accepts.",
        128, minimum=2, unit="tokens",
    ),
    Knob(
        "inference.server.port", "int", (INFERENCE, ORCHESTRATOR),
        "TCP port of the inference server.",
        8000, minimum=1, maximum=65535,
    ),
    Knob(
        "inference.server.host", "str", (INFERENCE, ORCHESTRATOR),
        "Address that the inference server listens on.",
        "127.0.0.1",
    ),
)  # fmt: skip

_CKPT = (
    Knob(
        "ckpt.interval", "int", _OT,
        "Write a checkpoint every so many steps; without the table [ckpt] there are none.",
        10, nullable=True, minimum=1, unit="steps",
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
    Knob("max_steps", "int", (), "Optimizer steps of the warm-up.", 380, minimum=1, unit="steps"),
    Knob("seed", "int", (), "Start of all random numbers: same seed, same model.", 0, minimum=0),
    Knob("data.batch_size", "int", (), "Examples per optimizer step.", 64, minimum=1, unit="examples"),
    Knob(
        "data.micro_batch_size", "int", (),
        "Examples computed at once; batch_size is reached in several such rounds.",
        64, minimum=1, unit="examples",
    ),
    Knob("data.seq_len", "int", (), "Longest example.", 128, minimum=1, unit="tokens"),
    Knob("data.min_chars", "int", (), "Shortest text to reverse.", 4, minimum=1, unit="characters"),
    Knob("data.max_chars", "int", (), "Longest text to reverse.", 7, minimum=1, unit="characters"),
    Knob(
        "data.give_up_frac", "float", (),
        "Share of examples that give up after two letters: the bad habit that RL then has to break.",
        0.6, minimum=0.0, maximum=1.0,
    ),
    Knob("optim.lr", "float", (), "Learning rate of the warm-up; it falls to zero.", 3e-3, minimum=0.0),
    Knob("optim.weight_decay", "float", (), "Pull of all weights towards zero.", 0.01, minimum=0.0),
    Knob("optim.max_norm", "float", (), "Longer gradients are scaled down to this norm.", 1.0, minimum=0.0),
    Knob(
        "scheduler.warmup_steps", "int", (),
        "Steps over which the learning rate rises to its full size.",
        20, minimum=0, unit="steps",
    ),
    Knob("model.hidden_size", "int", (), "Width of the new model.", 96, minimum=4),
    Knob("model.intermediate_size", "int", (), "Width of its feed-forward layers.", 192, minimum=4),
    Knob("model.num_hidden_layers", "int", (), "Number of its layers.", 3, minimum=1, unit="layers"),
    Knob("model.num_attention_heads", "int", (), "Attention heads per layer.", 4, minimum=1, unit="heads"),
    Knob(
        "model.max_position_embeddings", "int", (),
        "Longest sequence that the new model takes.",
        512, minimum=8, unit="tokens",
    ),
)  # fmt: skip

KNOBS = (*_SHARED, *_ORCHESTRATOR, *_TRAINER, *_INFERENCE, *_CKPT, *_SFT_FILE)
BY_NAME = {knob.name: knob for knob in KNOBS}
_FILLED = {
    "seq_len": ("orchestrator.seq_len", "trainer.model.seq_len"),
    "max_async_level": ("orchestrator.max_async_level", "trainer.max_async_level"),
}
"""Shared knob → knobs that follow it where they are not set."""


def defaults(files: ConfigFiles) -> Mapping[str, Any]:
    """Defaults that follow from other values. Values of a wrong type count as not set."""
    if "rl" not in files:
        return {}
    data = files["rl"].data

    def given(name: str) -> TomlValue:
        value = value_at(data, name)
        return value if value is not None and BY_NAME[name].fault(value) is None else None

    found: dict[str, Any] = {}
    for shared, followers in _FILLED.items():
        if (value := given(shared)) is not None:
            found.update(dict.fromkeys(followers, value))
    if "ckpt" not in data:
        found["ckpt.interval"] = None
    if given("orchestrator.token_batch_size") is not None:
        return {**found, "orchestrator.batch_size": None}
    factor = given("orchestrator.oversampling_factor") or 1.0
    batch_size = given("orchestrator.batch_size") or BY_NAME["orchestrator.batch_size"].default
    return {**found, "orchestrator.max_inflight_rollouts": int(batch_size * factor)}
