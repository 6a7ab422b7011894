"""Servers that a config names and prime-rl never starts, in every generation: frozen models, env servers."""

from __future__ import annotations

import tomllib

import pytest
from tests.frameworks.prime_rl.runs import CONTEXT, of, of_text

from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.prime_rl.endpoints import ROLLOUTS_OF_SPRING
from rltui.services.experiment import layout_files

MERGED, TODAY = "prime-rl-merged", "prime-rl"
RL = '[trainer]\n[inference]\n[orchestrator]\nbatch_size = 64\n[model]\nname = "m/x"\n'
HERE, THERE = "http://localhost:8001/v1", "http://gpu-2:9000/v1"
SCORES, GENERATES = "scores rollouts", "generates rollouts"


def frozen(table: str, url: str = HERE) -> str:
    return f'[{table}]\nname = "big"\nbase_url = "{url}"\n'


def of_spring(table: str) -> str:
    urls = f'["{HERE}", "{THERE}"]'
    return f'[{table}.model]\nname = "big"\n[{table}.client]\nbase_url = {urls}\napi_key_var = "K"\n'


def source(name: str, more: str = "", split: str = "train") -> str:
    return f'[[orchestrator.{split}.source]]\nname = "{name}"\nenv = {{taskset = {{id = "t"}}}}\n{more}'


SPRING = """\
[[orchestrator.train.env]]
id = 'a'
[[orchestrator.train.env]]
id = 'b'
address = 'tcp://h:1'
[[orchestrator.eval.env]]
id = 'b'
address = 'tcp://h:1'
"""
TEACHER = ("teacher", HERE, SCORES, "teacher")


@pytest.mark.parametrize(
    ("generation", "text", "expected"),
    [
        (MERGED, of_spring("orchestrator.teacher_model"), [TEACHER, ("teacher-2", THERE, SCORES, "")]),
        (
            MERGED,
            of_spring("orchestrator.teacher_rollout_model"),
            [("teacher", HERE, GENERATES, "teacher"), ("teacher-2", THERE, GENERATES, "")],
        ),
        (MERGED, of_spring("orchestrator.teacher"), [TEACHER, ("teacher-2", THERE, SCORES, "")]),
        (MERGED, of_spring("orchestrator.teacher_model") + "[deployment]\nnum_teacher_gpus = 1\n", []),
        (MERGED, of_spring("orchestrator.teacher_model") + "[teacher_inference]\n", []),
        (TODAY, frozen("orchestrator.algo.teacher"), [TEACHER]),
        (TODAY, frozen("orchestrator.train.algo.teacher") + source("a"), [TEACHER]),
        (TODAY, frozen("orchestrator.algo.teacher", "http://localhost:8000/v1"), []),
        (
            TODAY,
            frozen("orchestrator.train.algo.sampling.source", THERE),
            [("teacher", THERE, GENERATES, "")],
        ),
        (
            TODAY,
            source("math", frozen("orchestrator.train.source.algo.teacher"))
            + source("code", frozen("orchestrator.train.source.algo.teacher"))
            + source("chat", frozen("orchestrator.train.source.algo.sampling.source", THERE)),
            [
                ("teacher-math", HERE, f"{SCORES} of math and code", "teacher-math"),
                ("teacher-chat", THERE, f"{GENERATES} of chat", ""),
            ],
        ),
        (
            TODAY,
            source("math", frozen("orchestrator.train.source.algo.teacher", THERE))
            + source("code")
            + frozen("orchestrator.train.algo.teacher"),
            [TEACHER, ("teacher-math", THERE, f"{SCORES} of math", "")],
        ),
        (
            TODAY,
            source("math", "[orchestrator.train.source.algo]\ntype = 'grpo'\n")
            + frozen("orchestrator.algo.teacher"),
            [],
        ),
        (TODAY, "[orchestrator.algo]\ntype = 'opd'\nteacher = 7\nsampling = {source = 'policy'}\n", []),
    ],
    ids=[
        *("winter to spring", "distilled in spring", "June", "served by the launcher", "its own server"),
        *("August", "today", "the run's own server", "generates", "per source", "of all, and of one"),
        *("nobody uses it", "of wrong types"),
    ],
)
def test_frozen_models(generation: str, text: str, expected: list[tuple[str, str, str, str]]) -> None:
    servers = registry.get(generation).servers.further(of_text(RL + text))
    found = [(server.id, server.url, server.used_for, server.component) for server in servers]
    assert found == expected
    assert {(server.model, server.needed_for) for server in servers} <= {("big", "rollouts")}
    wanted = "K" if "api_key_var" in text else "VLLM_API_KEY"
    assert {server.key_variable for server in servers} <= {wanted}
    tree = tomllib.loads(text)
    for server in servers:
        value: object = tree
        for part in server.key.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]  # type: ignore[index]
        assert server.url in (value if isinstance(value, list) else [value])


