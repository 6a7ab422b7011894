"""What a layout says of readers, ports and progress, where no framework does (G7)."""

from __future__ import annotations

from typing import Any

import pytest

from rltui.core.config.knobs import Knob
from rltui.core.experiment.layout import Layout
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.generic import COMPLETED, FIRST_PORT, GENERIC
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, RunContext
from rltui.frameworks.plain_knobs import added_knob, other_knobs
from rltui.frameworks.tinyrl import TINYRL

FILES: ConfigFiles = {"run": ConfigFile("run", "run.toml", {"lr": 1e-3, "serve": {"len": 8, "tp": 1}}, {})}


def generic(*components: dict[str, Any]) -> Framework:
    known = [{"command": ["x"], **component} for component in components]
    return GENERIC.fitted(Layout.model_validate({"component": known}))


def readers(framework: Framework) -> dict[str, tuple[str, ...]]:
    return {knob.name: knob.readers for knob in framework.config.knobs(FILES)}


def test_without_a_word_every_component_reads_all() -> None:
    by_key = readers(generic({"id": "serve"}, {"id": "train"}))
    assert set(by_key.values()) == {("serve", "train")}


def test_the_file_that_a_command_names_tells_who_reads_it() -> None:
    by_key = readers(generic({"id": "serve"}, {"id": "train", "command": ["t", "{config.run}"]}))
    assert set(by_key.values()) == {("train",)}


def test_reads_names_tables_and_keys() -> None:
    framework = generic(
        {"id": "serve", "reads": ["serve"], "command": ["s", "{config.run}"]},
        {"id": "train", "reads": ["lr", "serve.len"]},
        {"id": "eval", "reads": []},
        {"id": "all", "reads": ["run"]},
    )
    assert readers(framework) == {
        "lr": ("train", "all"),
        "serve.len": ("serve", "train", "all"),
        "serve.tp": ("serve", "all"),
    }


def test_every_port_that_is_named_gets_a_number() -> None:
    framework = generic(
        {"id": "serve", "command": ["s", "--port", "{port.serve}"], "port": "{port.serve}"},
        {"id": "train", "env": {"URL": "http://{host.serve}:{port.serve}", "STORE": "{port.store}"}},
    )
    context = RunContext("/w", "/o", "/o", "one", "python", overrides={"port.store": 9000})
    values = framework.launch.template_values(FILES, context)
    assert (values["port.serve"], values["port.store"]) == (str(FIRST_PORT), "9000")
    assert values["host.serve"] == "127.0.0.1"
    assert [item.knob for item in framework.launch.ports(FILES)] == ["port.serve", "port.store"]


def test_lines_become_rows() -> None:
    framework = generic(
        {"id": "roll", "progress": [r"step (?P<step>\d+): reward (?P<reward>\S+)"]},
        {"id": "train", "progress": [r"^done (?P<step>\d+) loss=(?P<loss>\S+)(?: norm=(?P<norm>\S+))?"]},
    )
    progress = framework.progress
    assert progress.log_row("roll", "step 3: reward 0.5") == {"step": 3, progress.names.reward: 0.5}
    assert progress.log_row("train", "done 3 loss=0.25") == {"step": 3, COMPLETED: 3, "loss/mean": 0.25}
    row = progress.log_row("train", "done 3 loss=nan norm=1.5")
    assert row is not None
    assert row["norm"] == 1.5
    for line in ("other", "done x", f"done {'7' * 65_000} loss=1", "x" * 65_000 + "done 3 loss=1"):
        assert progress.log_row("train", line) is None
    assert progress.log_row("other", "done 3 loss=0.25") is None
    assert {(fact.component, fact.template) for fact in progress.facts} == {
        ("train", "step {:.0f}"),
        ("train", "loss {:.3f}"),
        ("roll", "reward {:.3f}"),
    }


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [("(", "invalid regular expression"), ("step", "has no group")],
    ids=["broken", "step"],
)
def test_patterns_that_tell_no_step_are_refused(pattern: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        generic({"id": "roll", "progress": [pattern]})


def test_other_frameworks_know_better() -> None:
    layout = Layout.model_validate({"component": [{"id": "a", "command": ["x"]}]})
    assert TINYRL.fitted(layout) is TINYRL


def test_generic_makes_every_scalar_a_knob() -> None:
    data = {"lr": 1.0, "max_steps": 5, "list": [1], "a": {"b": {"on": True, "x.y": "z"}}}
    files = {"my-run": ConfigFile("my-run", "/c/My Run.toml", data)}
    assert GENERIC.config.role("/c/My Run.toml", data) == "my-run"
    knobs = {knob.name: knob.kind for knob in GENERIC.config.knobs(files)}
    assert knobs == {"lr": "float", "max_steps": "int", "a.b.on": "bool", 'a.b."x.y"': "str"}
    assert GENERIC.run.max_steps(files) == 5
    values = GENERIC.launch.template_values(files, RunContext("/w", "/o", "/py"))
    assert values["config.my-run"] == "/c/My Run.toml"


def test_generic_names_the_file_where_there_are_several() -> None:
    files = {name: ConfigFile(name, f"/c/{name}.toml", {"lr": 1}) for name in ("a", "b")}
    assert [knob.name for knob in GENERIC.config.knobs(files)] == ["a.lr", "b.lr"]


KNOBS = (
    Knob("orchestrator.batch_size", "int", ("orchestrator",), ""),
    Knob("orchestrator.names", "list", ("orchestrator", "env"), ""),
    Knob("trainer.lr", "float", ("trainer",), ""),
    Knob("data.batch_size", "int", ("sft",), "", file="sft", namespace="sft"),
)


def holding(**data: dict[str, Any]) -> ConfigFiles:
    return {role: ConfigFile(role, f"/{role}.toml", content) for role, content in data.items()}


def test_other_keys_have_the_kind_of_their_value_and_readers_of_their_table() -> None:
    configs = holding(
        rl={
            "orchestrator": {"batch_size": 1, "names": [{"x": 1}], "env": [{"id": "a"}], "on": True},
            "trainer": {"deep": {"x": 1.5}},
            "top": [1],
        },
        sft={"data": {"seed": 1}},
    )
    assert [(knob.name, knob.kind, knob.readers) for knob in other_knobs(configs, KNOBS)] == [
        ("orchestrator.env.0.id", "str", ("orchestrator", "env")),
        ("orchestrator.on", "bool", ("orchestrator", "env")),
        ("trainer.deep.x", "float", ("trainer",)),
        ("top", "list", ("orchestrator", "env", "trainer")),
        ("sft.data.seed", "int", ("sft",)),
    ]


def test_an_added_key_goes_to_the_file_that_its_name_says() -> None:
    configs = holding(rl={}, sft={})
    assert (added_knob("sft.seed", 5, configs, KNOBS).file, added_knob("a.b", "x", configs, KNOBS).file) == (
        "sft",
        "rl",
    )
    assert added_knob("a.b", "x", configs, KNOBS).kind == "str"
    with pytest.raises(ConfigError, match="table"):
        added_knob("a", {}, configs, KNOBS)
    with pytest.raises(ConfigError, match="several files") as caught:
        added_knob("seed", 1, holding(one={}, two={}), ())
    assert caught.value.hint == "use one.seed or two.seed"
