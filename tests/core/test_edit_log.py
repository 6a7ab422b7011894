from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from rltui.core.edit_log import EditLog, EditRecord, describe


def record(
    log: EditLog, action: Literal["set", "undo", "redo"], words: str, takes_back: int | None = None
) -> EditRecord:
    made = EditRecord(number=log.next_number, action=action, words=words, files=(), takes_back=takes_back)
    log.add(made)
    return made


@given(st.lists(st.sampled_from(["set", "undo", "redo"]), max_size=30))
def test_undo_and_redo_walk_through_the_edits(actions: list[str]) -> None:
    log, done, undone = EditLog(), list[str](), list[str]()
    for number, action in enumerate(actions):
        if action == "set":
            record(log, "set", f"edit {number}")
            done.append(f"edit {number}")
            undone.clear()
        elif action == "undo" and log.undoable is not None:
            record(log, "undo", log.undoable.words, log.undoable.number)
            undone.append(done.pop())
        elif action == "redo" and log.redoable is not None:
            record(log, "redo", log.redoable.words, log.redoable.number)
            done.append(undone.pop())
        assert (log.undoable.words if log.undoable else None) == (done[-1] if done else None)
        assert (log.redoable.words if log.redoable else None) == (undone[-1] if undone else None)


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
