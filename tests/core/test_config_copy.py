"""Edited copies of a config for programs."""

from __future__ import annotations

from rltui.core.config_copy import edited, replaced


def test_edited_sets_removes_and_leaves_the_original() -> None:
    data = {"a": {"b": 1, "c": 2}, "resume": {"step": 3}, "list": [{"x": 1}]}
    result = edited(data, {"a.b": 5, "a.c": None, "resume": None, "new.table.key": True, "none.here": None})
    assert result == {"a": {"b": 5}, "list": [{"x": 1}], "new": {"table": {"key": True}}}
    assert data["resume"] == {"step": 3}


def test_edited_removes_first_so_that_a_table_can_be_written_anew() -> None:
    data = {"weight_broadcast": {"type": "nccl", "port": 1}}
    result = edited(data, {"weight_broadcast.type": "filesystem", "weight_broadcast": None})
    assert result == {"weight_broadcast": {"type": "filesystem"}}


def test_edited_makes_a_table_of_what_is_none() -> None:
    assert edited({"inference": "None"}, {"inference.port": 1}) == {"inference": {"port": 1}}


def test_replaced_goes_through_everything_longest_first() -> None:
    data = {"dir": "/s/out/run", "list": ["/s/out", 3, {"deep": "at /s/out/run/x"}], "none": None}
    assert replaced(data, {"/s/out": "/real", "/s/out/run": "/real/here"}) == {
        "dir": "/real/here",
        "list": ["/real", 3, {"deep": "at /real/here/x"}],
        "none": None,
    }
