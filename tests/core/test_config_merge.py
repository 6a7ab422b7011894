from __future__ import annotations

import tomllib

from rltui.core.config_merge import changed_keys, deep_leaves, key_conflicts

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
    found = key_conflicts(base, theirs, yours)
    assert [(each.key, each.base, each.theirs, each.yours) for each in found] == [
        ("both", 1, 2, 4),
        ("gone", 1, None, 2),
    ]
    assert [each.key for each in key_conflicts(None, theirs, yours)] == ["same", "both", "gone"]