@pytest.mark.parametrize(
    ("generation", "text", "expected"),
    [
        (
            MERGED,
            "[[orchestrator.env]]\nid = 'math'\naddress = 'tcp://h:1'\n",
            [("env-train-math", "rollouts", "orchestrator.env.0.address")],
        ),
        (
            MERGED,
            SPRING,
            [
                ("env-train-b", "rollouts", "orchestrator.train.env.1.address"),
                ("env-eval-b", "evals", "orchestrator.eval.env.0.address"),
            ],
        ),
        (
            TODAY,
            source("a") + source("b", "serve = {address = 'tcp://h:1'}\n"),
            [("env-train-b", "rollouts", "orchestrator.train.source.1.serve.address")],
        ),
        (
            TODAY,
            source("b", "serve = {address = 'tcp://h:1'}\n", "eval")
            + "[orchestrator.train.env]\nretries = 2\n",
            [("env-eval-b", "evals", "orchestrator.eval.source.0.serve.address")],
        ),
    ],
    ids=["winter", "spring", "train", "eval"],
)
def test_env_servers_of_others(generation: str, text: str, expected: list[tuple[str, str, str]]) -> None:
    framework, files = registry.get(generation), of_text(RL + text)
    servers = framework.servers.further(files)
    assert [(server.id, server.needed_for, server.key) for server in servers] == expected
    assert all(
        server.url == "tcp://h:1" and server.is_env_server and not server.component for server in servers
    )
    layout_file = layout_files.find(framework.layouts["rl"])
    layout = layout_files.with_instances(
        layout_files.load(layout_file), framework.launch.instances(files), layout_file
    )
    assert {server.id for server in servers}.isdisjoint(spec.id for spec in layout.component)
    values = framework.launch.template_values(files, CONTEXT)
    assert not [name for name in values if name.startswith("config.env") and name.endswith(".b")]


def test_those_of_evaluations_during_sft() -> None:
    text = "[model]\nname = 'm'\n[data]\nname = 'd'\n[eval]\n[[eval.source]]\nname = 'a'\nserve = {address = 'tcp://h:1'}\n"
    files = of(sft=tomllib.loads(text))
    (server,) = registry.get(TODAY).servers.further(files)
    assert registry.get(TODAY).launch.instances(files)["env_servers.eval"] == ()
    assert (server.id, server.needed_for, server.key) == (
        "env-eval-a",
        "evals",
        "eval.source.0.serve.address",
    )


def test_a_teacher_that_generates_all_rollouts_leaves_no_other_server() -> None:
    """Its generation refuses [inference] then: a run waited for a server at the default address."""
    prime, files = (
        registry.get(MERGED),
        of_text(RL.replace("[inference]\n", "") + of_spring(ROLLOUTS_OF_SPRING)),
    )
    assert prime.servers.addresses(files) == ()
    assert prime.servers.external(files) == ("inference",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (frozen("orchestrator.algo.teacher", "gpu-2:9000"), "teacher.base_url: not the URL of an inference"),
        (source("a", "serve = {address = 'h:1'}\n"), "serve.address: not the address of an env server: h:1"),
        (source("a", "serve = {address = 'tcp://h'}\n"), "not the address of an env server"),
    ],
)
def test_an_address_that_is_none(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.get(TODAY).servers.further(of_text(RL + text))
