"""Evaluations of prime-rl: location of weights, evaluator of its environment, and a server for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.core import hints
from rltui.core.config_data import value_at
from rltui.core.evals import EvalTarget
from rltui.core.template import Missing
from rltui.errors import ConfigError
from rltui.frameworks.evaluation import EvalCall, EvalCommand, EvalModel, Evaluation
from rltui.frameworks.evaluators import verifiers_eval
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.values import optional_count, rows, source_name, text
from rltui.frameworks.run_settings import WeightsMaker

_MODEL_KEYS = (
    "model.name",
    "orchestrator.model.name",
    "trainer.model.name",
    "inference.vllm.model",
    "inference.model.name",
)
_ENVIRONMENTS = (
    "eval.source",
    "orchestrator.eval.source",
    "orchestrator.train.source",
    "orchestrator.train.env",
    "orchestrator.env",
)
_TOKENS = ("sampling.max_tokens", "train.sampling.max_completion_tokens", "train.sampling.max_tokens")
_WEIGHTS = ("weights/step_{step}", "checkpoints/step_{step}/weights", "broadcasts/step_{step}",
            "run_default/broadcasts/step_{step}")  # fmt: skip
"""Locations: exported for a checkpoint until August 2026; the output of `convert_dcp_to_bf16.py`; as sent to
the server through files.
"""
_STABLE = "STABLE"


@dataclass(frozen=True)
class PrimeRlEvaluation(Evaluation):
    """Evaluations of one generation, or of the one that its files may show."""

    packages = ("verifiers", "prime-rl")
    generation: Generation
    config: Callable[[ConfigFiles], Mapping[str, Any]]
    """One merged config, as the run gets it."""

    def environment(self, files: ConfigFiles) -> str:
        """The first environment for evaluations during training, else the first for training."""
        return _environment(self.config(files))

    def max_tokens(self, files: ConfigFiles) -> int | None:
        return _max_tokens(self.config(files))

    def model(self, files: ConfigFiles, context: RunContext, target: EvalTarget) -> EvalModel:
        """A checkpoint's weights, if they are exported or were sent through files."""
        data, is_sft = self.config(files), "sft" in files
        return _model(self.generation.of(data), data, context, target, is_sft=is_sft)

    def server(
        self, files: ConfigFiles, context: RunContext, model: EvalModel, port: int, gpu_memory: str
    ) -> EvalCommand:
        """Options of its `inference`."""
        del context
        return _server(self.generation.of(self.config(files)), model, port, gpu_memory)

    def command(self, files: ConfigFiles, context: RunContext, call: EvalCall) -> EvalCommand:
        """Command line of `eval` or `vf-eval`."""
        data = self.config(files)
        return _evaluator(self.generation.of(data), data, context, call)


def _environment(data: Mapping[str, Any]) -> str:
    """Id of the first environment, as evaluators take it."""
    return next((id_ for id_, _ in _sources(data)), "")


def _sources(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Sources with an id, and the tables that configure them."""
    for key in _ENVIRONMENTS:
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
    name = text(data, *_MODEL_KEYS)
    if name is None:
        raise ConfigError("no model in the config", hint=hints.EVAL_MODEL(model="NAME"))
    return EvalModel("base", "base", name, step=0)


def weights_maker(data: Mapping[str, Any], run_dir: str, step: int, *, is_sft: bool) -> WeightsMaker | None:
    """Export next to the halves of the checkpoint; `None` if the config names no model."""
    checkpoint, name = f"{run_dir}/checkpoints/step_{step}", text(data, *_MODEL_KEYS)
    if name is None:
        return None
    tables = ("tokenizer", "trainer.tokenizer") if not is_sft else ("tokenizer",)
    tokenizer_arguments = [
        text(data, *(f"{table}.{key}" for table in tables)) or "" for key in ("name", "chat_template")
    ]
    source, folder = f"{checkpoint}/trainer", f"{checkpoint}/weights"
    script = str(Path(__file__).with_name("make_weights.py"))
    return WeightsMaker(
        ("python", script, source, folder, name, *tokenizer_arguments), f"{source}/.metadata", folder
    )


def _server(g: Generation, model: EvalModel, port: int, share: str) -> EvalCommand:
    """Options after the config of the run's own server. Without a router, which would need further ports."""
    if g.run_folders:
        argv = ["--vllm.model", model.name, "--server.port", str(port), "--router", "None"]
        return EvalCommand((*argv, *(("--vllm.gpu-memory-utilization", share) if share else ())))
    argv = ["--model.name", model.name, "--server.port", str(port)]
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
