"""Evaluations of prime-rl: where weights lie, which evaluator its environment has, a server for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.core import hints
from rltui.core.evals import EvalTarget
from rltui.core.template import Missing
from rltui.errors import ConfigError
from rltui.frameworks.base import EvalCall, EvalCommand, EvalModel, RunContext
from rltui.frameworks.evaluators import key_env, v1_arguments, vf_eval
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.values import optional_count, rows, source_name, text

PACKAGES = ("verifiers", "prime-rl")
_MODEL = (
    "model.name",
    "orchestrator.model.name",
    "trainer.model.name",
    "inference.vllm.model",
    "inference.model.name",
)
_ENVIRONMENTS = (
    "orchestrator.eval.source",
    "orchestrator.train.source",
    "orchestrator.train.env",
    "orchestrator.env",
)
_TOKENS = ("sampling.max_tokens", "train.sampling.max_completion_tokens", "train.sampling.max_tokens")
_WEIGHTS = ("weights/step_{step}", "checkpoints/step_{step}/weights", "broadcasts/step_{step}",
            "run_default/broadcasts/step_{step}")  # fmt: skip
"""Exported for a checkpoint until August 2026; what `convert_dcp_to_bf16.py` makes; as they were sent to the
server through files."""
_STABLE = "STABLE"


def environment(data: Mapping[str, Any]) -> str:
    """Id of the first environment, as evaluators take it."""
    for key in _ENVIRONMENTS:
        for row in rows(data, key):
            if name := text(row, "env.taskset.id", "id", "env.id") or source_name(row):
                return name
    return ""


def max_tokens(data: Mapping[str, Any]) -> int | None:
    """Of an answer while it trains."""
    found = (optional_count(data, f"orchestrator.{key}") for key in _TOKENS)
    return next((tokens for tokens in found if tokens is not None), None)


def model(
    g: Generation, data: Mapping[str, Any], context: RunContext, target: EvalTarget, *, is_sft: bool
) -> EvalModel:
    """What a target is.

    Raises:
        ConfigError: if the config names no model.
    """
    if target.kind == "model":
        return EvalModel("model", target.label, target.model)
    if target.kind == "checkpoint":
        folders = tuple(f"{context.run_folder}/{place.format(step=target.step)}" for place in _WEIGHTS)
        label = f"sft, {target.label}" if is_sft else target.label
        return EvalModel(
            "sft" if is_sft else "checkpoint", label, folders[0], target.step, folders, _marker(g)
        )
    if target.kind == "sft":
        raise ConfigError(
            "the SFT of a prime-rl model is an experiment of its own",
            hint="evaluate its checkpoints there, or here with --model FOLDER",
        )
    name = text(data, *_MODEL)
    if name is None:
        raise ConfigError("the config names no model", hint=hints.EVAL_MODEL(model="NAME"))
    return EvalModel("base", "base", name, step=0)


def _marker(g: Generation) -> str:
    """Weights are whole once it is there; in 2025 there was none."""
    return _STABLE if g.has_launchers and not g.run_folders else ""


def server(g: Generation, model: EvalModel, port: int, share: str) -> EvalCommand:
    """Options behind the config of the run's own server. Without a router, which would need ports besides."""
    if g.run_folders:
        argv = ["--vllm.model", model.name, "--server.port", str(port), "--no-router"]
        return EvalCommand((*argv, *(("--vllm.gpu-memory-utilization", share) if share else ())))
    argv = ["--model.name", model.name, "--server.port", str(port)]
    return EvalCommand((*argv, *(("--gpu-memory-utilization", share) if share else ())))


def _agent(data: Mapping[str, Any]) -> list[str]:
    """Who answers, as the first source has it; nothing where it says nothing."""
    found: list[str] = []
    for key in _ENVIRONMENTS[:2]:
        for row in rows(data, key)[:1]:
            for part in ("harness.id", "runtime.type"):
                if not found[3:] and (value := text(row, f"env.agent.{part}")) is not None:
                    found += [f"--env.agent.{part}", value]
    return found


def evaluator(g: Generation, data: Mapping[str, Any], context: RunContext, call: EvalCall) -> EvalCommand:
    """Its own program since September 2026, else `vf-eval` as the installed verifiers have it.

    Raises:
        ConfigError: if neither is there.
    """
    if isinstance(context.run, Missing):
        raise ConfigError(context.run.reason, hint=context.run.hint)
    if g.run_folders and not g.env_port:
        argv = [
            "eval",
            *v1_arguments(call, _agent(data)),
            "--output-dir",
            call.results,
            "--run.name",
            "rollouts",
            "-c",
            "32",
        ]
        return EvalCommand((*context.run, *argv, *call.request.arguments), env=key_env(call))
    version = call.programs.get("verifiers")
    if version is None:
        raise ConfigError(
            "verifiers, whose vf-eval would do it, is not in the environment of prime-rl",
            hint=f"uv sync --all-extras in its checkout; {hints.DOCTOR} says which one is found",
        )
    return vf_eval(call, context.run, version)
