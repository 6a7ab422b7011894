from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.base.toml.documents import VARIANTS, changed, kept, load, scalars, tables

from rltui.base.toml import edit
from rltui.base.toml.values import format_key, format_value, split_key
from rltui.errors import ConfigError


def check_replacement(text: str, path: tuple[str, ...]) -> None:
    new = edit.edit(text, {format_key(path): "§new§"})
    assert load(new) == changed(load(text), path, "§new§")
    start = new.index('"§new§"') if '"§new§"' in new else new.index("'§new§'")
    end = len(new) - start - len('"§new§"')
    assert new[:start] == text[:start]
    assert new[len(new) - end :] == text[len(text) - end :]
    old_value = text[start : len(text) - end]
    assert old_value == old_value.strip()
    tomllib.loads(f"x = {old_value}")


def check_insertion(text: str, path: tuple[str, ...]) -> None:
    new = edit.edit(text, {format_key(path): 7})
    assert load(new) == changed(load(text), path, 7)
    start, end = kept(text, new)
    assert start + end == len(text), "more than one place was touched"
    assert new.count("\n") - text.count("\n") <= 3
    bare_newlines = new.replace("\r\n", "").count("\n")
    if "\r\n" in text:
        assert bare_newlines == text.replace("\r\n", "").count("\n")
    else:
        assert "\r" not in new


def check_removal(text: str, path: tuple[str, ...]) -> None:
    new = edit.edit(text, {format_key(path): None})
    start, end = kept(text, new)
    assert start + end == len(new), "more than one place was touched"
    assert path not in dict(scalars(load(new)))
    assert len(list(scalars(load(new)))) == len(list(scalars(load(text)))) - 1


@pytest.mark.parametrize("name", VARIANTS)
def test_edit_replaces_only_the_bytes_of_the_value(name: str) -> None:
    for path, _ in scalars(load(VARIANTS[name])):
        check_replacement(VARIANTS[name], path)


@pytest.mark.parametrize("name", VARIANTS)
def test_edit_to_the_same_value_changes_nothing(name: str) -> None:
    text = VARIANTS[name]
    for path, value in scalars(load(text)):
        if isinstance(value, bool | int | float | str):
            assert edit.edit(text, {format_key(path): value}) == text


@pytest.mark.parametrize("name", VARIANTS)
def test_absent_keys_are_added_in_one_place(name: str) -> None:
    data = load(VARIANTS[name])
    for table in tables(data):
        check_insertion(VARIANTS[name], (*table, "zz"))
        check_insertion(VARIANTS[name], (*table, "zz", "new table", "leaf"))


@pytest.mark.parametrize("name", VARIANTS)
def test_removing_takes_out_one_place(name: str) -> None:
    for path, _ in scalars(load(VARIANTS[name])):
        if not any(part.isdecimal() for part in path):
            check_removal(VARIANTS[name], path)


@pytest.mark.parametrize("name", VARIANTS)
def test_locate_finds_every_key(name: str) -> None:
    lines = VARIANTS[name].removeprefix("\ufeff").split("\n")
    for path, _ in scalars(load(VARIANTS[name])):
        place = edit.locate(VARIANTS[name], format_key(path))
        assert place is not None
        line, column = place
        if not path[-1].isdecimal() and path[-1] not in ("tab\there", "é"):  # written with an escape
            assert path[-1].split(".")[0].split(" ")[0] in lines[line - 1][column - 1 :]


