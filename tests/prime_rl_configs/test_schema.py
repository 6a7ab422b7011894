"""Our tables of keys and knobs beside the fields of prime-rl's own models."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.prime_rl_configs.conftest import Real

from rltui.core.knobs import Knob
from rltui.frameworks.prime_rl.current.knobs import FOLLOWS, KNOBS
from rltui.frameworks.prime_rl.current.schema import SHAPES
from rltui.frameworks.prime_rl.current.schema_table import Table, Union

pytestmark = pytest.mark.primerl
PASSED_ON = ("inference.vllm.max_num_seqs",)
"""Knobs that are vLLM's alone."""
BY_CIRCUMSTANCES = {"weight_broadcast.type", "rollout_transport.type"}
"""Their defaults follow from other values."""
WORDS = {"model.ep": "auto", "model.quantization.type": None}
"""What stands for our "no value"."""


def described(shape: Table | Union, at: str = "") -> Iterator[tuple[str, str]]:
    """Path, with `<tag>` and `[]` as the worker has them, and what we say of it."""
    if isinstance(shape, Union):
        for tag, member in shape.members.items():
            yield from described(member, f"{at[:-1]}<{tag}>." if len(shape.members) > 1 else at)
        return
    for name in shape.values | shape.free:
        marks = "required " * (name in shape.required) + "nullable" * (name in shape.nullable)
        yield at + name, marks.strip()
    for name, below in shape.tables.items():
        marks = "required " * below.must + "nullable" * below.optional
        yield at + name, marks.strip()
        entries = isinstance(below, Table) and below.entries
        yield from described(below, f"{at}{name}{'[]' if entries else ''}.")


@pytest.mark.parametrize("role", ["rl", "sft"])
def test_keys_are_those_of_the_package(real: Real, role: str) -> None:
    theirs = {
        path: " ".join(mark for mark in ("required", "nullable") if field.get(mark))
        for path, field in real.fields(role).items()
        if not re.search(r"renderer(<[^>]*>)?\.", path) and not path.endswith(".rope_scaling")
    }
    ours = {path: marks for path, marks in described(SHAPES[role])
            if not re.search(r"renderer\.", path) and not path.endswith(".rope_scaling")}  # fmt: skip
    assert len(theirs) > 300
    assert ours == theirs


def expected(knob: Knob) -> object:
    """Our default, or that of the table when it is there."""
    for table, keys in FOLLOWS.table.items():
        key = knob.name.removeprefix(f"{table}.")
        if knob.name.startswith(f"{table}.") and key in keys:
            return keys[key]
    return knob.default


@pytest.mark.parametrize("role", ["rl", "sft"])
def test_defaults_are_those_of_the_package(real: Real, role: str) -> None:
    theirs: dict[str, list[object]] = {}
    for path, field in real.fields(role).items():
        theirs.setdefault(re.sub(r"<[^>]*>", "", path), []).append(field["default"])
    compared = 0
    for knob in KNOBS:
        if knob.file != role or knob.key in PASSED_ON or knob.key in BY_CIRCUMSTANCES:
            continue
        word = next((word for end, word in WORDS.items() if knob.key.endswith(end)), ...)
        assert knob.key in theirs, knob.name
        if word is ...:
            assert expected(knob) in theirs[knob.key], knob.name
        else:
            assert expected(knob) is None
            assert word is None or word in theirs[knob.key], knob.name
        compared += 1
    assert compared > 120
