"""One config in, one per process out: how `rl` spreads shared values over its parts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.grammar import CommandLine
from tests.fakes.prime_rl.lines import refuse
from tests.fakes.prime_rl.rules import cross_faults, faults
from tests.fakes.prime_rl.trees import fill, has, merge, set_at, value_at

_MODELS = {
    "rl": "RLConfig",
    "trainer": "TrainerConfig",
    "orchestrator": "OrchestratorConfig",
    "inference": "InferenceConfig",
    "sft": "SFTConfig",
    "env-server": "EnvServerConfig",
    "evals": "EvalsConfig",
}

_BOTH = ("trainer", "orchestrator")
_CHECKPOINTS = ("interval", "resume_step", "keep", "keep_last", "keep_interval", "output_dir")


def component(generation: Generation, program: str, line: CommandLine) -> Tree:
    """The config of a program that is started by itself; ends the process where it is refused."""
    tree = merge(line.files, line.overrides, deep=True)
    _or_refuse(generation, program, faults(generation, program, tree))
    return tree


def whole(generation: Generation, line: CommandLine) -> Tree:
    """The config of `rl`, its parts complete; ends the process where it is refused.

    B1 lays options on top of what it already resolved: what follows from them is not worked out again.
    """
    late = generation.name == "B1"
    tree = line.files if late else merge(line.files, line.overrides, deep=True)
    _or_refuse(generation, "rl", faults(generation, "rl", tree))
    tree = _spread(generation, merge(tree, {}, deep=True))
    if late:
        tree = merge(tree, line.overrides, deep=True)
        _or_refuse(generation, "rl", faults(generation, "rl", tree))
    _or_refuse(generation, "rl", cross_faults(generation, tree))
    return tree


def run_folder(generation: Generation, tree: Tree, kind: str = "rl") -> Path:
    """Folder that a launched run writes into; names the run where that is not done."""
    output = Path(value_at(tree, "output_dir", "outputs"))
    if not generation.is_late:
        return output
    if not has(tree, "run.name"):
        name_parts = _sources(tree) if kind == "rl" else [str(value_at(tree, "data.name", "data"))]
        model = PurePath(str(value_at(tree, "model.name", "model"))).name
        set_at(
            tree,
            "run.name",
            f"{'-'.join(name_parts)}--{model}--{uuid.uuid4().hex[:8]}".lower().replace("/", "-"),
        )
    return output / str(value_at(tree, "run.dir", value_at(tree, "run.name")))


def env_servers(tree: Tree) -> list[tuple[str, Tree, str]]:
    """(split, source, address) of every environment that needs a server; `tree` is the orchestrator's.

    The latest generation has no addresses before the servers run.
    """
    port = value_at(tree, "env_server_base_port", 5000)
    sources = [
        (split, source) for split in ("train", "eval") for source in value_at(tree, f"{split}.source", [])
    ]
    return [
        (split, source, f"tcp://127.0.0.1:{port + index}")
        for index, (split, source) in enumerate(sources)
        if not has(source, "serve.address")
    ]


def eval_servers(tree: Tree) -> list[tuple[str, Tree, str]]:
    """The same of SFT; `tree` is the whole config."""
    evals = {"eval": tree["eval"]}
    if (port := value_at(tree, "eval.env_server_base_port")) is not None:
        evals["env_server_base_port"] = port
    return env_servers(evals)


def with_evals(generation: Generation, tree: Tree) -> None:
    """Values of an SFT config that follow from its evaluations and their server."""
    serves = tree.get("inference") is not None
    in_memory = serves and not has(tree, "model.lora")
    fill(tree, "weight_broadcast.type", "nccl" if in_memory else "filesystem")
    if not serves:
        return
    fill(tree, "inference.vllm.model", value_at(tree, "model.name", "Qwen/Qwen3-0.6B"))
    _serving(tree, "eval.client")


def source_name(source: Mapping[str, Any]) -> str:
    return str(source.get("name") or value_at(source, "env.taskset.id", "env"))


def _spread(generation: Generation, tree: Tree) -> Tree:
    model = "inference.vllm.model" if generation.is_late else "inference.model.name"
    shared: dict[str, tuple[str, ...]] = {
        "model.name": ("trainer.model.name", "orchestrator.model.name", model),
        "max_steps": ("trainer.max_steps", "orchestrator.max_steps"),
        "max_async_level": ("trainer.max_async_level", "orchestrator.max_async_level"),
        "seq_len": ("trainer.model.seq_len", "orchestrator.seq_len"),
        "weight_broadcast": tuple(f"{part}.weight_broadcast" for part in _BOTH),
        "rollout_transport": tuple(f"{part}.rollout_transport" for part in _BOTH),
        "resume": tuple(f"{part}.resume" for part in _BOTH),
        **{f"ckpt.{key}": tuple(f"{part}.ckpt.{key}" for part in _BOTH) for key in _CHECKPOINTS},
    }
    if "ckpt" in tree and tree["ckpt"] is not None:
        for part in _BOTH:
            fill(tree, f"{part}.ckpt", {})
    clashes = []
    for key, targets in shared.items():
        if not has(tree, key):
            continue
        value = value_at(tree, key)
        for target in targets:
            if target.startswith("inference.") and tree.get("inference") is None:
                continue
            if generation.is_late and has(tree, target) and value_at(tree, target) != value:
                clashes.append(f"- ['{key}'] is set, but ['{target}'] is also set")
            if key == "seq_len":
                fill(tree, target, value)
            else:
                set_at(tree, target, value)
    if clashes:
        text = "Value error, Shared config conflicts with matching sub-config field(s)\n" + "\n".join(clashes)
        refuse(generation.name, _MODELS["rl"], [("", text)])
    _folders(generation, tree)
    _deployment(generation, tree)
    if generation.is_late:
        _current(tree)
    return tree


def _folders(generation: Generation, tree: Tree) -> None:
    folder = run_folder(generation, tree)
    set_at(tree, "trainer.output_dir", str(folder))
    set_at(tree, "orchestrator.output_dir", str(folder / generation.own_folder))


def _deployment(generation: Generation, tree: Tree) -> None:
    """Numbers of workers and engines that follow from the GPUs."""
    if generation.name == "A1":
        workers = len(tree.get("trainer_gpu_ids") or [1])
        engines = len(tree.get("inference_gpu_ids") or [0])
    else:
        workers = value_at(tree, "deployment.num_train_gpus", 1)
        engines = value_at(tree, "deployment.num_infer_gpus", 1)
    set_at(tree, "orchestrator.num_train_workers", workers)
    if tree.get("inference") is None:
        return
    tensor, data = ("vllm.tensor_parallel_size", "vllm.data_parallel_size")
    if not generation.is_late:
        tensor, data = ("parallel.tp", "parallel.dp")
    parallel = value_at(tree, f"inference.{tensor}", 1)
    if engines % parallel:
        text = "Value error, Number of inference GPUs must be divisible by the tensor parallel size"
        refuse(generation.name, _MODELS["rl"], [("", text)])
    fill(tree, f"inference.{data}", engines // parallel)


def _current(tree: Tree) -> None:
    """Defaults of the last generation that depend on other values."""
    serves = tree.get("inference") is not None
    in_memory = serves and not has(tree, "trainer.model.lora")
    kind = value_at(tree, "weight_broadcast.type", "nccl" if in_memory else "filesystem")
    for part in _BOTH:
        fill(tree, f"{part}.weight_broadcast.type", kind)
        fill(tree, f"{part}.rollout_transport.type", "zmq")
    if serves:
        _serving(tree, "orchestrator.model.client")


def _serving(tree: Tree, client: str) -> None:
    """Transport and ports of the server, and its addresses for who uses it."""
    set_at(tree, "inference.weight_broadcast.type", _broadcast(tree))
    port = value_at(tree, "inference.server.port", 8000)
    fill(tree, "inference.backend_port", port + 100)
    if has(tree, "inference.router") and value_at(tree, "inference.router") in (None, "None"):
        set_at(tree, "inference.router", None)
        engine = port
    else:
        engine = value_at(tree, "inference.backend_port")
    fill(tree, f"{client}.base_url", f"http://localhost:{port}/v1")
    fill(tree, f"{client}.admin_base_url", [f"http://localhost:{engine}/v1"])


def _broadcast(tree: Tree) -> str:
    return str(value_at(tree, "trainer.weight_broadcast.type", value_at(tree, "weight_broadcast.type")))


def _sources(tree: Tree) -> list[str]:
    return [source_name(source) for source in value_at(tree, "orchestrator.train.source", [])] or ["no-env"]


def _or_refuse(generation: Generation, program: str, messages: list[tuple[str, str]]) -> None:
    if messages:
        refuse(generation.name, _MODELS[program], messages)
