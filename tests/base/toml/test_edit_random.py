"""Random edits of every document there is: `tomllib` sees what was meant, other bytes stay."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.base.toml.documents import VARIANTS, changed, kept, load, long_document, scalars, tables

from rltui.base.toml import edit
from rltui.base.toml.values import format_key, format_value, read_value, same_value, split_key
from rltui.core.config.data import changed_keys, deep_leaves

WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""A chain of edits takes minutes to shrink, and says enough as it is."""
EDITS_EACH = 10
"""Edits one after the other in each example."""
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["a\nb", '"""', "'''", "x'", '\\n"', "\r\n", "\n\n", "tab\t", "\\", '"']
)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    TEXT,
    st.just(datetime.date(2026, 1, 31)),
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=5), st.lists(st.lists(st.integers(), max_size=2), max_size=3)
)
NEW_KEYS = st.sampled_from(["zz", "new key", "a.b", "ключ", "x-1", ""])


def lists(data: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Lists without tables, outermost only."""
    result = []
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, list) and not any(isinstance(item, dict) for item in value):
            result.append((*path, str(key)))
        elif isinstance(value, dict | list):
            result.extend(lists(value, (*path, str(key))))
    return result


def differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Keys with another value. Tables without keys do not count: a dotted one goes with its last key. Nor do
    `1` and `1.0`, of which the file keeps its own."""
    changes = changed_keys(deep_leaves(one), deep_leaves(other))
    return {
        key: pair
        for key, pair in changes.items()
        if any(side not in (None, {}) for side in pair) and not alike(*pair)
    }


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def edit_once(text: str, data: st.DataObject) -> str:
    """One random edit of a document, checked."""
    content = load(text)
    paths = [path for path, _ in scalars(content)] + lists(content)
    kind = data.draw(st.sampled_from(["replace", "replace", "add", "add below", "remove"]))
    if kind in ("replace", "remove") and not paths:
        return text
    if kind.startswith("add"):
        table = data.draw(st.sampled_from(list(tables(content))))
        path = (*table, data.draw(NEW_KEYS))
        at: Any = content
        for key in table:
            at = at[int(key)] if isinstance(at, list) else at[key]
        if path[-1] in at:
            return text
        path = (*path, "below", "it") if kind == "add below" else path
    else:
        path = data.draw(st.sampled_from(paths))
    value = None if kind == "remove" else data.draw(VALUES)
    new = edit.edit(text, {format_key(path): value})
    expected = changed(content, path, value)
    assert differing(expected, load(new)) == {}
    start, end = kept(text, new)
    if kind.startswith("add"):
        assert start + end >= len(text), "something else was touched"
    elif kind == "remove":
        assert start + end >= len(new) or path[-1].isdecimal(), "something else was touched"
    return new


def edit_often(name: str, data: st.DataObject) -> None:
    text = VARIANTS[name]
    for _ in range(EDITS_EACH):
        before, text = text, edit_once(text, data)
        back = {
            key: old
            for key, (old, _) in changed_keys(deep_leaves(load(before)), deep_leaves(load(text))).items()
        }
        if not any(part.isdecimal() for key in back for part in split_key(key)):
            assert differing(load(before), load(edit.edit(text, back))) == {}


@pytest.mark.slow
@settings(max_examples=30, phases=WITHOUT_SHRINKING, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(VARIANTS)), st.data())
def test_random_edits_do_what_was_meant(name: str, data: st.DataObject) -> None:
    edit_often(name, data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=1000, phases=WITHOUT_SHRINKING, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(VARIANTS)), st.data())
def test_ten_thousand_random_edits_do_what_was_meant(name: str, data: st.DataObject) -> None:
    edit_often(name, data)


@settings(max_examples=60)
@given(VALUES, st.sampled_from(['"""\nx\n"""', "'''x'''", "'x'", '"x"', "", '"""\r\nx"""']))
def test_any_value_survives_its_spelling(value: Any, replaces: str) -> None:
    assert same_value(read_value(format_value(value, replaces=replaces)), value)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_long_document_changes_in_one_place(newline: str) -> None:
    text = long_document(5000).replace("\n", newline)
    assert text.count(newline) == 5000
    for key, value in (("table399.key", 7), ("table0.sub.list", [1, 5]), ("table200.sub.text", "a\nb")):
        new = edit.edit(text, {key: value})
        assert load(new) == changed(load(text), split_key(key), value)
        start, end = kept(text, new)
        assert len(text) - start - end <= 30
