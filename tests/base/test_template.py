"""Placeholders in layouts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rltui.base.template import Missing, TemplateValue, placeholders, render, render_arguments
from rltui.errors import ConfigError

VALUES: Mapping[str, TemplateValue] = {
    "run": ("uv", "run"),
    "none": (),
    "port": "8000",
    "config.env.train.a/B+c": "/f",
    "gone": Missing("x", "y"),
}


def test_names_of_instances_may_have_capitals_and_signs() -> None:
    assert render("{config.env.train.a/B+c}", VALUES, where="w") == "/f"


def test_tuple_alone_is_spliced_in() -> None:
    assert render_arguments(("{run}", "rl", "{none}"), VALUES, where="w") == ("uv", "run", "rl")
    with pytest.raises(ConfigError, match="several arguments"):
        render("x{run}", VALUES, where="w")


def test_braces_of_other_kinds_stay() -> None:
    assert render('{"a": 1} {} { port }', VALUES, where="w") == '{"a": 1} {} { port }'


def test_missing_value_says_why_and_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"w: no value for \{gone\}: x") as caught:
        render("{gone}", VALUES, where="w")
    assert caught.value.hint == "y"


def test_placeholders_of_all_texts() -> None:
    assert placeholders(("{run}", "a{port}{config.rl}", "{ no }")) == {"run", "port", "config.rl"}
