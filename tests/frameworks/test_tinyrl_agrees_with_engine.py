"""The framework's table and rules against the engine's own models, which really read the file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from rltui.core import tomldoc
from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.tinyrl import TINYRL
from rltui.frameworks.tinyrl.environments import ENV
from rltui.tinyrl.config import RlConfig
from rltui.tinyrl.config_file import nested_model
from rltui.tinyrl.sft_config import SftConfig

MODELS: dict[str, type[BaseModel]] = {"rl": RlConfig, "sft": SftConfig}
BASE = {"rl": "[orchestrator]\nrollouts_per_example = 8\n\n[ckpt]\n", "sft": "[data]\nbatch_size = 64\n"}
NOT_KNOBS = {"output_dir", ENV}


def engine_fields(model: type[BaseModel], prefix: str = "") -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        inner = nested_model(info.annotation)
        if inner is None or prefix + name == ENV:
            found[prefix + name] = info
        else:
            found |= engine_fields(inner, f"{prefix}{name}.")
    return found


@pytest.mark.parametrize("role", MODELS)
def test_the_table_lists_the_keys_of_the_engine(role: str) -> None:
    keys = {knob.key for knob in TINYRL.knobs if knob.file == role}
    assert keys | (NOT_KNOBS if role == "rl" else {"output_dir"}) == set(engine_fields(MODELS[role]))


FILLED = {
    "orchestrator.seq_len",
    "trainer.model.seq_len",
    "orchestrator.max_async_level",
    "trainer.max_async_level",
}


@pytest.mark.parametrize("knob", TINYRL.knobs, ids=lambda knob: knob.name)
def test_the_table_has_the_defaults_of_the_engine(knob: Knob) -> None:
    default = engine_fields(MODELS[knob.file])[knob.key].get_default(call_default_factory=True)
    if knob.key in FILLED or knob.key == "orchestrator.batch_size":
        assert default is None
    else:
        assert knob.default == default


def engine_accepts(role: str, text: str) -> bool:
    try:
        MODELS[role].model_validate(tomllib.loads(text))
    except ValidationError:
        return False
    return True


def framework_accepts(role: str, text: str) -> bool:
    files = {"rl": ConfigFile("rl", "/rl.toml", {})}
    files[role] = ConfigFile(role, f"/{role}.toml", tomllib.loads(text))
    return not any(problem.severity == "error" for problem in TINYRL.check(files))


def values_around(knob: Knob) -> list[Any]:
    match knob.kind:
        case "int":
            return [-2, -1, 0, 1, 2, 3, 7, 8, 16, 100, 128, 256, 65535, 65536]
        case "float":
            return [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 10.0]
        case "bool":
            return [True, False]
        case _:
            return ["http://localhost:8000/v1", "http://localhost:9000/v1"]


@pytest.mark.parametrize("knob", TINYRL.knobs, ids=lambda knob: knob.name)
def test_one_edit_gets_the_same_verdict(knob: Knob) -> None:
    for value in values_around(knob):
        if knob.kind == "str" and knob.key != "orchestrator.client.base_url":
            continue
        text = tomldoc.edit(BASE[knob.file], {knob.key: value})
        assert framework_accepts(knob.file, text) == engine_accepts(knob.file, text), text


BATCHING = [
    knob for knob in TINYRL.knobs
    if knob.name.startswith(("orchestrator.", "seq_len", "trainer.model", "inference.model", "max_async"))
    and knob.kind in ("int", "float")
]  # fmt: skip


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from(BATCHING), st.sampled_from([1, 2, 8, 12, 16, 64, 128, 256]), max_size=5)
)
def test_several_edits_get_the_same_verdict(edits: dict[Knob, int]) -> None:
    text = tomldoc.edit(BASE["rl"], {knob.key: value for knob, value in edits.items()})
    assert framework_accepts("rl", text) == engine_accepts("rl", text), text


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].glob("examples/**/*.toml")), ids=lambda path: path.name
)
def test_shipped_examples_are_sound(path: Path) -> None:
    data = tomllib.loads(path.read_text())
    role = TINYRL.roles(str(path), data)
    if role is None:
        pytest.skip("of another framework")
    problems = TINYRL.check({"rl": ConfigFile("rl", "/rl.toml", {}), role: ConfigFile(role, str(path), data)})
    assert [problem for problem in problems if problem.file == str(path)] == []
