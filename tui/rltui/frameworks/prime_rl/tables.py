"""Problems of whole tables, sources and ports of prime-rl's files, beyond rules between keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

from rltui.base.text import closest, did_you_mean
from rltui.base.toml.values import format_key
from rltui.core.config.data import value_at
from rltui.core.config.knobs import display
from rltui.core.config.report import Problem, ProblemSeverity
from rltui.core.config.rules import Values, is_on, own
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl.rules import (
    BROADCAST,
    KIND,
    PAIR,
    entries,
    has_inference,
    int_value,
    is_today,
    strict,
)
from rltui.frameworks.prime_rl.values import (
    NCCL_PORT,
    ROUTER_METRICS_ABOVE,
    data_file,
    known_renderers,
    source_name,
)
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
"""Offset of the port for the trainer's ready message above that of the batches."""
_LAST_PORT = 65535
_ENV_SERVERS = "orchestrator.env_server_base_port"


def table_problems(files: ConfigFiles, values: Values, names: Names) -> Iterator[Problem]:
    for role, file in files.items():
        prefix = "sft." if role == "sft" else ""
        problems: list[tuple[ProblemSeverity, str, str]] = [
            *(("error", *pair) for pair in _environments(prefix, values)),
            *(("error", *pair) for pair in _resumes(prefix, values)),
            *_vllm(prefix, values),
        ]
        if role in ("rl", "sft"):
            problems += _sources(prefix, values, names)
            problems += _renderers(prefix, values, names)
        if role == "rl":
            problems += _offline(values, names)
            problems += _ports(values, names)
        for severity, key, message in problems:
            yield Problem(severity=severity, key=key, message=f"{key} {message}", file=file.path)


Problems = Iterator[tuple[ProblemSeverity, str, str]]


def _environments(prefix: str, v: Values) -> Iterator[tuple[str, str]]:
    for key in (f"{prefix}env_vars", *(f"{prefix}{role}.env_vars" for role in (*PAIR, "inference"))):
        table = v.get(key)
        for name, value in table.items() if isinstance(table, Mapping) else ():
            if name in _PROTECTED:
                yield f"{key}.{name}", "is set by the launcher, and cannot be set here"
            elif not isinstance(value, str):
                yield f"{key}.{name}", f"must be text, not {display(value)}: put the value in quotes"


def _resumes(prefix: str, v: Values) -> Iterator[tuple[str, str]]:
    for key in (f"{prefix}resume", "trainer.resume", "orchestrator.resume"):
        step, folder = v.get(f"{key}.step"), v.get(f"{key}.dir")
        if isinstance(folder, str):
            if step is not None:
                yield f"{key}.step", f"({step}) and {key}.dir are both set, but the folder's name is the step"
            if not _STEP_FOLDER.fullmatch(PurePath(folder).name):
                yield f"{key}.dir", f"({folder}) must be a checkpoint's folder, named step_<number>"
    if not prefix and v.get("resume") is None and v.get("trainer.resume") != v.get("orchestrator.resume"):
        yield "trainer.resume", "and orchestrator.resume must be the same: use one [resume] at the top"


def _offline(v: Values, names: Names) -> Problems:
    wandb = names("wandb")
    key, shared = f"{wandb}.offline", v.get(f"{wandb}.shared")
    if v.get(key) is True and is_today(names):
        yield "error", key, "cannot be true: all processes share one run on the server"
    elif v.get(key) is True and shared is True:
        yield "error", key, f"does not work with {wandb}.shared, which needs a connection: set one to false"


def _vllm(prefix: str, v: Values) -> Problems:
    """Keys that look like a typo: vLLM would refuse them as it starts."""
    table = v.get(f"{prefix}inference.vllm")
    for key in table if isinstance(table, Mapping) else ():
        if key.replace("-", "_") not in _vllm_arguments():
            guess = closest(key, _vllm_arguments())
            guess_text = f"did you mean {guess}?" if guess else "no similar argument is known"
            name = f"{prefix}inference.vllm.{format_key((key,))}"
            stops = "goes to vLLM unchecked, which exits at an unknown argument"
            yield "warning" if guess else "hint", name, f"{stops}: {guess_text}"


