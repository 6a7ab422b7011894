"""Command lines of evaluators, by the version that is installed."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from tests.frameworks.prime_rl.runs import of, of_text

from rltui.base.template import Missing
from rltui.core.runs.evals import EvalRequest, EvalTarget
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.evaluation import EvalCall, Program
from rltui.frameworks.evaluators import verifiers_eval
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.prime_rl import CURRENT, MERGED, SPLIT
from rltui.frameworks.registry import get

REQUEST = EvalRequest(env="reverse-text", num_examples=20, rollouts_per_example=3, max_tokens=128)
CALL = EvalCall(REQUEST, "http://127.0.0.1:8000/v1", "Qwen/Qwen3-0.6B", "/out/evals/1/results")
CONTEXT = RunContext("/w", "/out", "python", run=("uv", "run"))


def programs(version: str, **scripts: str) -> dict[str, Program]:
    return {name.replace("_", "-"): Program(version, target) for name, target in scripts.items()}


LEGACY = "verifiers.scripts.eval:main"
TASKSETS = "verifiers.v1.cli.eval.main:main"
UNTIL_0_2 = programs("0.1.9.post3", vf_eval=LEGACY)
OF_0_3 = programs(
    "0.3.1.dev59",
    vf_eval="verifiers.legacy.scripts.eval:main",
    eval=TASKSETS,
    validate="verifiers.v1.cli.validate:main",
)
SINCE_0_4 = programs("0.4.0", vf_eval=TASKSETS)
WITH_ITS_OWN = {
    **SINCE_0_4,
    **programs("0.9.0", eval="prime_rl.entrypoints.eval:main", rl="prime_rl.entrypoints.rl:main"),
}
DATASET = {"taskset": {"id": "reverse-text", "dataset_name": "/d/rl"}, "agent": {"harness": {"id": "null"}}}


@pytest.mark.parametrize("version", ["0.1.8", "0.1.9.post3", "0.1.14", "0.2.0"])
def test_vf_eval_of_environments_saves_where_it_is_told(version: str) -> None:
    call = replace(CALL, programs=programs(version, vf_eval=LEGACY))
    command = verifiers_eval(call, ("uv", "run"), args={"split": "test"}, is_legacy=True)
    words = " ".join(command.argv)
    assert words.startswith("uv run vf-eval reverse-text --model Qwen/Qwen3-0.6B --api-base-url http://127.0")
    assert "--num-examples 20 --rollouts-per-example 3 --save-results" in words
    assert "--max-tokens 128" in words
    assert "--env-dir-path /out/evals/1/results" in words
    assert '--env-args {"split": "test"}' in words
    assert command.folders == ("/out/evals/1/results/reverse_text",)
    assert command.env["RLTUI_EVAL_KEY"], "it wants a key even where the server does not"
    is_old = version.startswith(("0.1.8", "0.1.9"))
    assert ("--state-columns is_truncated,stop_condition" in words) is is_old
    assert (command.argv[-1] == "-d") is not is_old


@pytest.mark.parametrize(("installed", "name"), [(OF_0_3, "eval"), (SINCE_0_4, "vf-eval")])
def test_the_evaluator_of_tasksets_has_the_options_of_the_config_and_never_uploads(
    installed: dict[str, Program], name: str
) -> None:
    """R2."""
    call = replace(CALL, programs=installed)
    command = verifiers_eval(call, (), env=DATASET)
    words = " ".join(command.argv)
    assert words.startswith(
        f"{name} reverse-text @ /out/evals/1/results/env.toml -m Qwen/Qwen3-0.6B -n 20 -r 3 --cl"
    )
    assert words.endswith("--sampling.max-tokens 128 --output-dir /out/evals/1/results --no-rich --no-push")
    assert tomllib.loads(command.files["/out/evals/1/results/env.toml"]) == {"env": DATASET}
    unknown = verifiers_eval(call, ()).files["/out/evals/1/results/env.toml"]
    assert tomllib.loads(unknown)["env"]["agent"]["runtime"] == {"type": "subprocess"}, "it only answers"
    with pytest.raises(ConfigError, match="would upload"):
        verifiers_eval(asked_with(call, "--push", "True"), ())
    own = verifiers_eval(asked_with(call, "--env.agent.harness.id", "bash"), (), env=DATASET)
    assert "agent" not in tomllib.loads(own.files["/out/evals/1/results/env.toml"])["env"]


def test_environments_and_tasksets_are_evaluated_by_what_is_made_for_them() -> None:
    for installed, is_legacy, program in (
        (UNTIL_0_2, False, "vf-eval"), (OF_0_3, True, "vf-eval"), (OF_0_3, False, "eval"),
        (SINCE_0_4, True, "vf-eval"), (WITH_ITS_OWN, False, "eval"),
    ):  # fmt: skip
        command = verifiers_eval(replace(CALL, programs=installed), (), is_legacy=is_legacy)
        assert command.argv[0] == program
        assert ("-m" in command.argv) is (
            installed is not UNTIL_0_2 and not (installed is OF_0_3 and is_legacy)
        )
    assert verifiers_eval(replace(CALL, programs=WITH_ITS_OWN), ()).argv[-2:] == ("-c", "32")


def asked_with(call: EvalCall, *arguments: str) -> EvalCall:
    return replace(call, request=REQUEST.replace(arguments=arguments))


def test_a_key_of_a_server_is_named_and_never_told() -> None:
    for installed in (UNTIL_0_2, SINCE_0_4):
        command = verifiers_eval(replace(CALL, key_variable="OTHER_KEY", programs=installed), ())
        assert "OTHER_KEY" in command.argv
        assert command.env == {}


def test_vf_eval_of_unknown_versions_is_not_run() -> None:
    with pytest.raises(ConfigError, match=r"0\.1\.5 is too old"):
        verifiers_eval(replace(CALL, programs=programs("0.1.5", vf_eval=LEGACY)), ())


MODEL = "[model]\nname = 'Qwen/Qwen3-0.6B'\n[inference]\n"
SAMPLING = "[orchestrator.train.sampling]\nmax_completion_tokens = 128\n"
SOURCE = "[[orchestrator.train.source]]\nname = 'train'\nenv.taskset.id = 'reverse-text'\n"
OF_2025 = of(
    orchestrator={"env": [{"id": "reverse-text"}], "sampling": {"max_tokens": 128}},
    trainer={"model": {"name": "Qwen/Qwen3-0.6B"}},
)
OF_FEBRUARY = of_text(f"{MODEL}[orchestrator]\nenv = [{{id = 'reverse-text'}}]\nsampling.max_tokens = 128\n")
OF_AUGUST = of_text(f"{MODEL}{SAMPLING}{SOURCE}[orchestrator]\ngroup_size = 16\n")
OF_AUTUMN = of_text(f"{MODEL}{SAMPLING}{SOURCE}[orchestrator.train]\ngroup_size = 16\nalgo.type = 'grpo'\n")
LEGACY_SERVER = "--model.name /m --server.port 9 --gpu-memory-utilization 0.4"
SERVER = "--vllm.model /m --server.port 9 --router None"


@pytest.mark.parametrize(
    ("framework", "config", "installed", "evaluator", "server"),
    [
        pytest.param(SPLIT, OF_2025, UNTIL_0_2, "uv run vf-eval", LEGACY_SERVER, id="2025"),
        pytest.param(MERGED, OF_FEBRUARY, UNTIL_0_2, "uv run vf-eval", LEGACY_SERVER, id="February"),
        pytest.param(CURRENT, OF_AUGUST, OF_0_3, "uv run eval reverse-text @", SERVER, id="August"),
        pytest.param(CURRENT, OF_AUTUMN, WITH_ITS_OWN, "uv run eval reverse-text @", SERVER, id="autumn"),
    ],
)
def test_prime_rl_is_evaluated_by_what_its_environment_has(
    framework: Framework, config: ConfigFiles, installed: dict[str, Program], evaluator: str, server: str
) -> None:
    assert framework.evaluation.environment(config) == "reverse-text"
    assert framework.evaluation.max_tokens(config) == 128
    call = replace(CALL, programs=installed)
    command = framework.evaluation.command(config, CONTEXT, call)
    assert command is not None
    assert " ".join(command.argv).startswith(evaluator)
    options = framework.evaluation.server(config, CONTEXT, "/m", 9, "0.4")
    assert options is not None
    assert " ".join(options.argv).startswith(server)
    base = framework.evaluation.model(config, CONTEXT, EvalTarget(kind="base"))
    assert (base.name, base.step) == ("Qwen/Qwen3-0.6B", 0)
    model = framework.evaluation.model(config, CONTEXT, EvalTarget(kind="checkpoint", step=20))
    assert model.places[0] == "/out/weights/step_20"
    assert model.marker == ("STABLE" if framework is MERGED else "")
    with pytest.raises(ConfigError, match="SFT of a prime-rl model is a separate experiment"):
        framework.evaluation.model(config, CONTEXT, EvalTarget(kind="sft"))


def test_prime_rl_without_an_evaluator_says_what_to_install() -> None:
    with pytest.raises(
        ConfigError, match=r"verifiers \(eval, vf-eval\) is not installed in the framework's environment"
    ):
        MERGED.evaluation.command(OF_FEBRUARY, CONTEXT, CALL)
    nowhere = replace(CONTEXT, run=Missing("no checkout of prime-rl is near", hint="name its folder"))
    with pytest.raises(ConfigError, match="no checkout"):
        MERGED.evaluation.command(OF_FEBRUARY, nowhere, CALL)


def test_a_checkpoint_of_an_sft_run_is_called_so() -> None:
    config = of(sft={"model": {"name": "m"}, "data": {"name": "d", "batch_size": 4}})
    model = MERGED.evaluation.model(config, CONTEXT, EvalTarget(kind="checkpoint", step=100))
    assert (model.kind, model.label) == ("sft", "sft, checkpoint 100")


def test_any_commands_evaluate_a_folder_of_weights() -> None:
    generic = get("generic")
    assert generic.evaluation.model({}, CONTEXT, EvalTarget(kind="model", model="/m")).name == "/m"
    with pytest.raises(ConfigError, match="does not define where base is"):
        generic.evaluation.model({}, CONTEXT, EvalTarget(kind="base"))
