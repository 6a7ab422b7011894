"""What is asked of every generation alike, and the latest: attempts, and env servers on free ports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.frameworks.prime_rl.runs import CONTEXT, DATA, commands, files, of_text, with_devices

from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import Resolution

PRIME_RL = registry.get("prime-rl")
PRIME_RL_MERGED = registry.get("prime-rl-merged")
PRIME_RL_SPLIT = registry.get("prime-rl-split")

A = files("era_a", trainer="train.toml", orchestrator="orch.toml", inference="infer.toml")
B, C, D = (files(f"era_{era}", rl="rl.toml") for era in "bcd")
EVERY = pytest.mark.parametrize(
    ("framework", "configs", "layout"),
    [
        pytest.param(PRIME_RL_SPLIT, A, "prime-rl-split", id="A"),
        pytest.param(PRIME_RL_MERGED, B, "prime-rl-merged", id="B"),
        pytest.param(PRIME_RL, C, "prime-rl", id="C"),
        pytest.param(PRIME_RL, D, "prime-rl", id="D"),
    ],
)
BASE_PORT = "orchestrator.env_server_base_port"
OPEN = """
[trainer]
[inference]
[[orchestrator.train.source]]
name = "a"
"""
"""A file of either of the last two generations."""
SHARED = "/w/out/.rltui/resolved/newest"


def parts(configs: ConfigFiles, context: RunContext = CONTEXT) -> Resolution:
    return PRIME_RL.launch.resolutions(configs, context)[1]


@EVERY
def test_programs_read_what_was_made_for_them(
    framework: Framework, configs: ConfigFiles, layout: str
) -> None:
    filled = commands(framework, layout, configs, CONTEXT)
    assert filled["inference"] == "uv run inference @ /m/inference"
    assert filled["orchestrator"] == "uv run orchestrator @ /m/orchestrator"
    assert filled["trainer"].endswith("-m prime_rl.trainer.rl.train @ /m/trainer")


@EVERY
def test_two_devices_are_one_each(framework: Framework, configs: ConfigFiles, layout: str) -> None:
    context = with_devices("GPU-a", "GPU-b")
    values = framework.launch.template_values(configs, context)
    assert (values["gpus.inference"], values["gpus.trainer"]) == ("GPU-a", "GPU-b")
    seen = [
        framework.launch.environment(name, configs, context).get("CUDA_VISIBLE_DEVICES")
        for name in ("inference", "trainer", "orchestrator")
    ]
    assert seen == ["GPU-a", "GPU-b", None]
    assert values["gpu_memory.inference"] == "0.9"


@EVERY
def test_a_moved_server_is_found_by_the_orchestrator(
    framework: Framework, configs: ConfigFiles, layout: str
) -> None:
    moved = {item.knob: item.port + 40 for item in framework.launch.ports(configs)}
    context = replace(CONTEXT, overrides=moved)
    edits = {
        f"{role}.{key}".removeprefix("rl."): value
        for resolution in framework.launch.resolutions(configs, context)
        for role, of_role in resolution.edits.items()
        for key, value in of_role.items()
    }
    assert edits["inference.server.port"] == 8040
    url = next(value for key, value in edits.items() if key.endswith("client.base_url"))
    assert url in ("http://localhost:8040/v1", ["http://localhost:8040/v1"])
    assert framework.launch.template_values(configs, context)["port.inference"] == "8040"


@EVERY
def test_orchestrator_and_trainer_restart_together(
    framework: Framework, configs: ConfigFiles, layout: str
) -> None:
    pair, server, *_ = framework.launch.restart_rules(configs)
    assert pair[:2] == (frozenset({"orchestrator", "trainer"}),) * 2
    assert server[:2] == (frozenset({"inference"}), frozenset({"orchestrator", "trainer"}))


def test_latest_configs_are_found_wherever_they_are() -> None:
    resolution = parts(D)
    assert resolution.outputs["trainer"] == (
        "out/run/configs/attempt_*/resolved/trainer.json",
        "out/run/configs/resolved/trainer.json",
        "out/run/configs/trainer.json",
    )
    attempt = "{scratch}/out/run/configs/attempt_1/resolved"
    assert resolution.replaced[attempt] == SHARED
    assert resolution.shared["env.eval"] == f"{SHARED}/envs/eval/*.json"
    assert resolution.replaced["{scratch}/out/run/logs/attempt_1"] in resolution.folders


def test_env_server_of_the_latest_is_found_by_a_file() -> None:
    values = PRIME_RL.launch.template_values(D, CONTEXT)
    name = "env.train.reverse-text"
    assert values[f"address.{name}"] == f"{SHARED}/envs/train/reverse-text.address"
    assert values[f"port.{name}"] == values[f"tcp.{name}"] == ""
    before = PRIME_RL.launch.template_values(C, CONTEXT)
    assert (before[f"address.{name}"], before[f"tcp.{name}"]) == ("", "127.0.0.1:5000")


@pytest.mark.parametrize(
    ("made", "address", "port"),
    [
        ({}, "", "5000"),
        ({"env.train.a": {"serve": {"address": "tcp://127.0.0.1:5000"}}}, "", "5000"),
        ({"env.train.a": {"serve": {}, "address_file": "/x/a.address"}}, "/x/a.address", ""),
    ],
    ids=["unknown", "by port", "by file"],
)
def test_what_was_made_decides_where_the_config_does_not(
    made: dict[str, dict[str, object]], address: str, port: str
) -> None:
    values = PRIME_RL.launch.template_values(of_text(OPEN), replace(CONTEXT, made=made))
    assert (values["address.env.train.a"], values["port.env.train.a"]) == (address, port)


@pytest.mark.parametrize(
    ("more", "is_latest"),
    [
        ("", False),
        ("[orchestrator.train]\ngroup_size = 4", True),
        ("[orchestrator.eval]\nenv = { retries = {} }", True),
        ("[[orchestrator.eval.source]]\nselect.limit = 3", True),
        ("[trainer.model.moe]\ncompute = 'bf16'", True),
        ("[trainer.loss]\ntype = 'ipo'", False),
    ],
)
def test_port_for_env_servers_is_moved_only_where_there_is_one(more: str, is_latest: bool) -> None:
    text = "[trainer]\n[inference]\n[[orchestrator.train.source]]\nname = 'a'\n" + more
    configs = of_text(text.replace("[trainer]\n", "" if "[trainer." in more else "[trainer]\n"))
    assert (BASE_PORT in {item.knob for item in PRIME_RL.launch.ports(configs)}) == (not is_latest)
    context = replace(CONTEXT, overrides={BASE_PORT: 5010})
    resolution = parts(configs, context)
    assert (BASE_PORT in resolution.edits["rl"]) == (not is_latest)
    assert resolution.unless_unknown == (frozenset() if is_latest else {BASE_PORT})


def test_every_part_is_told_the_attempt() -> None:
    for part in ("inference", "env-train-reverse-text", "orchestrator", "trainer"):
        variables = PRIME_RL.launch.environment(part, D, CONTEXT)
        assert variables["PRL_ATTEMPT_CONFIG_DIR"] == SHARED
        assert variables["PRL_ATTEMPT_LOG_DIR"] == "/w/out/logs/rltui"
    assert "PRL_ATTEMPT_CONFIG_DIR" not in PRIME_RL.launch.environment("rl", D, CONTEXT), "it makes its own"


def test_new_address_reaches_the_orchestrator_by_a_restart() -> None:
    text = (DATA / "era_d/rl.toml").read_text() + (
        '\n[[orchestrator.train.source]]\nname = "far"\nserve.address = "tcp://node-2:5001"\n'
    )
    rules = PRIME_RL.launch.restart_rules(of_text(text))
    moving = {cause: why for causes, effects, why in rules for cause in causes if effects == {"orchestrator"}}
    assert moving.keys() == {"env-train-reverse-text", "env-eval-reverse-text"}
    assert all("new port" in why for why in moving.values())
    assert not any("new port" in why for _, _, why in PRIME_RL.launch.restart_rules(C))


def test_latest_run_has_its_files_where_they_are_now() -> None:
    run_files = PRIME_RL.run.files(D)
    assert run_files.metrics == ("monitors/file/metrics.jsonl", "metrics.jsonl")
    assert {"monitors", "batches", "trainer_step"} <= set(run_files.artifacts)
    assert {"configs", "launcher"}.isdisjoint(run_files.artifacts), "the launcher lets those be"
    assert "batches" in run_files.stale_batches
    assert run_files.beats["trainer"] == "trainer_step"
