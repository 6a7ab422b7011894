from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.grammar import Grammar
from rltui.frameworks.lax_values import as_read
from rltui.frameworks.rules import Checks, Rule

INT = Knob("size", "int", ("t",), "Size.", 1, minimum=1)
FLOAT = Knob("lr", "float", ("t",), "Rate.", 1.0)
BOOL = Knob("on", "bool", ("t",), "Switch.", default=False)
STEPS = Knob("steps", "int", ("t",), "Steps.", 5, nullable=True, minimum=1)
CHECKS = Checks(
    {"rl": Grammar("it", ("size", "lr", "on", "steps"))},
    (INT, FLOAT, BOOL, STEPS), lambda files: {}, (), lax=True, none="None",
)  # fmt: skip


@pytest.mark.parametrize(
    ("knob", "value", "read"),
    [
        (INT, "128", 128), (INT, 128.0, 128), (INT, "1.5", None), (INT, 1.5, None), (INT, "0", None),
        (INT, float("inf"), None), (INT, "many", None), (INT, [], None),
        (FLOAT, "1e-6", 1e-6), (FLOAT, "nan", None),
        (INT, " 128.0 ", 128), (INT, "1_000", 1000), (INT, "1e3", None), (INT, True, 1), (FLOAT, True, 1.0),
        (BOOL, "yes", True), (BOOL, 0, False), (BOOL, "maybe", None), (BOOL, 2, None), (BOOL, 0.5, None),
    ],
)  # fmt: skip
def test_as_read_is_what_pydantic_makes_of_it(knob: Knob, value: Any, read: Any) -> None:
    assert as_read(knob, value) == read


@pytest.mark.parametrize(
    ("data", "severities"),
    [
        ({"size": "128"}, ["warning"]),
        ({"size": "x"}, ["error"]),
        ({"size": "None"}, ["error"]),
        ({"steps": "None"}, []),
    ],
)
def test_odd_values_are_told_by_what_becomes_of_them(data: dict[str, Any], severities: list[str]) -> None:
    files = {"rl": ConfigFile("rl", "/rl.toml", data)}
    assert [problem.severity for problem in CHECKS(files)] == severities


def test_the_word_for_no_value_is_none_not_the_default() -> None:
    assert CHECKS.values({"rl": ConfigFile("rl", "/rl.toml", {"steps": "None"})})["steps"] is None
    assert CHECKS.values({"rl": ConfigFile("rl", "/rl.toml", {})})["steps"] == 5


def test_rules_see_what_is_read() -> None:
    checks = replace(
        CHECKS, rules=(Rule("size", ("size",), lambda v: "large" if v["size"] == 128 else None),)
    )
    found = checks({"rl": ConfigFile("rl", "/rl.toml", {"size": "128"})})
    assert [(problem.severity, problem.message) for problem in found] == [
        ("warning", "size is read as 128: write it so"),
        ("error", "large"),
    ]
