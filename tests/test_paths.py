from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rltui import paths
from rltui.errors import RltuiError


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


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
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(base / "tmp"))
    assert paths.runtime_dir() == base / "tmp" / f"rltui-{os.getuid()}"


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o710, 0o707, 0o701, 0o777])
def test_folder_that_is_open_to_others_is_refused(base: Path, mode: int) -> None:
    (base / "rltui").mkdir()
    (base / "rltui").chmod(mode)
    with pytest.raises(RltuiError, match="not a private folder of yours") as caught:
        paths.socket_path("x")
    assert "chmod 700" in caught.value.hint


@pytest.mark.skipif(os.getuid() != 0, reason="giving a folder away needs root")
def test_folder_of_somebody_else_is_refused(base: Path) -> None:
    (base / "rltui").mkdir(mode=0o700)
    os.chown(base / "rltui", 65534, 65534)
    with pytest.raises(RltuiError, match="not a private folder of yours"):
        paths.runtime_dir()


def test_link_to_a_private_folder_is_refused(base: Path) -> None:
    (base / "private").mkdir(mode=0o700)
    (base / "rltui").symlink_to("private")
    with pytest.raises(RltuiError, match="not a private folder of yours"):
        paths.runtime_dir()


def test_file_in_its_place_is_refused(base: Path) -> None:
    (base / "rltui").touch()
    with pytest.raises(RltuiError, match="cannot make the folder"):
        paths.runtime_dir()
