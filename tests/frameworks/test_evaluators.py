"""Command lines of evaluators, by the version that is installed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rltui.core.evals import EvalRequest, EvalTarget
from rltui.core.template import Missing
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFile, ConfigFiles, EvalCall, EvalModel, RunContext
from rltui.frameworks.evaluators import vf_eval
from rltui.frameworks.prime_rl import CURRENT, MERGED, SPLIT, PrimeRl
from rltui.frameworks.registry import get

REQUEST = EvalRequest(env="reverse-text", num_examples=20, rollouts_per_example=3, max_tokens=128)
CALL = EvalCall(REQUEST, "http://127.0.0.1:8000/v1", "Qwen/Qwen3-0.6B", "/out/evals/1/results")
CONTEXT = RunContext("/w", "/out", "python", run=("uv", "run"))


@pytest.mark.parametrize("version", ["0.1.8", "0.1.9.post3", "0.1.14", "0.3.1.dev59"])
def test_vf_eval_until_0_3_saves_where_it_is_told(version: str) -> None:
    command = vf_eval(CALL, ("uv", "run"), version)
    words = " ".join(command.argv)
    assert words.startswith("uv run vf-eval reverse-text --model Qwen/Qwen3-0.6B --api-base-url http://127.0")
    assert "--num-examples 20 --rollouts-per-example 3 --save-results" in words
    assert "--max-tokens 128" in words
    assert "--env-dir-path /out/evals/1/results" in words
    assert command.folders == ("/out/evals/1/results/reverse_text",)
    assert command.env["RLTUI_EVAL_KEY"], "it wants a key even where the server does not"
    is_old = version.startswith(("0.1.8", "0.1.9"))
    assert ("--state-columns is_truncated,stop_condition" in words) is is_old
    assert (command.argv[-1] == "-d") is not is_old


def test_vf_eval_since_0_4_never_uploads() -> None:
    words = " ".join(vf_eval(CALL, (), "0.4.0").argv)
    assert words.startswith(
        "vf-eval reverse-text -m Qwen/Qwen3-0.6B -n 20 -r 3 --client.base-url http://127.0"
    )
    assert "--client.api-key-var RLTUI_EVAL_KEY --env.agent.harness.id null" in words
    assert words.endswith("--sampling.max-tokens 128 --output-dir /out/evals/1/results --no-rich --no-push")
    with pytest.raises(ConfigError, match="would upload"):
        vf_eval(asked_with("--push", "True"), (), "0.4.0")
    own = vf_eval(asked_with("--env.agent.harness.id", "bash"), (), "0.5.1").argv
    assert "null" not in own
    assert own[-3:] == ("--env.agent.harness.id", "bash", "--no-push")


def asked_with(*arguments: str) -> EvalCall:
    return replace(CALL, request=REQUEST.model_copy(update={"arguments": arguments}))


def test_a_key_of_a_server_is_named_and_never_told() -> None:
    call = replace(CALL, key_variable="OTHER_KEY")
    for version in ("0.1.9", "0.4.0"):
        command = vf_eval(call, (), version)
        assert "OTHER_KEY" in command.argv
        assert command.env == {}


def test_vf_eval_of_unknown_versions_is_not_run() -> None:
    with pytest.raises(ConfigError, match=r"0\.1\.5 is too old"):
        vf_eval(CALL, (), "0.1.5")


def files(data: dict[str, Any], role: str = "rl") -> ConfigFiles:
    return {role: ConfigFile(role, f"/w/{role}.toml", data)}


SPLIT_FILES = {
    **files({"env": [{"id": "reverse-text"}], "sampling": {"max_tokens": 128}}, "orchestrator"),
    **files({"model": {"name": "Qwen/Qwen3-0.6B"}}, "trainer"),
}
OF_FEBRUARY = files(
    {
        "model": {"name": "Qwen/Qwen3-0.6B"},
        "orchestrator": {"env": [{"id": "reverse-text"}], "sampling": {"max_tokens": 128}},
        "inference": {},
    }
)
OF_AUGUST = files(
    {
        "model": {"name": "Qwen/Qwen3-0.6B"},
        "orchestrator": {
            "group_size": 16,
            "train": {
                "sampling": {"max_completion_tokens": 128},
                "source": [{"name": "train", "env": {"taskset": {"id": "reverse-text"}}}],
            },
        },
        "inference": {},
    }
)
OF_AUTUMN = files(
    {
        "model": {"name": "Qwen/Qwen3-0.6B"},
        "orchestrator": {
            "constant_trainer_batch_size": True,
            "train": {
                "group_size": 16,
                "algo": {"type": "grpo"},
                "sampling": {"max_completion_tokens": 128},
                "source": [{"name": "train", "env": {"taskset": {"id": "reverse-text"}}}],
            },
        },
        "inference": {},
    }
)


@pytest.mark.parametrize(
    ("framework", "config", "evaluator", "server"),
    [
        (
            SPLIT,
            SPLIT_FILES,
            "uv run vf-eval",
            "--model.name /m --server.port 9 --gpu-memory-utilization 0.4",
        ),
        (
            MERGED,
            OF_FEBRUARY,
            "uv run vf-eval",
            "--model.name /m --server.port 9 --gpu-memory-utilization 0.4",
        ),
        (CURRENT, OF_AUGUST, "uv run vf-eval", "--vllm.model /m --server.port 9 --no-router"),
        (CURRENT, OF_AUTUMN, "uv run eval reverse-text -m", "--vllm.model /m --server.port 9 --no-router"),
    ],
    ids=["2025", "February 2026", "August 2026", "autumn 2026"],
)
def test_prime_rl_is_evaluated_by_what_its_environment_has(
    framework: PrimeRl, config: ConfigFiles, evaluator: str, server: str
) -> None:
    assert framework.eval_env(config) == "reverse-text"
    assert framework.eval_max_tokens(config) == 128
    call = replace(CALL, programs={"verifiers": "0.1.9.post3"})
    assert " ".join(framework.evaluation(config, CONTEXT, call).argv).startswith(evaluator)
    options = framework.eval_server(config, CONTEXT, EvalModel("model", "m", "/m"), 9, "0.4")
    assert " ".join(options.argv).startswith(server)
    base = framework.eval_model(config, CONTEXT, EvalTarget(kind="base"))
    assert (base.name, base.step) == ("Qwen/Qwen3-0.6B", 0)
    found = framework.eval_model(config, CONTEXT, EvalTarget(kind="checkpoint", step=20))
    assert found.places[0] == "/out/weights/step_20"
    assert found.marker == ("STABLE" if framework is MERGED else "")
    with pytest.raises(ConfigError, match="experiment of its own"):
        framework.eval_model(config, CONTEXT, EvalTarget(kind="sft"))


def test_prime_rl_without_an_evaluator_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match="verifiers, whose vf-eval would do it, is not in the environment"):
        MERGED.evaluation(OF_FEBRUARY, CONTEXT, CALL)
    nowhere = replace(CONTEXT, run=Missing("no checkout of prime-rl is near", hint="name its folder"))
    with pytest.raises(ConfigError, match="no checkout"):
        MERGED.evaluation(OF_FEBRUARY, nowhere, CALL)


def test_a_checkpoint_of_an_sft_run_is_called_so() -> None:
    config = files({"model": {"name": "m"}, "data": {"name": "d", "batch_size": 4}}, "sft")
    found = MERGED.eval_model(config, CONTEXT, EvalTarget(kind="checkpoint", step=100))
    assert (found.kind, found.label) == ("sft", "sft, checkpoint 100")


def test_any_commands_evaluate_a_folder_of_weights() -> None:
    generic = get("generic")
    assert generic.eval_model({}, CONTEXT, EvalTarget(kind="model", model="/m")).name == "/m"
    with pytest.raises(ConfigError, match="does not say where base would be"):
        generic.eval_model({}, CONTEXT, EvalTarget(kind="base"))
