"""Evaluations of prime-rl: location of weights, evaluator of its environment, and a server for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.base.template import Missing
from rltui.core import hints
from rltui.core.config.data import value_at
from rltui.core.runs.evals import EvalTarget
from rltui.errors import ConfigError
from rltui.frameworks.evaluation import EvalCall, EvalCommand, EvalModel, EvaluationSide
from rltui.frameworks.evaluators import verifiers_eval
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.prime_rl.configs import SOURCES
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.run_config import RunConfigReader
from rltui.frameworks.prime_rl.values import optional_count, rows, source_name, text

MODEL_KEYS = (
    "model.name",
    "orchestrator.model.name",
    "trainer.model.name",
    "inference.vllm.model",
    "inference.model.name",
)
_TOKENS = ("sampling.max_tokens", "train.sampling.max_completion_tokens", "train.sampling.max_tokens")
_WEIGHTS = ("weights/step_{step}", "checkpoints/step_{step}/weights", "broadcasts/step_{step}",
            "run_default/broadcasts/step_{step}")  # fmt: skip
"""Locations: exported for a checkpoint until August 2026; the output of `convert_dcp_to_bf16.py`; as sent to
the server through files.
"""
_STABLE = "STABLE"


def evaluation_of(config: RunConfigReader) -> EvaluationSide:
    """The part of one generation, or of the one that its files may show."""

    def model(files: ConfigFiles, context: RunContext, target: EvalTarget) -> EvalModel:
        """A checkpoint's weights, if they are exported or were sent through files."""
        return _model(config.generation_of(files), config(files), context, target, is_sft="sft" in files)

    def command(files: ConfigFiles, context: RunContext, call: EvalCall) -> EvalCommand:
        """Command line of `eval` or `vf-eval`."""
        return _evaluator(config.generation_of(files), config(files), context, call)

    return EvaluationSide(
        packages=("verifiers", "prime-rl"),
        environment=lambda files: _environment(config(files)),
        max_tokens=lambda files: _max_tokens(config(files)),
        model=model,
        server=lambda files, _, *of_server: _server(config.generation_of(files), *of_server),
        command=command,
    )


def _environment(data: Mapping[str, Any]) -> str:
    """Id of the first environment for evaluations during training, else for training, as evaluators take
    it.
    """
    return next((id_ for id_, _ in _sources(data)), "")


def _sources(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Sources with an id, and the tables that configure them."""
    for key in (*SOURCES["eval"], *SOURCES["train"]):
        for row in rows(data, key):
            if id_ := text(row, "env.taskset.id", "id", "env.id") or source_name(row):
                yield id_, row


def _max_tokens(data: Mapping[str, Any]) -> int | None:
    """Limit of an answer during training."""
    limits = (optional_count(data, f"orchestrator.{key}") for key in _TOKENS)
    return next((tokens for tokens in limits if tokens is not None), None)


def _model(
    g: Generation, data: Mapping[str, Any], context: RunContext, target: EvalTarget, *, is_sft: bool
) -> EvalModel:
    """The model of a target.

    Raises:
        ConfigError: if the config names no model.
    """
    if target.kind == "model":
        return EvalModel("model", target.label, target.model)
    if target.kind == "checkpoint":
        folders = tuple(f"{context.run_folder}/{location.format(step=target.step)}" for location in _WEIGHTS)
        label = f"sft, {target.label}" if is_sft else target.label
        marker = _STABLE if g.has_launchers and not g.run_folders else ""  # in 2025 there was none
        return EvalModel("sft" if is_sft else "checkpoint", label, folders[0], target.step, folders, marker)
    if target.kind == "sft":
        raise ConfigError(
            "SFT of a prime-rl model is a separate experiment",
            hint="evaluate its checkpoints there, or here with --model FOLDER",
        )
    name = text(data, *MODEL_KEYS)
    if name is None:
        raise ConfigError("no model in the config", hint=hints.EVAL_MODEL(model="NAME"))
    return EvalModel("base", "base", name, step=0)


def _server(g: Generation, model: str, port: int, share: str) -> EvalCommand:
    """Options after the config of the run's own server. Without a router, which would need further ports."""
    if g.run_folders:
        argv = ["--vllm.model", model, "--server.port", str(port), "--router", "None"]
        return EvalCommand((*argv, *(("--vllm.gpu-memory-utilization", share) if share else ())))
    argv = ["--model.name", model, "--server.port", str(port)]
    return EvalCommand((*argv, *(("--gpu-memory-utilization", share) if share else ())))


def _evaluator(g: Generation, data: Mapping[str, Any], context: RunContext, call: EvalCall) -> EvalCommand:
    """The evaluator of its environment, with the options of the config.

    Raises:
        ConfigError: if there is none.
    """
    if isinstance(context.run, Missing):
        raise ConfigError(context.run.reason, hint=context.run.hint)
    tables = [row for _, row in _sources(data)]
    of_env = [row for id_, row in _sources(data) if id_ == call.request.env]
    agents = [agent for row in tables if isinstance(agent := value_at(row, "env.agent"), dict)]
    env = value_at(of_env[0], "env") if of_env else {"agent": agents[0]} if agents else None
    has_taskset = isinstance(env, dict) and bool(env.get("taskset"))
    args = value_at(of_env[0], "args") if of_env else None
    return verifiers_eval(
        call,
        context.run,
        env=env if has_taskset or not of_env else None,
        args=args if isinstance(args, dict) else None,
        is_legacy=not has_taskset if of_env else not g.run_folders,
    )