SECTIONS = st.sampled_from(
    ["k{0} = {1}  # c", "d{0}.a.b = {1}", "\n[t{0}]\nx = {1}", "i{0} = {{ a = {1}, b = {1} }}",
     "\n# above\n[t{0}.sub]\n\n  y={1}", "\n[[arr{0}]]\nz = {1}\n[arr{0}.in]\nq.r = {1}"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["1_000", "1e-5", '"a#b"', "'[x]'", "true", '"""\n[a]\n"""', "1979-05-27 07:32:00", "-0.5"]
)


@settings(max_examples=40)
@given(st.lists(st.tuples(SECTIONS, VALUES), max_size=8), st.booleans(), st.data())
def test_any_document_is_edited_in_place(
    parts: list[tuple[str, str]], crlf: bool, data: st.DataObject
) -> None:
    text = "\n".join(part.format(number, value) for number, (part, value) in enumerate(parts)) + "\n"
    if crlf:
        text = text.replace("\n", "\r\n")
    content = load(text)
    paths = [path for path, _ in scalars(content)]
    if paths:
        check_replacement(text, data.draw(st.sampled_from(paths)))
    check_insertion(text, (*data.draw(st.sampled_from(list(tables(content)))), "zz"))


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("[a]\nx=1\n\n[b]\n", "a.y", 2, "[a]\nx=1\ny=2\n\n[b]\n"),
        ("  [a]\n  x = 1 # c\n", "a.y", True, "  [a]\n  x = 1 # c\n  y = true\n"),
        ("[a]\nx = {}\n", "a.x.y", 2, "[a]\nx = { y = 2 }\n"),
        ("[a]\nx = { z = 1 }\n", "a.x.y", 2, "[a]\nx = { z = 1, y = 2 }\n"),
        ("o.lr = 1\n[b]\n", "o.wd", 2, "o.lr = 1\no.wd = 2\n[b]\n"),
        ("[o]\nb = 1\n\n[z]\n", "o.s.t", 2, "[o]\nb = 1\n\n[o.s]\nt = 2\n\n[z]\n"),
        ("# about\n\n[z]\n", "n", 2, "# about\n\nn = 2\n\n[z]\n"),
        ("", "a.n", 2, "[a]\nn = 2\n"),
        ("x = 'a' # c\n", "x", "b", "x = 'b' # c\n"),
        ("x = 'a'\n", "x", "it's", 'x = "it\'s"\n'),
        ("x = { a = 1, b = 2 }\n", "x.a", None, "x = { b = 2 }\n"),
        ("x = { a = 1, b = 2 }\n", "x.b", None, "x = { a = 1 }\n"),
        ("x = { a = 1 }\n", "x.a", None, "x = {}\n"),
        ("a = 1\nb = 2 # gone\n", "b", None, "a = 1\n"),
    ],
)
def test_edit_examples(before: str, key: str, value: Any, after: str) -> None:
    assert edit.edit(before, {key: value}) == after


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("[a]\nx = 1\n", "a", "a is a table"),
        ("a = { b = 1 }\n", "a", "a is a table"),
        ("a = 1\n", "a.b", "a is not a table"),
        ("[[a]]\nx = 1\n", "a.y.z", "a is an array of 1 table"),
        ("[[a]]\n[[a]]\n", "a.2.y.z", "a is an array of 2 tables"),
    ],
)
def test_edit_refuses_what_is_no_value(text: str, key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        edit.edit(text, {key: 1})


@pytest.mark.parametrize(
    ("value", "text"),
    [(3e-6, "3e-6"), (1e20, "1e20"), (0.5, "0.5"), (True, "true"), (64, "64"), ('a"b\x7f', '"a\\"b\\u007f"')],
)
def test_format_value(value: Any, text: str) -> None:
    assert format_value(value) == text
    assert tomllib.loads(f"x = {text}")["x"] == value


def test_syntax_errors_show_the_place() -> None:
    with pytest.raises(edit.TomlSyntaxError) as caught:
        edit.parse("a = 1\nname = qwen\x1b\n", "rl.toml")
    assert str(caught.value).startswith("rl.toml:2:")
    with pytest.raises(edit.TomlSyntaxError) as caught:
        edit.parse("a = 1\nname = qwen\n", "rl.toml")
    assert (caught.value.line, caught.value.column) == (2, 8)
    assert caught.value.details == ("2 | name = qwen", "           ^")
    assert caught.value.hint == 'text needs quotes: "qwen"'


@pytest.mark.parametrize(
    "text", ["a =", "[a", 'x = "', "a = 1\n\n[b]\nx = [1,\n\n", "x = " + "[" * 5000, "=\r\n"]
)
def test_parse_turns_every_error_into_words(text: str) -> None:
    with pytest.raises(ConfigError, match=r"f\.toml:\d+:\d+: \w"):
        edit.parse(text, "f.toml")


def test_split_key_reads_quotes() -> None:
    assert split_key('a."b.c".0') == ("a", "b.c", "0")
    for wrong in ("", "a.", "a..b", ".a"):
        with pytest.raises(ConfigError):
            split_key(wrong)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]\n# of a\n# too\n\n[b]\n", "[a]\n# of a\n# too\nnew = 1\n\n[b]\n"),
        ("[a]\n# of a\n", "[a]\n# of a\nnew = 1\n"),
        ("[a]\n# of a", "[a]\n# of a\nnew = 1"),
        ("[a]\n# of b\n[b]\n", "[a]\nnew = 1\n# of b\n[b]\n"),
        ("[a] # x\n\n# of b\n[b]\n", "[a] # x\nnew = 1\n\n# of b\n[b]\n"),
        ("[a]\r\n# of a\r\n\r\n[b]\r\n", "[a]\r\n# of a\r\nnew = 1\r\n\r\n[b]\r\n"),
    ],
)
def test_a_new_key_comes_below_the_tables_own_comment(before: str, after: str) -> None:
    """Finding C4."""
    assert edit.edit(before, {"a.new": 1}) == after


