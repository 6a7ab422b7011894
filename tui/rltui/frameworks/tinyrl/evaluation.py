"""Evaluations of the embedded engine: folders of weights, and its own evaluator."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath

from rltui.base.interpreter import module_command
from rltui.base.template import Missing
from rltui.base.toml.values import TomlValue
from rltui.core.runs.evals import EvalTarget
from rltui.errors import ConfigError
from rltui.frameworks.evaluation import EvalCall, EvalCommand, EvalModel, EvaluationSide
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.schemas import SchemaConfig


def evaluation_of(config: SchemaConfig) -> EvaluationSide:
    """The part of the framework; `config` reads values of its files."""

    def environment(files: ConfigFiles) -> str:
        """The only environment, unless the config is faulty."""
        return str(config.sound_value(files, "orchestrator.env.0.id") or "") if "rl" in files else ""

    def model(files: ConfigFiles, context: RunContext, target: EvalTarget) -> EvalModel:
        """Folders of weights: RL begins with the result of SFT, and SFT stores its start in `base`."""
        sft_model = model_path(config.sound_value(files, "model.name"), context.workspace)
        if isinstance(sft_model, Missing):
            raise ConfigError(sft_model.reason, hint=sft_model.hint)
        run = context.run_folder
        folders = {
            "base": (f"{sft_model}/base",),
            "sft": (sft_model,),
            "checkpoint": (
                f"{run}/checkpoints/step_{target.step}/trainer/weights",
                f"{run}/weights/step_{target.step}",
            ),
            "model": (str(PurePath(context.workspace) / target.model),),
        }[target.kind]
        return EvalModel(target.kind, target.label, folders[0], target.step, folders)

    def command(files: ConfigFiles, context: RunContext, call: EvalCall) -> EvalCommand:
        request = call.request
        if request.env != (own_environment := environment(files)):
            raise ConfigError(
                f"the embedded engine evaluates on {own_environment} only, not on {request.env}",
                hint="leave out the environment",
            )
        argv = [
            *module_command("rltui.tinyrl", "eval", "@", files["rl"].path, python=context.python),
            "--model.name", call.model, "--client.base-url", call.base_url,
            "-n", str(request.num_examples), "-r", str(request.rollouts_per_example),
            "--results-dir", call.results,
        ]  # fmt: skip
        if request.max_tokens is not None:
            argv += ["-t", str(request.max_tokens)]
        return EvalCommand((*argv, *request.arguments))

    return EvaluationSide(
        begins_with="sft",
        environment=environment,
        max_tokens=partial(config.sound_count, name="orchestrator.sampling.max_tokens"),
        model=model,
        command=command,
    )


def model_path(name: TomlValue, workspace: str) -> str | Missing:
    if not isinstance(name, str) or not name:
        return Missing("no model in the config", hint='set [model] name = "outputs/reverse-text-sft"')
    return str(PurePath(workspace) / name)
