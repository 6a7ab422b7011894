"""Configs that the programs refuse: unknown keys, wrong types, and the cross-knob rules about batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes.prime_rl.generation import Generation, Tree, known_keys
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import leaves, value_at

Fault = tuple[str, str]
"""Dotted key (empty: the whole config) and message."""

_AT_LEAST_ONE = {
    "orchestrator": (
        "batch_size", "token_batch_size", "rollouts_per_example", "group_size", "max_inflight_rollouts",
        "max_concurrent", "concurrency.max_inflight", "train.group_size",
    ),
    "trainer": (),
    "inference": (),
    "rl": ("max_steps", "seq_len", "deployment.num_train_gpus"),
    "sft": ("max_steps", "data.batch_size", "data.micro_batch_size", "data.seq_len"),
}  # fmt: skip


def faults(generation: Generation, role: str, tree: Tree) -> list[Fault]:
    """Errors of one config, before its values are spread; for `rl` those of its tables too."""
    messages = list(_unknown(known_keys(generation.name, role), tree))
    if role == "rl":
        messages += [(part, "Field required") for part in ("trainer", "orchestrator") if part not in tree]
        for part in ("trainer", "orchestrator", "inference"):
            below = tree.get(part) or {}
            messages += [(f"{part}.{key}", text) for key, text in faults(generation, part, below)]
    messages += _bounds(role, tree)
    if role == "orchestrator" and not messages:
        messages += [("", f"Value error, {text}") for text in _batching(generation, tree)]
    if role == "sft" and not messages and _quotient(tree, "data.batch_size", 128, "data.micro_batch_size"):
        messages.append(("", "Value error, Batch size must be divisible by micro batch size"))
    refusal, _, value = switches().refuse.partition("=")
    if refusal and f"{value_at({role: tree}, refusal)}" == value:
        messages.append((refusal.partition(".")[2], f"Value error, {value} is refused by the test"))
    return messages


def cross_faults(generation: Generation, tree: Tree) -> list[Fault]:
    """Errors of a whole `rl` config whose shared values have been spread."""
    messages = []
    trainer = value_at(tree, "trainer.model.seq_len", 2048)
    orchestrator = value_at(tree, "orchestrator.seq_len", 2048)
    if generation.name != "A1" and trainer < orchestrator:
        messages.append(
            f"Trainer model seq_len ({trainer}) must be >= orchestrator seq_len ({orchestrator})."
        )
    train = value_at(tree, "deployment.num_train_gpus", 1)
    infer = value_at(tree, "deployment.num_infer_gpus", 1) if "inference" in tree else 0
    node = value_at(tree, "deployment.gpus_per_node", 8)
    if generation.name != "A1" and train + infer > node:
        teacher = "" if generation.is_late else " + 0 teacher"
        messages.append(
            f"Total GPU count ({train + infer} = {train} train + {infer} infer{teacher}) "
            f"exceeds gpus_per_node ({node})."
        )
    sides = [value_at(tree, f"{part}.rollout_transport.type", "zmq") for part in ("trainer", "orchestrator")]
    if generation.is_late and sides[0] != sides[1]:
        messages.append(
            f"trainer.rollout_transport.type ('{sides[0]}') != "
            f"orchestrator.rollout_transport.type ('{sides[1]}')"
        )
    return [("", f"Value error, {text}") for text in messages]


def _unknown(
    tables: Mapping[str, frozenset[str]], tree: Mapping[str, Any], above: str = ""
) -> Iterator[Fault]:
    names = tables.get(above, frozenset())
    for key, value in tree.items():
        path = f"{above}.{key}" if above else key
        if key not in names and "*" not in names:
            yield path, "Extra inputs are not permitted"
        elif path in tables:
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Mapping):
                    yield from _unknown(tables, item, path)


def _bounds(role: str, tree: Tree) -> Iterator[Fault]:
    for key in _AT_LEAST_ONE.get(role, ()):
        value = value_at(tree, key)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            yield key, "Input should be a valid integer"
        elif value < 1:
            yield key, "Input should be greater than or equal to 1"
    for key, value in leaves(tree):
        if key.endswith("gpu_memory_utilization") and not isinstance(value, int | float):
            yield key, "Input should be a valid number"


def _batching(generation: Generation, tree: Tree) -> Iterator[str]:
    late = "train.group_size" if generation.has_attempts else "group_size"
    group_key = late if generation.is_late else "rollouts_per_example"
    tokens = value_at(tree, "token_batch_size")
    if tokens is not None and value_at(tree, "batch_size") is not None:
        yield "Set exactly one of batch_size or token_batch_size"
    elif tokens is None and _quotient(tree, "batch_size", 128, group_key):
        yield "Batch size must be divisible by the number of samples per problem"
    elif tokens is not None and generation.name in ("B0", "B1"):
        if value_at(tree, "oversampling_factor") is not None:
            yield "oversampling_factor can only be set when batch_size is set"
        elif value_at(tree, "max_inflight_rollouts") is None:
            yield "max_inflight_rollouts must be set when token_batch_size is set"


def _quotient(tree: Tree, key: str, default: int, divisor: str) -> int:
    """The remainder, 0 where it divides."""
    return int(value_at(tree, key, default)) % int(value_at(tree, divisor, 1))
