"""Knobs of the orchestrator."""

from __future__ import annotations

from rltui.core.knobs import Knob
from rltui.frameworks.base import BatchKnobs
from rltui.frameworks.prime_rl.current.knobs_shared import BOTH
from rltui.frameworks.prime_rl.current.knobs_shared import ORCHESTRATOR as _O
from rltui.frameworks.prime_rl.log_lines import TOKENS_PER_ROLLOUT

BATCH = BatchKnobs(
    batch_size="orchestrator.batch_size",
    token_batch_size="orchestrator.token_batch_size",  # noqa: S106
    group_size="orchestrator.group_size",
    seq_len="orchestrator.seq_len",
    token_metric=TOKENS_PER_ROLLOUT,
)


def concurrency(
    at: str, readers: tuple[str, ...], *, file: str = "rl", namespace: str = ""
) -> tuple[Knob, ...]:
    """Bounds within which the number of episodes in flight adapts itself to what inference can take."""
    return (
        Knob(
            f"{at}.initial_inflight", "int", readers,
            "Episodes in flight at the start; without it, a careful guess from the room in the KV cache.",
            nullable=True, minimum=1, unit="episodes", file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.min_inflight", "int", readers,
            "Never fewer episodes in flight than this; equal to max_inflight, the number is fixed.",
            1, minimum=1, unit="episodes", file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.max_inflight", "int", readers,
            "Never more episodes in flight than this, for the sake of sandboxes and other services.",
            1024, nullable=True, minimum=1, unit="episodes", file=file, namespace=namespace,
            control="doubling",
        ),
    )  # fmt: skip


def evaluation(
    at: str, readers: tuple[str, ...], *, file: str = "rl", namespace: str = ""
) -> tuple[Knob, ...]:
    """Evals between training steps: how often, how much, and how they sample."""
    return (
        Knob(
            f"{at}.interval", "int", readers,
            "Steps between evals.",
            100, minimum=1, unit="steps", file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.num_examples", "int", readers,
            "Examples of each eval environment; -1 takes all.",
            -1, minimum=-1, unit="examples", file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.group_size", "int", readers,
            "Answers for each eval example; with 8, pass@1 to pass@8 are told.",
            1, minimum=1, unit="rollouts", file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.skip_first_step", "bool", readers,
            "No eval of the untrained model before the first step.",
            False, file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.retrigger_on_resume", "bool", readers,
            "After a resume, run the evals of the checkpoint's step again.",
            False, file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.sampling.temperature", "float", readers,
            "Spread of sampling in evals; without it, the server's own.",
            nullable=True, minimum=0, maximum=2, file=file, namespace=namespace,
        ),
        Knob(
            f"{at}.sampling.max_completion_tokens", "int", readers,
            "Longest answer per turn in evals; without it, the server's own limit.",
            nullable=True, unit="tokens", file=file, namespace=namespace,
        ),
    )  # fmt: skip


