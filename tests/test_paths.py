from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from rltui import paths
from rltui.errors import RltuiError


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """XDG_RUNTIME_DIR; the folders that stand in for it cannot be used."""
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "no folder").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "no folder"))
    monkeypatch.setattr(paths, "_LAST_RESORT", tmp_path / "no folder")
    return tmp_path / "run"


def test_folder_for_sockets_is_made_private(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        folder = paths.runtime_dir()
    finally:
        os.umask(before)
    assert folder == base / "rltui"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert paths.runtime_dir() == folder
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(base / "tmp"))
    assert paths.runtime_dir() == base / "tmp" / f"rltui-{os.getuid()}"


def test_what_is_no_private_folder_is_refused(base: Path) -> None:
    (base / "rltui").mkdir()
    for mode in (0o710, 0o701):
        (base / "rltui").chmod(mode)
        assert "is not your private folder" in refusal()
    (base / "rltui").rename(base / "private")
    (base / "private").chmod(0o700)
    (base / "rltui").symlink_to("private")
    assert "is not your private folder" in refusal()
    (base / "rltui").unlink()
    (base / "rltui").touch()
    assert "cannot create the folder" in refusal()


@pytest.mark.skipif(os.getuid() != 0, reason="giving a folder away needs root")
def test_folder_of_somebody_else_is_refused(base: Path) -> None:
    (base / "rltui").mkdir(mode=0o700)
    os.chown(base / "rltui", 65534, 65534)
    assert "is not your private folder" in refusal()
    os.chown(base, 65534, 65534)
    assert f"{base} belongs to another user" in refusal()


def test_a_folder_that_cannot_be_used_is_passed_over(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding H12: su keeps XDG_RUNTIME_DIR, which then is another user's."""
    (base / "rltui").touch()
    (base.parent / "tmp").mkdir()
    monkeypatch.setattr(paths, "_LAST_RESORT", base.parent / "tmp")
    assert paths.runtime_dir() == base.parent / "tmp" / f"rltui-{os.getuid()}"
    assert len(paths.unusable_runtime_dirs()) == 2
    assert str(base / "rltui") in paths.unusable_runtime_dirs()[0]


def test_a_path_that_is_too_long_for_a_socket_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding F9: below a long folder no socket could be made."""
    long = tmp_path / ("x" * 100)
    long.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with tempfile.TemporaryDirectory(prefix="rlt-") as short:
        monkeypatch.setenv("TMPDIR", str(long))
        monkeypatch.setattr(paths, "_LAST_RESORT", Path(short))
        path = paths.socket_path("x" * 48, "/out")
        assert path.parent.parent == Path(short)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        assert path in paths.socket_candidates("x" * 48, "/out"), "where clients look"
    assert paths.socket_path("x", "/one").name != paths.socket_path("x", "/two").name


def refusal() -> str:
    with pytest.raises(RltuiError, match="no folder for sockets") as caught:
        paths.socket_path("x", "/out")
    assert "XDG_RUNTIME_DIR" in caught.value.hint
    return str(caught.value)


def test_without_a_home_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(RltuiError, match="export XDG_STATE_HOME=FOLDER"):
        paths.state_dir()
