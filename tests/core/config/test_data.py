from __future__ import annotations

import tomllib

from rltui.core.config.data import apply_edits, changed_keys, deep_leaves, key_conflicts, replaced

TEXT = """\
seed = 1
[a]
x = [1, 2]
[a."b.c"]
on = true
[[env]]
id = "one"
[[env]]
id = "two"
args = { n = 1 }
[lora]
"""


def test_deep_leaves_go_into_arrays_of_tables() -> None:
    assert deep_leaves(tomllib.loads(TEXT)) == {
        "seed": 1,
        "a.x": [1, 2],
        'a."b.c".on': True,
        "env.0.id": "one",
        "env.1.id": "two",
        "env.1.args.n": 1,
        "lora": {},
    }
    assert deep_leaves({}) == {}


def test_changed_keys_tell_types_apart_and_tables_that_fill_up() -> None:
    before = {"a": 1, "b": float("nan"), "gone": 2, "lora": {}}
    after = {"a": 1.0, "b": float("nan"), "lora.rank": 8, "new": True}
    assert changed_keys(before, after) == {
        "a": (1, 1.0),
        "gone": (2, None),
        "lora.rank": (None, 8),
        "new": (None, True),
    }


def test_a_conflict_needs_both_sides_to_change_a_key_differently() -> None:
    base = {"same": 1, "theirs": 1, "both": 1, "agreed": 1, "gone": 1}
    theirs = {"same": 1, "theirs": 2, "both": 2, "agreed": 3}
    yours = {"same": 5, "both": 4, "agreed": 3, "gone": 2}
    conflicts = key_conflicts(base, theirs, yours)
    assert [(conflict.key, conflict.base, conflict.theirs, conflict.yours) for conflict in conflicts] == [
        ("both", 1, 2, 4),
        ("gone", 1, None, 2),
    ]
    assert [conflict.key for conflict in key_conflicts(None, theirs, yours)] == ["same", "both", "gone"]


def test_edited_sets_removes_and_leaves_the_original() -> None:
    data = {"a": {"b": 1, "c": 2}, "resume": {"step": 3}, "list": [{"x": 1}]}
    result = apply_edits(
        data, {"a.b": 5, "a.c": None, "resume": None, "new.table.key": True, "none.here": None}
    )
    assert result == {"a": {"b": 5}, "list": [{"x": 1}], "new": {"table": {"key": True}}}
    assert data["resume"] == {"step": 3}


def test_edited_removes_first_so_that_a_table_can_be_written_anew() -> None:
    data = {"weight_broadcast": {"type": "nccl", "port": 1}}
    result = apply_edits(data, {"weight_broadcast.type": "filesystem", "weight_broadcast": None})
    assert result == {"weight_broadcast": {"type": "filesystem"}}


def test_edited_makes_a_table_of_what_is_none() -> None:
    assert apply_edits({"inference": "None"}, {"inference.port": 1}) == {"inference": {"port": 1}}


def test_replaced_goes_through_everything_longest_first() -> None:
    data = {"dir": "/s/out/run", "list": ["/s/out", 3, {"deep": "at /s/out/run/x"}], "none": None}
    assert replaced(data, {"/s/out": "/real", "/s/out/run": "/real/here"}) == {
        "dir": "/real/here",
        "list": ["/real", 3, {"deep": "at /real/here/x"}],
        "none": None,
    }