KNOBS = (
    Knob(
        BATCH.batch_size, "int", _O,
        "Rollouts (sampled answers) per step; more give a steadier gradient and a slower step.",
        nullable=True, minimum=1, unit="rollouts", control="doubling",
    ),
    Knob(
        BATCH.token_batch_size, "int", _O,
        "Collect rollouts until they hold this many tokens, instead of a fixed number of them.",
        nullable=True, minimum=1, unit="tokens", control="doubling",
    ),
    Knob(
        BATCH.group_size, "int", _O,
        "Answers sampled for each prompt; each one is judged against the mean of its group.",
        1, minimum=1, unit="rollouts", control="doubling",
    ),
    *concurrency("orchestrator.concurrency", _O),
    Knob(
        "orchestrator.tasks_per_minute", "int", _O,
        "Most tasks that are begun in a minute, for environments with slow sandboxes.",
        nullable=True, minimum=1, unit="tasks/min",
    ),
    Knob(
        BATCH.seq_len, "int", _O,
        "Longest rollout to train on, prompt included; longer ones are cut.",
        2048, minimum=1, unit="tokens", control="doubling",
    ),
    Knob(
        "orchestrator.max_off_policy_steps", "int", _O,
        "Rollouts that were begun by weights more than this many steps old are thrown away.",
        8, minimum=0, unit="steps",
    ),
    Knob(
        "orchestrator.max_steps", "int", _O,
        "The shared max_steps for the orchestrator alone; must equal the trainer's.",
        nullable=True, unit="steps",
    ),
    Knob(
        "orchestrator.train.sampling.temperature", "float", _O,
        "Spread of sampling: 1 follows the model's own probabilities, 0 always takes the likeliest.",
        1.0, minimum=0, maximum=2,
    ),
    Knob(
        "orchestrator.train.sampling.max_completion_tokens", "int", _O,
        "Longest answer per turn; without it, until the context is full.",
        nullable=True, minimum=1, unit="tokens", control="doubling",
    ),
    Knob(
        "orchestrator.train.filter_zero_advantages", "bool", _O,
        "Leave out rollouts of groups that all got the same reward: nothing can be learnt from them.",
        True,
    ),
    *evaluation("orchestrator.eval", _O),
    Knob(
        "orchestrator.algo.type", "enum", _O,
        "How rewards become a training signal.",
        "grpo",
        choices=("grpo", "echo", "max_rl", "rae", "hierarchical_grpo", "opd", "opsd", "sft"),
    ),
    Knob(
        "orchestrator.num_train_workers", "int", BOTH,
        "Data-parallel ranks of the trainer; rltui and the rl launcher find it out by themselves.",
        1, minimum=1, unit="ranks",
    ),
    Knob(
        "orchestrator.pad_to_multiple_of", "int", BOTH,
        "Packed rows are padded to a multiple of this: the trainer's cp, found out by itself.",
        1, minimum=1, unit="tokens",
    ),
    Knob(
        "orchestrator.renderer.name", "str", _O,
        "What turns messages into tokens; auto knows the common models, others need a name such as default.",
        "auto",
    ),
    Knob(
        "orchestrator.env_server_base_port", "int", _O,
        "First port of the environment servers; each source takes the next one.",
        5000, minimum=1, maximum=65535,
    ),
    Knob(
        "orchestrator.model.name", "str", _O,
        "The shared model.name for the orchestrator alone; must equal what inference serves.",
        "Qwen/Qwen3-0.6B",
    ),
    Knob(
        "orchestrator.model.client.base_url", "str", _O,
        "Address of the inference server; changing its port does not change this.",
        "http://localhost:8000/v1",
    ),
    Knob(
        "orchestrator.model.client.wait_for_ready_timeout", "int", _O,
        "How long the orchestrator waits for inference before it gives up.",
        1800, unit="s",
    ),
    Knob(
        "orchestrator.model.lora.rank", "int", _O,
        "LoRA rank of this run; without it, the trainer's.",
        nullable=True, minimum=1,
    ),
    Knob(
        "orchestrator.model.lora.alpha", "float", _O,
        "LoRA alpha of this run; without it, the trainer's.",
        nullable=True, minimum=0,
    ),
    Knob(
        "orchestrator.ckpt.interval", "int", _O,
        "The shared ckpt.interval for the orchestrator alone; must equal the trainer's.",
        nullable=True, minimum=1, unit="steps",
    ),
    Knob(
        "orchestrator.ckpt.wait_for_weights_timeout", "int", _O,
        "How long to wait for the trainer's first weights before giving up.",
        nullable=True, minimum=1, unit="s",
    ),
    Knob(
        "orchestrator.rollout_transport.type", "enum", _O,
        "The shared rollout_transport.type for the orchestrator alone; must equal the trainer's.",
        "zmq", choices=("zmq", "filesystem"),
    ),
    Knob(
        "orchestrator.collect_inference_metrics", "bool", _O,
        "Also send the inference server's own metrics to Weights & Biases.",
        True,
    ),
    Knob(
        "orchestrator.log.level", "str", _O,
        "Least important log lines of the orchestrator.",
        "info",
    ),
    Knob(
        "orchestrator.log.interval", "float", _O,
        "Seconds between two lines on how full the batch is.",
        10.0, above=0, unit="s",
    ),
)  # fmt: skip