LINES = """\
x = [
    1, # one
    2,

    # about three
    3  # no comma
] # end
"""


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("x = [1, 2]\n", [1, 3], "x = [1, 3]\n"),
        ("x = [ 1,2 ] # c\n", [1, 2, 3], "x = [ 1,2, 3 ] # c\n"),
        ("x = [1, 2, 3]\n", [1, 3], "x = [1, 3]\n"),
        ("x = [1, 2, 3]\n", [1, 2], "x = [1, 2]\n"),
        ("x = [1, 2]\n", [0, 1, 2], "x = [0, 1, 2]\n"),
        ("x = [1]\n", [], "x = []\n"),
        ("x = []\n", ["a", True], 'x = ["a", true]\n'),
        ("x = ['a', 'b']\n", ["a", "c"], "x = ['a', 'c']\n"),
        ("x = [1.0, 2.0]\n", [1.0, 3e-6], "x = [1.0, 3e-6]\n"),
        ("x = [[1, 2], [3]]\n", [[1, 2], [4]], "x = [[1, 2], [4]]\n"),
        (LINES, [1, 5, 3], LINES.replace("2,", "5,")),
        (LINES, [1, 3], LINES.replace("    2,\n", "")),
        (LINES, [1, 2], LINES.replace("    3  # no comma\n", "")),
        (LINES, [1, 2, 3, 4], LINES.replace("3  # no comma\n", "3,  # no comma\n    4\n")),
        (LINES, [0, 1, 2, 3], LINES.replace("    1, #", "    0,\n    1, #")),
        (LINES, [1, 2, 9, 3], LINES.replace("    2,\n", "    2,\n    9,\n")),
        ("x = [\r\n  1,\r\n]\r\n", [1, 2], "x = [\r\n  1,\r\n  2,\r\n]\r\n"),
        ("x = [ # none yet\n]\n", [1], "x = [1,  # none yet\n]\n"),
    ],
)
def test_a_list_keeps_what_is_equal(before: str, value: list[Any], after: str) -> None:
    assert edit.edit(before, {"x": value}) == after
    assert tomllib.loads(after)["x"] == value


ITEMS = st.lists(st.integers(0, 4), max_size=6)
GAPS = st.sampled_from(["", " ", "\n  ", " # c\n", "\n  # c, ]\n  ", "\n\n"])


@settings(max_examples=50)
@given(ITEMS, ITEMS, st.data())
def test_any_list_becomes_any_other(old: list[int], new: list[int], data: st.DataObject) -> None:
    gaps = [data.draw(GAPS) for _ in range(len(old) + 1)]
    tail = data.draw(st.sampled_from(["", ","])) if old else ""
    text = (
        f"x = [{gaps[0]}{','.join(f'{gap}{item}' for gap, item in zip(gaps[1:], old, strict=True))}{tail}\n]"
    )
    assert tomllib.loads(text)["x"] == old
    edited = edit.edit(text, {"x": new})
    assert tomllib.loads(edited)["x"] == new
    assert all(edited.count(word) <= text.count(word) for word in ("#", "c"))


def test_removing_an_element_minds_comments() -> None:
    assert edit.edit("x = [1, # c\n 2]\n", {"x.1": None}) == "x = [1, # c\n ]\n"
