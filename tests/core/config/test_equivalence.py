from __future__ import annotations

from rltui.core.config.equivalence import Moved, Resolved, equivalence
from rltui.core.config.report import ValueDifference
from rltui.views.equivalence import equivalence_lines

NOT_PROVEN = "; not proven by the models of both releases"


def test_every_value_is_the_same_or_named() -> None:
    before = Resolved({}, "spring", is_own=True)
    after = Resolved(
        {"a": 1, "b": {"c": 2.0, "on": {"x": 1}}, "off": None, "flag": True, "new": 3, "key": "hf_secret"},
        "/autumn",
        is_own=True,
    )
    moved = [
        Moved("old.a", "a", 1, 1),
        Moved("c", "b.c", 2, 2),
        Moved("on", "b.on", None, None),
        Moved("off.depth", "off.depth", 3, 3),
        Moved("nothing", "nowhere", None, None),
        Moved("flag", "flag", 1, 1),
        Moved("lost", None, "x", "x"),
        Moved("unset", None, 5, 5),
        Moved("kept", "kept", 7, 7),
    ]
    found = equivalence(before, after, moved, {"lost", "flag", "kept"})
    assert (found.equal, found.is_proven) == (2, True)
    assert [(item.key, item.to, item.before, item.after, item.is_set) for item in found.different] == [
        ("on", "b.on", "none", "a table", False),
        ("off.depth", "off.depth", "3", "none", False),
        ("flag", "flag", "1", "true", True),
    ]
    assert found.gone == (
        ValueDifference(key="lost", before='"x"', is_set=True),
        ValueDifference(key="kept", to="kept", before="7", is_set=True),
    )
    assert equivalence_lines(found) == [
        "meaning: 2 values are the same, 3 different, 2 without successor, by spring and /autumn",
        "  on → b.on: default none before, a table now",
        "  off.depth: default 3 before, none now",
        "  flag: 1 before, true now",
        "  kept = 7: no successor",
    ]
    assert "  on →" not in "".join(equivalence_lines(found, told=["b.on", "flag"]))


def test_what_a_schema_cannot_tell_is_not_proven() -> None:
    before = Resolved({}, "spring", is_own=True)
    after = Resolved({"a": 1, "any": {"x": 1}}, "a schema", is_own=False, unknown=frozenset({"any"}))
    moved = [Moved("a", "a", 1, 1), Moved("any.x", "any.x", 1, 1), Moved("set", "set", 2, 2)]
    found = equivalence(before, after, moved, {"a", "any.x", "set"})
    assert (found.equal, found.unproven, found.is_proven) == (1, ("any.x", "set"), False)
    assert equivalence_lines(found) == [
        "meaning: 1 value is the same, 2 not compared, by spring and a schema" + NOT_PROVEN,
        "  not compared: any.x, set",
    ]
    same = equivalence(before, after, moved[:1], {"a"})
    assert equivalence_lines(same)[0].startswith("same meaning: 1 value is the same, by spring")
