from __future__ import annotations

import fcntl
import sys
from pathlib import Path
from threading import Timer

import pytest
from tests.waiting import ready_process

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


def test_a_second_writer_learns_who_holds_it_and_gets_it_once_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "configs" / "rl.toml"
    path.parent.mkdir()
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    with ready_process([sys.executable, "-c", HOLDER, str(link)], "held") as holder:
        assert holder.stdin is not None
        with (
            pytest.raises(ConflictError, match=f"pid {holder.pid} ") as caught,
            config_lock([path], wait_s=0.05),
        ):
            pass
        assert str(path.parent) in caught.value.title
        Timer(0.1, holder.stdin.close).start()
        with config_lock([path, link], wait_s=20):
            assert holder.wait(20) == 0
            assert list(path.parent.iterdir()) == [], "it leaves no file there"


def test_where_no_folder_can_be_locked_nobody_is_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(9, "as NFS says")

    monkeypatch.setattr(fcntl, "flock", flock)
    with config_lock([tmp_path / "rl.toml"], wait_s=0.0), config_lock([tmp_path / "rl.toml"], wait_s=0.0):
        pass
