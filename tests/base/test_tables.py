"""Tables of a file: values and faults are those of pydantic, whose words people know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from rltui.base.tables import TableError, TomlTable, list_of_texts, toml_key

Word = Annotated[str, toml_key(pattern=r"^[a-z]+$")]


class Inner(TomlTable):
    number: int = toml_key(default=3, at_least=1, at_most=1000)
    share: float = toml_key(default=0.5, above=0, below=1, is_finite=True)


class Outer(TomlTable):
    id: Word
    words: tuple[Word, ...] = toml_key(least=1)
    name: str = toml_key(default="x", least=1)
    flag: bool = True
    strict: bool = toml_key(default=True, is_strict=True)
    kind: Literal["service", "job"] = "job"
    pause: float | None = toml_key(default=None, above=0)
    pair: tuple[float, float] = (1.0, 2.0)
    env: dict[str, str] = toml_key(default={})
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    by_name: Mapping[str, Inner] = toml_key(default={})
    maybe: Inner | None = None


class InnerPeer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    number: int = Field(default=3, ge=1, le=1000)
    share: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)


WordPeer = Annotated[str, Field(pattern=r"^[a-z]+$")]


class OuterPeer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    id: WordPeer
    words: tuple[WordPeer, ...] = Field(min_length=1)
    name: str = Field(default="x", min_length=1)
    flag: bool = True
    strict: StrictBool = True
    kind: Literal["service", "job"] = "job"
    pause: float | None = Field(default=None, gt=0)
    pair: tuple[float, float] = (1.0, 2.0)
    env: dict[str, str] = Field(default={})
    inner: InnerPeer = InnerPeer()
    inners: tuple[InnerPeer, ...] = ()
    by_name: Mapping[str, InnerPeer] = Field(default={})
    maybe: InnerPeer | None = None


ANY: tuple[object, ...] = (
    True, False, 0, 1, 2, -1, 5000, 0.0, 0.5, 1.0, 2.5, -3.5, math.nan, math.inf,
    "", "a", "B", "7", " 7 ", "1.5", "nan", "true", "Off", "yes", "service", [], ["a"], ["a", "B"],
    ["a", 1], [1, 2], [1, 2, 3], [0.5], ["1", "x"],
    {}, {"a": "b"}, {"a": 1}, {"number": 7}, {"number": 0, "share": 2}, {"numbr": 1}, [{"share": 1}], [{}, 3],
    {"a": {"number": "x"}}, {"a": {}, "b": 5},
)  # fmt: skip
SOUND: Mapping[str, object] = {"id": "a", "words": ["a"]}


def ours(document: object) -> object:
    try:
        return Outer.parse(document).to_plain()
    except TableError as error:
        return [
            (fault.location, "unknown" if fault.kind == "unknown" else fault.text) for fault in error.faults
        ]


def peers(document: object) -> object:
    """Without faults that only follow from another one further inside."""
    words = {"extra_forbidden": "unknown", "missing": "is missing"}
    try:
        return OuterPeer.model_validate(document).model_dump()
    except ValidationError as error:
        faults = {
            detail["loc"]: words.get(detail["type"], detail["msg"][0].lower() + detail["msg"][1:])
            for detail in error.errors()
        }
    places = [(place, other) for place in faults for other in faults if len(place) < len(other)]
    outer = {place for place, other in places if other[: len(place)] == place}
    return [(place, text) for place, text in faults.items() if place not in outer]


def in_our_words(faults: object) -> object:
    """Peers name the class, and a mapping is a table to us."""
    text = repr(faults).replace("InnerPeer", "Inner").replace("OuterPeer", "Outer")
    return text.replace("valid mapping", "valid dictionary")


@pytest.mark.parametrize("field", Outer.fields())
def test_a_value_is_read_and_refused_as_by_pydantic(field: str) -> None:
    for value in ANY:
        document = {**SOUND, field: value}
        assert in_our_words(ours(document)) == in_our_words(peers(document)), document


def test_all_faults_are_told() -> None:
    document: dict[str, Any] = {
        "words": [], "kind": "x", "inner": {"number": 0, "shre": 1}, "inners": [{}, {"share": 9}], "other": 1,
    }  # fmt: skip
    assert in_our_words(ours(document)) == in_our_words(peers(document))
    assert in_our_words(ours(7)) == in_our_words(peers(7))


def test_a_table_knows_which_keys_were_given_and_does_not_change() -> None:
    table = Outer(id="a", words=("b",), inner=Inner(number=7))
    assert table.keys_given == {"id", "words", "inner"}
    assert table.to_plain(only_given=True) == {"id": "a", "words": ("b",), "inner": {"number": 7}}
    assert table.replace(name="y").keys_given == {"id", "words", "inner", "name"}
    assert table == Outer.parse({"id": "a", "words": ["b"], "inner": {"number": "7"}, "kind": "job"})
    with pytest.raises(AttributeError, match=r"Outer.name cannot be changed"):
        table.name = "z"  # type: ignore[misc]
    with pytest.raises(TableError, match="kind: input should be 'service' or 'job'"):
        table.with_changes(kind="x")


class Checked(TomlTable):
    first: int = toml_key(default=1, check=abs)
    words: tuple[str, ...] = toml_key(default=(), read=list_of_texts("ssh"))

    def validate(self) -> None:
        if self.first > 9:
            raise ValueError("first is too large")


def test_rules_of_a_class_are_asked_for_what_is_given() -> None:
    assert Checked(first=-3).first == 3
    with pytest.raises(TableError, match=r"^first is too large$"):
        Checked(first=-10)
    with pytest.raises(TableError, match=r'^words: must be a list: \["ssh", "box"\]$'):
        Checked.parse({"words": "box", "first": 10})
