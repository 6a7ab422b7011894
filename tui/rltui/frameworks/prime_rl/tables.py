"""What is wrong with whole tables, sources and ports of prime-rl's files: no rule between keys tells it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

from rltui.core.config_data import value_at
from rltui.core.config_report import Problem
from rltui.core.knobs import display
from rltui.core.rules import Severity, Values, is_on, own
from rltui.core.text import closest, did_you_mean
from rltui.core.toml.values import format_key
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.prime_rl.rules import (
    BROADCAST,
    KIND,
    PAIR,
    entries,
    has_inference,
    is_today,
    strict,
    whole,
)
from rltui.frameworks.prime_rl.values import NCCL_PORT, ROUTER_METRICS_ABOVE, data_file, source_name
from rltui.frameworks.schemas import Names

_GROUPED = ("grpo", "echo", "max_rl")
"""Algorithms that judge a rollout against the others of its group."""
_RESERVED = "agg"
_PROTECTED = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "PRL_RUN_ID", "PRL_RUN_NAME", "WANDB_RUN_ID", "WANDB_SHARED_MODE",
        "WANDB_SHARED_LABEL", "WANDB_SHARED_PRIMARY", "WANDB_SHARED_FINISHER",
    }
)  # fmt: skip
_STEP_FOLDER = re.compile(r"step_\d+")
_READY_ABOVE = 1
"""The port for the trainer's ready message above that of the batches."""
_LAST_PORT = 65535
_ENV_SERVERS = "orchestrator.env_server_base_port"


def table_problems(files: ConfigFiles, values: Values, names: Names) -> Iterator[Problem]:
    for role, file in files.items():
        at = "sft." if role == "sft" else ""
        told: list[tuple[Severity, str, str]] = [
            *(("error", *each) for each in _environments(at, values)),
            *(("error", *each) for each in _resumes(at, values)),
            *_vllm(at, values),
        ]
        if role in ("rl", "sft"):
            told += _sources(at, values, names)
            told += _renderers(at, values, names)
        if role == "rl":
            told += _offline(values, names)
            told += _ports(values, names)
        for severity, key, message in told:
            yield Problem(severity=severity, key=key, message=f"{key} {message}", file=file.path)


Told = Iterator[tuple[Severity, str, str]]


def _environments(at: str, v: Values) -> Iterator[tuple[str, str]]:
    for key in (f"{at}env_vars", *(f"{at}{part}.env_vars" for part in (*PAIR, "inference"))):
        table = v.get(key)
        for name, value in table.items() if isinstance(table, Mapping) else ():
            if name in _PROTECTED:
                yield f"{key}.{name}", "is set by the launcher, and cannot be set here"
            elif not isinstance(value, str):
                yield f"{key}.{name}", f"must be text, not {display(value)}: put it in quotes"


def _resumes(at: str, v: Values) -> Iterator[tuple[str, str]]:
    for key in (f"{at}resume", "trainer.resume", "orchestrator.resume"):
        step, folder = v.get(f"{key}.step"), v.get(f"{key}.dir")
        if isinstance(folder, str):
            if step is not None:
                yield f"{key}.step", f"({step}) and {key}.dir are both set, but the folder's name is the step"
            if not _STEP_FOLDER.fullmatch(PurePath(folder).name):
                yield f"{key}.dir", f"({folder}) must be a checkpoint's folder, named step_<number>"
    if not at and v.get("resume") is None and v.get("trainer.resume") != v.get("orchestrator.resume"):
        yield "trainer.resume", "and orchestrator.resume must be the same: use one [resume] at the top"


def _offline(v: Values, names: Names) -> Told:
    wandb = names("wandb")
    key, shared = f"{wandb}.offline", v.get(f"{wandb}.shared")
    if v.get(key) is True and is_today(names):
        yield "error", key, "cannot be true: all processes share one run on the server"
    elif v.get(key) is True and shared is True:
        yield "error", key, f"does not work with {wandb}.shared, which needs a connection: set one to false"


def _vllm(at: str, v: Values) -> Told:
    """Keys that look like a slip: vLLM would refuse them as it starts."""
    table = v.get(f"{at}inference.vllm")
    for key in table if isinstance(table, Mapping) else ():
        if key.replace("-", "_") not in _vllm_arguments():
            guess = closest(key, _vllm_arguments())
            meant = f"did you mean {guess}?" if guess else "no argument of that name is known here"
            name = f"{at}inference.vllm.{format_key((key,))}"
            stops = "goes to vLLM unchecked, which stops at once if it does not know it"
            yield "warning" if guess else "hint", name, f"{stops}: {meant}"


