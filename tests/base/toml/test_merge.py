"""Texts merged as programs merge their files: the data is right, the comments are still there."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltui.base.toml.edit import edit
from rltui.core.config.data import changed_keys, deep_leaves
from rltui.core.config.merge import merge_texts, nest_in_table, with_table, without_key

BASE = """\
# how long
max_steps = 20  # few

[orchestrator]
batch_size = 128  # rollouts
rollouts_per_example = 16

# one of them
[[orchestrator.env]]
id = "reverse-text"
"""
OVERLAY = """\
max_steps = 5
[orchestrator]
batch_size = 64  # less

# two of them
[[orchestrator.env]]
id = "a"
[[orchestrator.env]]
id = "b"

# tracked
[wandb]
project = "p"  # here
"""


def test_tables_are_merged_key_by_key_and_lists_replaced() -> None:
    text = merge_texts(BASE, OVERLAY, deep=True)
    assert tomllib.loads(text) == {
        "max_steps": 5,
        "orchestrator": {"batch_size": 64, "rollouts_per_example": 16, "env": [{"id": "a"}, {"id": "b"}]},
        "wandb": {"project": "p"},
    }
    for comment in ("# how long", "# few", "# rollouts", "# two of them", "# tracked", "# here"):
        assert comment in text
    assert "# one of them" not in text


def test_a_later_table_takes_the_place_of_a_whole_one() -> None:  # prime-rl until March 2026
    text = merge_texts(BASE, OVERLAY, deep=False)
    assert tomllib.loads(text)["orchestrator"] == {"batch_size": 64, "env": [{"id": "a"}, {"id": "b"}]}
    assert "# less" in text
    assert "# few" in text


@pytest.mark.parametrize(
    ("base", "overlay"),
    [
        ("a = 1\n", "[a]\nb = 2\n"),
        ("[a]\nb = 2\n[a.c]\nd = 1\n", "a = 1\n"),
        ("a = { b = 1, c = 2 }\n", "[a]\nb = 3\n[a.d]\ne = 1\n"),
        ("a.b = 1\na.c = 2\n", "[a]\nb = 3\n"),
        ("[a]\nb = 1\n", "a.b = 2\na.x = [{ y = 1 }]\n"),
        ("", "[a]\n"),
        ("[a]", ""),
        ("[[a]]\nb = 1\n[a.c]\nd = 1\n", "a = []\n"),
        ('["x.y"]\nb = 1\n', '"x.y" = { b = 2 }\n'),
        ("\ufeffa = 1\r\n[b]\r\nc = 1\r\n", "[b]\nc = 2\n[d]\n"),
    ],
)
@pytest.mark.parametrize("deep", [True, False])
def test_however_it_is_written(base: str, overlay: str, deep: bool) -> None:
    _assert_merged(base, overlay, deep=deep)


names = st.sampled_from(["a", "b", "c"])
scalars = st.one_of(
    st.integers(0, 3), st.booleans(), st.just("x # y"), st.lists(st.integers(0, 2), max_size=2)
)
tables = st.recursive(
    st.dictionaries(names, scalars, max_size=3),
    lambda inner: st.dictionaries(names, st.one_of(scalars, inner, st.lists(inner, max_size=2)), max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(tables, tables, st.booleans())
def test_any_two(base: dict[str, Any], overlay: dict[str, Any], deep: bool) -> None:
    _assert_merged(_written(base), _written(overlay), deep=deep)


def _written(data: dict[str, Any]) -> str:
    import tomlkit

    return tomlkit.dumps(data)


def _assert_merged(base: str, overlay: str, *, deep: bool) -> None:
    result = tomllib.loads(merge_texts(base, overlay, deep=deep).removeprefix("\ufeff"))
    expected = _merge(tomllib.loads(base.removeprefix("\ufeff")), tomllib.loads(overlay), deep=deep)
    assert not changed_keys(deep_leaves(result), deep_leaves(expected))


def _merge(base: dict[str, Any], overlay: dict[str, Any], *, deep: bool) -> dict[str, Any]:
    result = dict(base)
    for key, value in overlay.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merge(result[key], value, deep=True) if deep and both else value
    return result


def test_a_file_for_a_table() -> None:
    text = nest_in_table(
        OVERLAY.replace("orchestrator.", "train.").replace("orchestrator", "train"), "orchestrator"
    )
    assert tomllib.loads(text)["orchestrator"]["train"]["env"] == [{"id": "a"}, {"id": "b"}]
    assert tomllib.loads(text)["orchestrator"]["max_steps"] == 5
    assert "# tracked\n[orchestrator.wandb]" in text
    assert tomllib.loads(nest_in_table("", "orchestrator")) == {"orchestrator": {}}


def test_tables_come_and_go() -> None:
    text = with_table(BASE, "ckpt")
    assert tomllib.loads(text)["ckpt"] == {}
    assert with_table(text, "ckpt") == text
    assert tomllib.loads(without_key(BASE, "orchestrator")) == {"max_steps": 20}
    assert tomllib.loads(without_key(edit(BASE, {"a.b": 1}), "a.b"))["orchestrator"]
    assert without_key(BASE, "nothing.here") == BASE
