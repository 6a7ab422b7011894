from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run

from rltui import paths
from rltui.services.experiment import known_records, registry
from rltui.services.experiment.files import ControlFolder, ExperimentRecord, copy_on_list, list_dir
from rltui.services.experiment.registry import BrokenExperiment, find_socket, new_socket_path
from rltui.services.runs.index import RunIndex


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExperimentRecord]:
    with tempfile.TemporaryDirectory(prefix="rlt-") as folder:  # short: a socket's path has 107 bytes
        root = Path(folder)
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        ControlFolder(root / "out").path.mkdir(parents=True)
        yield ExperimentRecord(
            name="one", output_dir=str(root / "out"), workspace=folder, config_files=(), layout_file="",
            framework="generic", created_at=0.0,
        )  # fmt: skip


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    return listener


def test_a_client_elsewhere_finds_the_noted_place(
    record: ExperimentRecord, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = new_socket_path(record)
    with listen(path):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        assert find_socket(record) == path


def test_a_note_that_leads_nowhere_is_passed_over(record: ExperimentRecord, tmp_path: Path) -> None:
    assert find_socket(record) == paths.socket_path(record.name, record.output_dir), "no note"
    note = record.control.socket_file
    for text in (str(tmp_path / "gone.sock"), str(tmp_path), "", "\0"):
        note.write_text(text)
        assert find_socket(record) == paths.socket_path(record.name, record.output_dir)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a file away")
def test_another_users_socket_is_not_believed_in(record: ExperimentRecord) -> None:
    foreign = Path(record.workspace) / "trap.sock"
    with listen(foreign):
        os.chown(foreign, 12345, 12345)
        record.control.socket_file.write_text(str(foreign))
        assert find_socket(record) == paths.socket_path(record.name, record.output_dir)


def test_a_socket_is_found_without_the_note_and_without_the_variable(
    record: ExperimentRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding G5: the supervisor listens in the stand-in for a folder that had vanished."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.gettempdir", lambda: record.workspace)
    path = new_socket_path(record)
    with listen(path):
        record.control.socket_file.unlink()
        monkeypatch.setenv("XDG_RUNTIME_DIR", record.workspace)
        assert find_socket(record) == path
        moved = new_socket_path(record)
        assert moved != path
        assert not path.exists(), "the one that nobody listens on any more would be found"


def test_no_folder_for_sockets_is_no_error_to_who_only_looks(
    record: ExperimentRecord, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    monkeypatch.setattr(paths, "_LAST_RESORT", tmp_path / "file")
    assert not find_socket(record).exists()


def test_a_long_list_is_known_until_a_file_of_an_entry_changes(
    own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever changes, and however, the list says what a short one, which is always read, does."""
    for number in range(3):
        write_finished_run(own_user / f"r{number}")
    monkeypatch.setattr(known_records, "_RACY_NS", 0)
    opened: list[bytes] = []

    def counted(content: bytes) -> ExperimentRecord:
        opened.append(content)
        return copy_on_list(content)

    def listed(many: int) -> list[ExperimentRecord | BrokenExperiment]:
        monkeypatch.setattr(registry, "_MANY", many)
        opened.clear()
        return registry.listed_experiments()

    def same_as_read() -> int:
        """The number of entries that had to be opened."""
        entries = listed(1)
        count = len(opened)
        assert [repr(each) for each in entries] == [repr(each) for each in listed(100)]
        return count

    monkeypatch.setattr(registry, "copy_on_list", counted)
    assert same_as_read() == 3
    assert same_as_read() == 0
    folder, entry = own_user / "r1", list_dir() / "r1"
    record = ControlFolder(folder).record_file
    content = record.read_bytes()
    record.write_bytes(content.replace(b"/r1", b"/r9"))  # as long as before, edited in place
    os.utime(record, ns=(1, 1))
    assert same_as_read() == 1
    record.write_bytes(content)
    assert same_as_read() == 1
    assert same_as_read() == 0
    entry.chmod(0o666)
    assert same_as_read() == 0, "refused before"
    entry.chmod(0o600)
    assert same_as_read() == 1
    folder.joinpath(".rltui").chmod(0o777)
    assert same_as_read() == 1
    folder.joinpath(".rltui").chmod(0o700)
    record.unlink()
    assert same_as_read() == 1
    write_finished_run(folder)
    entry.unlink()
    assert same_as_read() == 0
    write_finished_run(own_user / "r7")
    RunIndex().path.write_bytes(b"no database" * 99)
    assert same_as_read() == 3, "an index that is damaged is none"
