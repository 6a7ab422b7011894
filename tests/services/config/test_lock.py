from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rltui.errors import ConflictError
from rltui.services.config.lock import config_lock

HOLDER = """
import sys
from pathlib import Path
from rltui.services.config.lock import config_lock
with config_lock([Path(sys.argv[1])]):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("on_folder", [True, False], ids=["folder", "network"])
def test_a_second_writer_waits_and_learns_who_holds_it(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_folder: bool
) -> None:
    path = tmp_path / "configs" / "rl.toml"
    path.parent.mkdir()
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    if not on_folder:
        site = tmp_path / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(
            "import fcntl, os, stat\nreal = fcntl.flock\ndef flock(fd, how):\n"
            "    if stat.S_ISDIR(os.fstat(fd).st_mode): raise OSError(9, 'as NFS says')\n"
            "    return real(fd, how)\nfcntl.flock = flock\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(site))
        monkeypatch.setattr(fcntl, "flock", refusing_folders(fcntl.flock))
    process = hold(link)
    try:
        with (
            pytest.raises(ConflictError, match=f"pid {process.pid} ") as caught,
            config_lock([path], wait_s=0.05),
        ):
            pass
        assert str(path.parent) in caught.value.title
    finally:
        process.communicate("")
    with config_lock([path, link], wait_s=0.0):
        assert list(path.parent.iterdir()) == [], "it leaves no file there"


def refusing_folders(real: Any) -> Any:
    def flock(descriptor: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(9, "as NFS says")
        real(descriptor, how)

    return flock