def _sources(prefix: str, v: Values, names: Names) -> Problems:
    """Problems of environments, as they are called since August 2026, and of the groups for training."""
    groups = ["sft.eval.source"] if prefix else [names("train_source"), names("eval_source")]
    for group in groups:
        table = group.rpartition(".")[0]
        tables_ = entries(v, group)
        is_named = group.endswith(".source")
        if table.endswith("eval") and is_on(v.get(table)) and not tables_:
            yield (
                strict(names),
                table,
                f"needs a source: add [[{group.removeprefix(prefix)}]], or remove [{table}]",
            )
        name_counts = Counter(map(source_name, tables_))
        shared_env = isinstance(v.get(f"{table}.env"), Mapping)
        for index, entry in enumerate(tables_):
            path, name = f"{group}.{index}", source_name(entry)
            if is_named and not shared_env and not source_name({"env": entry.get("env")}):
                example = 'env.taskset.id = "reverse-text"'
                yield "error", f"{path}.env", f"must name the environment, such as {example}"
            elif is_named and name == _RESERVED:
                message = f'cannot be "{name}", the name for all environments in the metrics'
                yield "error", f"{path}.name", message
            elif is_named and name and name_counts[name] > 1:
                message = f'("{name}") is used by another source too: use distinct names'
                yield "error", f"{path}.name", message
            size, key = v.get(f"{path}.group_size"), f"{path}.group_size"
            if group == names("train_source") and isinstance(size, int):
                yield from _of_group(key, size, entry, v, names)


def _of_group(key: str, size: int, entry: Mapping[str, Any], v: Values, names: Names) -> Problems:
    batch, algorithm = v.get("orchestrator.batch_size"), value_at(entry, "algo.type")
    algorithm = algorithm or v.get(f"{names('algo')}.type") or "grpo"
    if size == 1 and algorithm in _GROUPED:
        reason = f"a rollout alone in its group has advantage 0 with {algorithm}; try 8 or 16"
        yield "warning", key, f"is 1: {reason}"
    if own(v, key) is not None and batch is not None and batch % size:
        message = f"({size}) does not divide orchestrator.batch_size ({batch}): the last group is incomplete"
        yield "warning", key, message


def _renderers(prefix: str, v: Values, names: Names) -> Problems:
    """Warnings, since the installed package of renderers may know more models."""
    table = prefix or "orchestrator."
    key = f"{table}renderer.name"
    name = v.get(key)
    is_needed = not prefix or v.get("sft.data.type") != "fake" or is_on(v.get("sft.val"))
    if not isinstance(name, str) or not is_today(names) or not is_needed:
        return
    model = v.get(f"{table}tokenizer.name") or v.get(
        "sft.model.name" if prefix else "orchestrator.model.name"
    )
    renderers = known_renderers()
    if name == "auto" and model not in renderers["models"]:
        message = (
            f'is "auto", but {model} has no known renderer: name one of the same family, such as qwen3'
            + ("" if prefix else ', or "default"')
        )
        yield "warning", key, message
    elif name == "default" and prefix:
        message = 'cannot be "default" for SFT, which must tell answers from other tokens: name a renderer'
        yield "error", key, message
    elif name not in renderers["names"]:
        guess = did_you_mean(name, renderers["names"])
        yield "warning", key, f'("{name}") is unknown: {guess or "a newer one?"}'


def _ports(v: Values, names: Names) -> Problems:
    """Conflicts between TCP ports that the programs listen on."""
    used: dict[int, str] = {}
    for name, port, purpose in _listening(v, names) if v.get(KIND) in (None, "single_node") else ():
        if port in used:
            message = f"({purpose}) takes port {port}, as {used[port]} does: change one of them"
            yield strict(names), name, message
        elif port > _LAST_PORT:
            message = (
                f"leaves no port for the {purpose} ({port} is too high): lower it by {port - _LAST_PORT}"
            )
            yield "error", name, message
        used.setdefault(port, f"{name} ({purpose})")


def _listening(v: Values, names: Names) -> Iterable[tuple[str, int, str]]:
    """Yields knob, port and purpose of each listener."""
    server, weights, batches = "inference.server.port", "weight_broadcast.port", "rollout_transport.port"
    if has_inference(v):
        port = int_value(v, server)
        yield server, port, "requests"
        if is_on(v.get("inference.router")):
            yield server, port + ROUTER_METRICS_ABOVE, "metrics of the router"
            yield "inference.backend_port", int_value(v, "inference.backend_port"), "engine"
        if int_value(v, names("data_parallel")) > 1:
            yield names("rpc_port"), int_value(v, names("rpc_port")), "engines"
    if v.get(BROADCAST) == "nccl":
        yield weights, int_value(v, weights, NCCL_PORT), "weights"
    if v.get("trainer.rollout_transport.type") == "zmq":
        port = int_value(v, batches, int_value(v, f"trainer.{batches}"))
        yield batches, port, "batches"
        yield batches, port + _READY_ABOVE, "trainer's ready message"
    servers, base = (
        sum(len(entries(v, names(f"{split}_source"))) for split in ("train", "eval")),
        _ENV_SERVERS,
    )
    if base in v:
        yield from ((base, int_value(v, base) + index, "environments") for index in range(servers))
    if is_on(v.get("trainer.metrics_server")):
        yield (
            "trainer.metrics_server.port",
            int_value(v, "trainer.metrics_server.port"),
            "metrics of the trainer",
        )


@cache
def _vllm_arguments() -> frozenset[str]:
    """Arguments that vLLM 0.32 and some earlier releases accept."""
    return frozenset(data_file("vllm_arguments.txt").split())
