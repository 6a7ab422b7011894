"""Finding H6: an edit whose writer is killed at any step is in the journal, or not made."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.config.desk import Desk
from tests.services.config.system_calls import CALLS, die, instead_of_call, is_killed

from rltui.core.experiment.journal import JournalEntry
from rltui.errors import ConflictError
from rltui.services.config.config_file import sha_of
from rltui.services.experiment.journal import Journal, read_journal

OLD = "max_steps = 20\nname = 'a'\n"
CALLS_IN_PLACE = (*CALLS, "pwrite", "ftruncate", "write")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, OLD)


def fresh(desk: Desk) -> None:
    desk.path.write_text(OLD)
    desk.control.journal_file.write_text("")


def killed_at(desk: Desk, step: int, *, in_place: bool = False) -> bool:
    """False where the edit was done before its n-th system call. Step 0 is when the journal is told."""

    def work() -> None:
        monkeypatch = pytest.MonkeyPatch()
        instead_of_call(monkeypatch, step, die, CALLS_IN_PLACE if in_place else CALLS)
        if not step:
            monkeypatch.setattr(Journal, "add", lambda *_, **__: die("add", Journal.add))
        desk.set(max_steps=30, name="long enough to grow the file")

    return is_killed(work)


def intent(desk: Desk) -> Path:
    return desk.control.path / "edit.json"


def entries(desk: Desk) -> list[JournalEntry]:
    return read_journal(desk.control.journal_file)


@pytest.mark.parametrize("linked", [False, True], ids=["replaced", "in place"])
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_every_step_an_edit_is_known_or_not_made(desk: Desk, linked: bool, stride: int) -> None:
    if linked:
        desk.path.with_name("link.toml").hardlink_to(desk.path)
    outcomes, step = set(), 1
    while killed_at(desk, step, in_place=linked):
        desk.reopen()
        desk.history.reconcile()
        made = "30" in desk.path.read_text()
        assert made or desk.path.read_text() == OLD, step
        kinds = [entry.kind for entry in entries(desk)]
        assert kinds.count("edit") == made, (step, kinds)
        outcomes.add((made, *kinds))
        assert not intent(desk).exists()
        assert [entry.name for entry in desk.path.parent.glob(".*")] == []
        if made:
            desk.undo()
            assert desk.path.read_text() == OLD
        else:
            with pytest.raises(ConflictError, match="nothing to undo"):
                desk.undo()
        fresh(desk)
        step += stride
    assert outcomes <= {(False,), (False, "config"), (True, "edit")}
    assert stride > 1 or len(outcomes) == 3
    assert step > 20


def test_an_edit_that_somebody_saved_over_is_known_where_it_is_in_their_text(desk: Desk) -> None:
    for theirs, known in (("max_steps = 30\nname = 'b'\n# theirs\n", True), ("max_steps = 7\n", False)):
        fresh(desk)
        assert killed_at(desk, 0), "at the journal"
        desk.path.write_text(theirs.replace("'b'", "'long enough to grow the file'"))
        desk.reopen()
        desk.history.reconcile()
        assert [entry.kind for entry in entries(desk)] == ["edit" if known else "config"]
        assert "theirs" in desk.path.read_text() or not known


def test_an_intent_that_nobody_understands_is_removed(desk: Desk) -> None:
    for damaged in (b"", b"{}", b'{"text": "", "data": {}}', b"\xff\xfe"):
        intent(desk).write_bytes(damaged)
        desk.reopen()
        desk.history.reconcile()
        assert not intent(desk).exists()
    assert entries(desk) == []


def test_of_two_files_a_killed_write_leaves_both_old(desk: Desk, tmp_path: Path) -> None:
    names = [tmp_path / "a.toml", tmp_path / "b.toml"]
    texts = (b"x = 1\n", b"x = 2\n")
    for path in names:
        path.write_bytes(texts[0])
    desk.history.contents.save(*texts)
    keys = {"x": ("1", "2")}
    files = [
        {"path": str(path), "before": sha_of(texts[0]), "after": sha_of(texts[1]), "keys": keys}
        for path in names
    ]
    data = {"number": 1, "action": "set", "words": "x 1 → 2", "files": files}

    def interrupted() -> None:
        with desk.history.recording("x 1 → 2", data):
            names[0].write_bytes(texts[1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    desk.reopen()
    desk.history.reconcile()
    assert [path.read_bytes() for path in names] == [texts[0], texts[0]]
    assert [entry.text for entry in entries(desk)] == [
        "not applied, because rltui ended while writing: x 1 → 2"
    ]
