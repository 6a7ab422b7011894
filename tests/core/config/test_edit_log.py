from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from rltui.core.config.edit_log import EditLog, EditRecord, describe


def record(
    log: EditLog, action: Literal["set", "undo", "redo"], words: str, takes_back: int | None = None
) -> EditRecord:
    record = EditRecord(number=log.next_number, action=action, words=words, files=(), takes_back=takes_back)
    log.add(record)
    return record


@given(st.lists(st.sampled_from(["set", "undo", "redo"]), max_size=30))
def test_undo_and_redo_walk_through_the_edits(actions: list[str]) -> None:
    log, redo_words, undo_words = EditLog(), list[str](), list[str]()
    for number, action in enumerate(actions):
        if action == "set":
            record(log, "set", f"edit {number}")
            redo_words.append(f"edit {number}")
            undo_words.clear()
        elif action == "undo" and log.undoable is not None:
            record(log, "undo", log.undoable.words, log.undoable.number)
            undo_words.append(redo_words.pop())
        elif action == "redo" and log.redoable is not None:
            record(log, "redo", log.redoable.words, log.redoable.number)
            redo_words.append(undo_words.pop())
        assert (log.undoable.words if log.undoable else None) == (redo_words[-1] if redo_words else None)
        assert (log.redoable.words if log.redoable else None) == (undo_words[-1] if undo_words else None)


def test_an_undo_of_something_else_is_an_edit_of_its_own() -> None:
    log = EditLog()
    record(log, "set", "one")
    odd = record(log, "undo", "zero", takes_back=77)
    assert log.undoable == odd


def test_an_edit_in_words() -> None:
    assert describe({"a.b": (128, 256), "c": (None, "x"), "d": ([1], None), "e": (1, 2), "f": (1, 2)}) == (
        'a.b 128 → 256, c = "x", d [1] removed and 2 more'
    )
    assert describe({}) == "comments only"
    assert describe({"a": (None, "x" * 90)}) == f'a = "{"x" * 38}…'