def _sources(at: str, v: Values, names: Names) -> Told:
    """Environments, as they are called since August 2026, and the groups of those of training."""
    groups = ["sft.eval.source"] if at else [names("train_source"), names("eval_source")]
    for group in groups:
        table = group.rpartition(".")[0]
        found = entries(v, group)
        is_named = group.endswith(".source")
        if table.endswith("eval") and is_on(v.get(table)) and not found:
            yield (
                strict(names),
                table,
                f"needs a source: add [[{group.removeprefix(at)}]], or remove [{table}]",
            )
        called = Counter(map(source_name, found))
        shared_env = isinstance(v.get(f"{table}.env"), Mapping)
        for index, entry in enumerate(found):
            here, name = f"{group}.{index}", source_name(entry)
            if is_named and not shared_env and not source_name({"env": entry.get("env")}):
                example = 'env.taskset.id = "reverse-text"'
                yield "error", f"{here}.env", f"must say which environment it is, such as {example}"
            elif is_named and name == _RESERVED:
                words = f'cannot be "{name}", which stands for all environments in the metrics'
                yield "error", f"{here}.name", words
            elif is_named and name and called[name] > 1:
                words = f'("{name}") is that of another source too: give each a name of its own'
                yield "error", f"{here}.name", words
            size, key = v.get(f"{here}.group_size"), f"{here}.group_size"
            if group == names("train_source") and isinstance(size, int):
                yield from _of_group(key, size, entry, v, names)


def _of_group(key: str, size: int, entry: Mapping[str, Any], v: Values, names: Names) -> Told:
    batch, algorithm = v.get("orchestrator.batch_size"), value_at(entry, "algo.type")
    algorithm = algorithm or v.get(f"{names('algo')}.type") or "grpo"
    if size == 1 and algorithm in _GROUPED:
        reason = f"alone in its group, a rollout has advantage 0 with {algorithm}; try 8 or 16"
        yield "warning", key, f"is 1: {reason}"
    if own(v, key) is not None and batch is not None and batch % size:
        words = f"({size}) does not divide orchestrator.batch_size ({batch}): the last group is cut"
        yield "warning", key, words


def _renderers(at: str, v: Values, names: Names) -> Told:
    """Warnings, since the package of renderers in use may know more models than are known here."""
    part = at or "orchestrator."
    key = f"{part}renderer.name"
    name = v.get(key)
    is_needed = not at or v.get("sft.data.type") != "fake" or is_on(v.get("sft.val"))
    if not isinstance(name, str) or not is_today(names) or not is_needed:
        return
    model = v.get(f"{part}tokenizer.name") or v.get("sft.model.name" if at else "orchestrator.model.name")
    known = _known_renderers()
    if name == "auto" and model not in known["models"]:
        words = (
            f'is "auto", but {model} is not among the models that a renderer is known for: name one of '
            "the same family, such as qwen3" + ("" if at else ', or "default"')
        )
        yield "warning", key, words
    elif name == "default" and at:
        words = 'cannot be "default" for SFT, which must tell answers from the rest: name a typed one'
        yield "error", key, words
    elif name not in known["names"]:
        guess = did_you_mean(name, known["names"])
        yield "warning", key, f'("{name}") is not known here: {guess or "a newer one?"}'


def _ports(v: Values, names: Names) -> Told:
    """TCP ports that the programs listen on, and two that are the same."""
    used: dict[int, str] = {}
    for name, port, what in _listening(v, names) if v.get(KIND) in (None, "single_node") else ():
        if port in used:
            words = f"({what}) takes port {port}, as {used[port]} does: change one of them"
            yield strict(names), name, words
        elif port > _LAST_PORT:
            words = f"leaves no port for the {what}, which would be {port}: lower it by {port - _LAST_PORT}"
            yield "error", name, words
        used.setdefault(port, f"{name} ({what})")


def _listening(v: Values, names: Names) -> Iterable[tuple[str, int, str]]:
    """Knob, port, what for."""
    server, weights, batches = "inference.server.port", "weight_broadcast.port", "rollout_transport.port"
    if has_inference(v):
        port = whole(v, server)
        yield server, port, "requests"
        if is_on(v.get("inference.router")):
            yield server, port + ROUTER_METRICS_ABOVE, "metrics of the router"
            yield "inference.backend_port", whole(v, "inference.backend_port"), "engine"
        if whole(v, names("data_parallel")) > 1:
            yield names("rpc_port"), whole(v, names("rpc_port")), "engines"
    if v.get(BROADCAST) == "nccl":
        yield weights, whole(v, weights, NCCL_PORT), "weights"
    if v.get("trainer.rollout_transport.type") == "zmq":
        port = whole(v, batches, whole(v, f"trainer.{batches}"))
        yield batches, port, "batches"
        yield batches, port + _READY_ABOVE, "trainer's ready message"
    servers, base = sum(len(entries(v, names(f"{each}_source"))) for each in ("train", "eval")), _ENV_SERVERS
    if base in v:
        yield from ((base, whole(v, base) + index, "environments") for index in range(servers))
    if is_on(v.get("trainer.metrics_server")):
        yield (
            "trainer.metrics_server.port",
            whole(v, "trainer.metrics_server.port"),
            "metrics of the trainer",
        )


@cache
def _vllm_arguments() -> frozenset[str]:
    """Those that vLLM 0.32 and some earlier releases take."""
    return frozenset(data_file("vllm_arguments.txt").split())


@cache
def _known_renderers() -> Mapping[str, frozenset[str]]:
    """`names` of renderers, and `models` for which one is known."""
    return {
        key: frozenset(words.split()) for key, words in tomllib.loads(data_file("renderers.toml")).items()
    }
