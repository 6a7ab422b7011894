"""Entries of the journal as people look for them; whatever stands in them."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rltui
from rltui.core.experiment.events import (
    LONGEST_NOTE,
    EventFilter,
    author,
    author_name,
    author_text,
    author_words,
    detail_lines,
    display_kind,
    note_text,
)
from rltui.core.experiment.journal import JournalEntry
from rltui.core.metrics.annotations import AnnotationKind, annotations_of
from rltui.errors import UsageError
from rltui.ui.widgets.event_list import EventItem, EventRows
from rltui.views.event import KINDS

texts = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x07\x00\r\n\t\u202e\u2066\x85[]+-@ ")), max_size=40
)
kinds = st.one_of(st.sampled_from(["edit", "exit", "plan", "resume", "alert", "note", "stall"]), texts)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(texts, some, max_size=3),
    max_leaves=6,
)
data = st.dictionaries(
    st.one_of(
        st.sampled_from(["diff", "stacks", "start", "stop", "severity", "alert", "failed", "took_s"]),
        texts,
    ),
    values,
    max_size=6,
)
entries = st.builds(
    JournalEntry,
    at=st.floats(0, 1e11),
    kind=kinds,
    text=texts,
    component=st.none() | texts,
    step=st.none() | st.integers(),
    data=data,
)


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") for char in text)


@given(entry=entries)
def test_no_entry_puts_a_control_character_on_the_screen(entry: JournalEntry) -> None:
    rows = EventRows([EventItem.of(entry, 0)], 60, "0", entry.at, is_folded=False)
    assert all(is_harmless(line.plain) for index in (0, 1) for line in rows.lines(index))


@given(journal=st.lists(entries, max_size=8), words=texts)
def test_any_journal_has_marks_and_can_be_filtered(journal: list[JournalEntry], words: str) -> None:
    annotations = annotations_of(journal)
    assert len(annotations) <= len(journal)
    event_filter = EventFilter(words=words)
    for entry in journal:
        event_filter.admits(entry.kind, entry.component, entry.text, entry.data, frozenset())
        assert EventFilter().admits(entry.kind, entry.component, entry.text, entry.data, frozenset())


@pytest.mark.parametrize(
    ("kind", "fields", "word"),
    [
        ("exit", {"failed": True}, "crash"),
        ("exit", {"exit_code": 0}, "exit"),
        ("plan", {"start": ["a"], "stop": ["a"]}, "restart"),
        ("plan", {"start": ["a"], "stop": []}, "plan"),
        ("plan", {"plan_s": 4.0}, "plan"),
        ("prune", {}, "prune"),
    ],
)
def test_the_word_for_what_happened(kind: str, fields: dict[str, Any], word: str) -> None:
    assert display_kind(kind, fields) == word


def test_what_stands_below_an_entry() -> None:
    assert detail_lines("one\ntwo\n", {"diff": "-a\n+b\n", "stacks": "main"}) == ["two", "-a", "+b", "main"]
    assert detail_lines("one", {"diff": 7}) == []


def test_who_did_it_is_said_once() -> None:
    assert author_text("stop trainer", "ada, pid 7") == "by ada, pid 7"
    assert author_text("shut down by ada, pid 7", "ada, pid 7") == author_text("note", "") == ""


def test_entries_of_earlier_versions_have_their_author_as_text() -> None:
    assert author({"data": {"by": "ada, pid 7 on pts/3"}}) == "ada, pid 7 on pts/3"
    assert author({"data": {"by": 7}}) == author({"data": []}) == author({"by": "x"}) == ""
    ada = {"kind": "tui", "user": "ada", "name": "", "pid": 7, "terminal": "pts/3", "ssh": "10.0.0.5"}
    assert author({"by": ada}) == "ada, pid 7 on pts/3 from 10.0.0.5"
    assert author_name({"data": {"by": "ada, pid 7 on pts/3"}}) == author_name({"by": ada}) == "ada"
    night = {"by": {**ada, "kind": "agent", "name": "night-1"}}
    assert author_words(night) == {"agent", "night-1", "ada"}
    assert author({"by": {**ada, "kind": "agent", "name": "night-1"}, "data": {"by": "x"}}) == "agent night-1"


def test_good_news_and_what_has_an_entry_of_its_own_are_no_marks() -> None:
    journal = [
        JournalEntry(at=1, kind="alert", text="x", data={"severity": severity, "alert": alert})
        for severity, alert in (("information", "notice"), ("error", "crash"), ("warning", "disk"))
    ]
    assert [mark.kind for mark in annotations_of(journal)] == [AnnotationKind.ALERT]


def test_a_note_has_words_and_not_too_many() -> None:
    assert note_text(" a\nb \n") == "a\nb"
    for wrong in ("", " \n\t", "x" * (LONGEST_NOTE + 1)):
        with pytest.raises(UsageError):
            note_text(wrong)


def test_every_kind_of_entry_that_is_written_is_one_to_ask_for() -> None:
    call = re.compile(r'journal\.add\(\s*"(\w+)"')
    source = Path(rltui.__file__).parent
    kinds_written = {kind for path in source.rglob("*.py") for kind in call.findall(path.read_text())}
    assert {"health", "server", "checkpoint", "supervisor"} <= kinds_written <= {*KINDS}
