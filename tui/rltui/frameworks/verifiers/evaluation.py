"""Evaluations of vf-rl: the model of its config, checkpoints without adapters, and `vf-eval`."""

from __future__ import annotations

from rltui.base.template import Missing
from rltui.core import hints
from rltui.core.config.data import value_at
from rltui.core.runs.evals import EvalTarget
from rltui.errors import ConfigError
from rltui.frameworks.evaluation import EvalCall, EvalCommand, EvalModel, EvaluationSide, named_model
from rltui.frameworks.evaluators import verifiers_eval
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.schemas import SchemaConfig
from rltui.frameworks.verifiers import rules
from rltui.frameworks.verifiers.files import ARGS


def evaluation_of(config: SchemaConfig, title: str) -> EvaluationSide:
    """The part of the framework; `config` reads values of its files."""

    def model(files: ConfigFiles, context: RunContext, target: EvalTarget) -> EvalModel:
        name = str(files["rl"].data.get("model", ""))
        if target.kind == "base" and name:
            return EvalModel("base", "base", name, step=0)
        if target.kind != "checkpoint":
            return named_model(title)(files, context, target)
        if config.sound_value(files, f"{ARGS}.use_lora"):
            raise ConfigError(
                f"{target.label} holds adapters (trainer.args.use_lora), which a server cannot load on"
                " their own",
                hint=f"{hints.EVAL_NOW} uses the server that has them merged, even after the run is done",
            )
        folder = f"{context.run_folder}/checkpoint-{target.step}"
        return EvalModel("checkpoint", target.label, folder, target.step)

    def command(files: ConfigFiles, context: RunContext, call: EvalCall) -> EvalCommand:
        if isinstance(context.run, Missing):
            raise ConfigError(context.run.reason, hint=context.run.hint)
        args = value_at(files["rl"].data, "env.args")
        return verifiers_eval(
            call, context.run, args=args if isinstance(args, dict) else None, is_legacy=True
        )

    return EvaluationSide(
        packages=("verifiers",),
        environment=lambda files: str(value_at(files["rl"].data, "env.id") or "").rpartition("/")[2],
        max_tokens=lambda files: (  # as `RLConfig` computes it
            config.sound_count(files, rules.ANSWER) or config.sound_count(files, rules.LENGTH)
        ),
        model=model,
        command=command,
    )
