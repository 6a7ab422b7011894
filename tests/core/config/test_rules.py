"""Rules between knobs, as their makers make them."""

from __future__ import annotations

from rltui.core.config.rules import bad_if, when


def test_a_rule_says_what_is_wrong_where_its_condition_holds() -> None:
    rule = bad_if(lambda v: v["a"] > v["b"], "a", ["b"], lambda v: f"{v['a']} is more", "warning")
    assert (rule.key, rule.needs, rule.severity) == ("a", ("a", "b"), "warning")
    assert rule.fault({"a": 2, "b": 1}) == "2 is more"
    assert rule.fault({"a": 1, "b": 1}) is None
    only = when(rule, lambda v: v["c"], also=["c"])
    assert only.needs == ("a", "b", "c")
    assert only.fault({"a": 2, "b": 1, "c": False}) is None
    assert only.fault({"a": 2, "b": 1, "c": True}) == "2 is more"
