from __future__ import annotations

from typing import Any

import pytest

from rltui.core.knobs import Knob
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.generic import added_knob, other_knobs

KNOBS = (
    Knob("orchestrator.batch_size", "int", ("orchestrator",), ""),
    Knob("orchestrator.names", "list", ("orchestrator", "env"), ""),
    Knob("trainer.lr", "float", ("trainer",), ""),
    Knob("data.batch_size", "int", ("sft",), "", file="sft", namespace="sft"),
)


def files(**data: dict[str, Any]) -> ConfigFiles:
    return {role: ConfigFile(role, f"/{role}.toml", content) for role, content in data.items()}


def test_other_keys_have_the_kind_of_their_value_and_readers_of_their_table() -> None:
    held = files(
        rl={
            "orchestrator": {"batch_size": 1, "names": [{"x": 1}], "env": [{"id": "a"}], "on": True},
            "trainer": {"deep": {"x": 1.5}},
            "top": [1],
        },
        sft={"data": {"seed": 1}},
    )
    assert [(knob.name, knob.kind, knob.readers) for knob in other_knobs(held, KNOBS)] == [
        ("orchestrator.env.0.id", "str", ("orchestrator", "env")),
        ("orchestrator.on", "bool", ("orchestrator", "env")),
        ("trainer.deep.x", "float", ("trainer",)),
        ("top", "list", ("orchestrator", "env", "trainer")),
        ("sft.data.seed", "int", ("sft",)),
    ]


def test_an_added_key_goes_to_the_file_that_its_name_says() -> None:
    held = files(rl={}, sft={})
    assert (added_knob("sft.seed", 5, held, KNOBS).file, added_knob("a.b", "x", held, KNOBS).file) == (
        "sft",
        "rl",
    )
    assert added_knob("a.b", "x", held, KNOBS).kind == "str"
    with pytest.raises(ConfigError, match="table"):
        added_knob("a", {}, held, KNOBS)
    with pytest.raises(ConfigError, match="several files") as caught:
        added_knob("seed", 1, files(one={}, two={}), ())
    assert caught.value.hint == "write one.seed or two.seed"
