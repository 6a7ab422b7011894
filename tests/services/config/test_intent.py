"""Finding H6: an edit whose writer is killed at any step is in the journal, or not made."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.config.system_calls import CALLS, die, instead_of_call, is_killed

from rltui.core.api import Request
from rltui.core.journal import JournalEntry
from rltui.errors import ConflictError
from rltui.frameworks.generic import GENERIC
from rltui.services.config.editor import ConfigEditor
from rltui.services.config.history import EditHistory, EditIntent
from rltui.services.config.source import parse_file, sha_of
from rltui.services.config.store import ConfigStore
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.journal import Journal, read_journal

OLD = "max_steps = 20\nname = 'a'\n"
CALLS_IN_PLACE = (*CALLS, "pwrite", "ftruncate", "write")


class Desk:
    """A config with an editor, all of whose memory is on the disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.toml"
        self.control = ControlFolder(folder / "out")
        self.intent = self.control.path / "edit.json"

    def fresh(self, text: str = OLD) -> None:
        self.path.write_text(text)
        self.control.path.mkdir(parents=True, exist_ok=True)
        self.control.journal_file.write_text("")

    def editor(self) -> ConfigEditor:
        journal = Journal(self.control.journal_file, clock=lambda: 0.0, listener=lambda _: None)
        store = ConfigStore([self.path], GENERIC, components=["trainer"])
        return ConfigEditor(store, self.control, journal)

    def set(self, **edits: object) -> None:
        editor, request = self.editor(), Request(action="set", edits=edits)
        editor.apply(request, editor.preview(request))

    def killed_at(self, step: int, *, in_place: bool = False) -> bool:
        """False where the edit was done before its n-th system call. Step 0 is when the journal is told."""

        def work() -> None:
            monkeypatch = pytest.MonkeyPatch()
            instead_of_call(monkeypatch, step, die, CALLS_IN_PLACE if in_place else CALLS)
            if not step:
                monkeypatch.setattr(Journal, "add", lambda *_, **__: die("add", Journal.add))
            self.set(max_steps=30, name="long enough to grow the file")

        return is_killed(work)

    def entries(self) -> list[JournalEntry]:
        return read_journal(self.control.journal_file)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.fresh()
    return desk


@pytest.mark.parametrize("linked", [False, True], ids=["exchanged", "in place"])
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_every_step_an_edit_is_known_or_not_made(desk: Desk, linked: bool, stride: int) -> None:
    if linked:
        desk.path.with_name("link.toml").hardlink_to(desk.path)
    outcomes, step = set(), 1
    while desk.killed_at(step, in_place=linked):
        editor = desk.editor()
        editor.reconcile()
        made = "30" in desk.path.read_text()
        assert made or desk.path.read_text() == OLD, step
        kinds = [entry.kind for entry in desk.entries()]
        assert kinds.count("edit") == made, (step, kinds)
        outcomes.add((made, *kinds))
        assert not desk.intent.exists()
        assert [entry.name for entry in desk.path.parent.glob(".*")] == []
        if made:
            editor.apply(undo := Request(action="undo"), editor.preview(undo))
            assert desk.path.read_text() == OLD
        else:
            with pytest.raises(ConflictError, match="nothing to undo"):
                editor.preview(Request(action="undo"))
        desk.fresh()
        step += stride
    assert outcomes <= {(False,), (False, "config"), (True, "edit")}
    assert stride > 1 or len(outcomes) == 3
    assert step > 20


def test_an_edit_that_somebody_saved_over_is_known_where_it_is_in_their_text(desk: Desk) -> None:
    for theirs, known in (("max_steps = 30\nname = 'b'\n# theirs\n", True), ("max_steps = 7\n", False)):
        desk.fresh()
        assert desk.killed_at(0), "at the journal"
        desk.path.write_text(theirs.replace("'b'", "'long enough to grow the file'"))
        desk.editor().reconcile()
        assert [entry.kind for entry in desk.entries()] == ["edit" if known else "config"]
        assert "theirs" in desk.path.read_text() or not known


def test_an_intent_that_nobody_understands_is_removed(desk: Desk) -> None:
    for damaged in (b"", b"{}", b'{"text": "", "data": {}}', b"\xff\xfe"):
        desk.intent.write_bytes(damaged)
        desk.editor().reconcile()
        assert not desk.intent.exists()
    assert desk.entries() == []


def test_of_two_files_a_killed_write_leaves_both_old(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.fresh()
    names = [tmp_path / "a.toml", tmp_path / "b.toml"]
    history = EditHistory(desk.control.journal_file, desk.control.path / "backups")
    journal = Journal(desk.control.journal_file, clock=lambda: 0.0, listener=lambda _: None)
    texts = (b"x = 1\n", b"x = 2\n")
    for path in names:
        path.write_bytes(texts[0])
    history.save(parse_file(path, text) for path in names for text in texts)
    keys = {"x": ("1", "2")}
    files = [
        {"path": str(path), "before": sha_of(texts[0]), "after": sha_of(texts[1]), "keys": keys}
        for path in names
    ]
    data = {"number": 1, "action": "set", "words": "x 1 → 2", "files": files}

    def interrupted() -> None:
        with EditIntent(desk.intent, history, journal).execute("x 1 → 2", data):
            names[0].write_bytes(texts[1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    EditIntent(desk.intent, history, journal).reconcile()
    assert [path.read_bytes() for path in names] == [texts[0], texts[0]]
    assert [entry.text for entry in desk.entries()] == ["not made, rltui was ended while writing it: x 1 → 2"]
