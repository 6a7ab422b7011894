"""Inference that somebody else runs: by the config, at an address, or another experiment's (A11)."""

from __future__ import annotations

import pytest
from tests.frameworks.prime_rl.runs import CONTEXT, files, of_text, with_devices

from rltui.base.template import Missing
from rltui.core.experiment.instances import expand_instances
from rltui.errors import ConfigError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.launch import ServiceCall
from rltui.services.experiment import layout_files

URL = "http://gpu-2:9000/v1"
FOUR = with_devices("0", "1", "2", "3")
MERGED_TEXT = '[trainer]\n[orchestrator]\nbatch_size = 64\nrollouts_per_example = 8\n[model]\nname = "m/x"\n'
TODAY_TEXT = """\
[trainer]
[orchestrator]
batch_size = 64
group_size = 8
[[orchestrator.train.source]]
env = {taskset = {id = "a"}}
"""
CLIENT = '[orchestrator.{}]\nbase_url = {}\napi_key_var = "MY_KEY"\n'


@pytest.mark.parametrize(
    ("name", "configs", "url", "variable"),
    [
        (
            "prime-rl-merged",
            of_text(MERGED_TEXT + CLIENT.format("client", f'["{URL}", "http://gpu-3:9000"]')),
            (URL, "http://gpu-3:9000/v1"),
            "MY_KEY",
        ),
        ("prime-rl", of_text(TODAY_TEXT + CLIENT.format("model.client", f'"{URL}"')), (URL,), "MY_KEY"),
        ("prime-rl", of_text(TODAY_TEXT), ("http://localhost:8000/v1",), "VLLM_API_KEY"),
        (
            "prime-rl-split",
            files("era_a", orchestrator="orch.toml", trainer="train.toml"),
            ("http://localhost:8000/v1",),
            "OPENAI_API_KEY",
        ),
    ],
    ids=["merged", "today", "default", "two of three"],
)
def test_a_config_without_inference_says_where_it_is(
    name: str, configs: ConfigFiles, url: tuple[str, ...], variable: str
) -> None:
    prime = registry.get(name)
    servers = prime.servers.addresses(configs)
    assert tuple(server.url for server in servers) == url
    assert {server.key_variable for server in servers} == {variable}
    assert prime.servers.external(configs) == ("inference",)
    assert prime.gpu_needs.engine(configs) is None
    assert all(port.component != "inference" for port in prime.launch.ports(configs)), "no port is asked for"
    layout = layout_files.load(layout_files.find(prime.layouts["orchestrator" if "split" in name else "rl"]))
    left = expand_instances(layout, prime.launch.instances(configs), without=prime.servers.external(configs))
    assert "inference" not in {spec.id for spec in left.component}
    assert all("inference" not in spec.after for spec in left.component)
    assert all("inference" not in column for column in left.screen.columns)


def test_an_address_goes_before_what_the_config_says() -> None:
    merged = registry.get("prime-rl-merged")
    own = of_text(MERGED_TEXT + '[inference]\n[weight_broadcast]\ntype = "nccl"\n')
    assert merged.servers.addresses(own) == ()
    sent = merged.sent_to([URL])
    (server,) = sent.servers.addresses(own)
    assert (server.url, server.model) == (URL, "m/x")
    _, parts = sent.launch.resolutions(own, FOUR)
    edits = parts.edits["rl"]
    assert edits["inference"] is None
    assert edits["orchestrator.client.base_url"] == [URL]
    assert edits["weight_broadcast.type"] == "filesystem", "rl counts the engine's GPUs in [inference]"
    assert sent.launch.template_values(own, FOUR)["gpus.trainer"] == "0", "none is kept for a server"
    assert sent.with_schemas({}).servers.addresses(own) == (server,)
    with pytest.raises(UsageError, match="takes one address"):
        registry.get("prime-rl").sent_to([URL, URL]).launch.resolutions(of_text(TODAY_TEXT), FOUR)


def test_the_engine_of_another_experiment_is_used_as_its_own_table_says() -> None:
    """The same devices and the same way for weights, or the engine could not take them."""
    today = registry.get("prime-rl")
    own = of_text(TODAY_TEXT + "[inference]\nbackend_port = 7000\n[inference.server]\nport = 8200\n")
    lent = today.sent_to(["http://127.0.0.1:8100/v1"], is_lent=True)
    assert lent.servers.external(own) == ("inference",)
    assert lent.servers.weights_by(own) == today.servers.weights_by(own) == "nccl"
    _, parts = lent.launch.resolutions(own, FOUR)
    edits = parts.edits["rl"]
    assert "inference" not in edits
    assert edits["inference.server.port"] == 8100
    assert edits["inference.router"] == "None"
    assert edits["inference.backend_port"] is None
    assert edits["orchestrator.model.client.base_url"] == "http://127.0.0.1:8100/v1"
    values = lent.launch.template_values(own, FOUR)
    assert (values["port.engine"], values["gpus.trainer"]) == ("8100", "1"), "the first GPU is the engine's"
    assert {port.component for port in lent.launch.ports(own)}.isdisjoint({"inference"})


def test_only_what_nobody_else_resets_is_reset() -> None:
    root = "http://127.0.0.1:8100"
    assert registry.get("prime-rl").servers.weights_reset(of_text(TODAY_TEXT), CONTEXT, root) is None
    merged = registry.get("prime-rl-merged")
    lacking = merged.servers.weights_reset(of_text(MERGED_TEXT), CONTEXT, root)
    assert isinstance(lacking, Missing)
    assert "trained weights" in lacking.reason
    call = merged.servers.weights_reset(of_text(MERGED_TEXT.replace("m/x", "./m")), CONTEXT, root)
    assert isinstance(call, ServiceCall)
    assert (call.url, call.body) == (f"{root}/update_weights", {"weight_dir": "/w/m"})


def test_an_address_in_a_config_that_is_none_is_told() -> None:
    configs = of_text(MERGED_TEXT + CLIENT.format("client", '["gpu-2:9000"]'))
    with pytest.raises(ConfigError, match="base_url: not the URL of an inference server: gpu-2:9000"):
        registry.get("prime-rl-merged").servers.addresses(configs)
