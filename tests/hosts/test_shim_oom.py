"""The kernel's count of the processes that it killed for want of memory."""

from __future__ import annotations

from pathlib import Path

from rltui.hosts.shim.oom import oom_kills


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_kills_are_counted_by_the_group_else_by_the_machine(tmp_path: Path) -> None:
    assert oom_kills(str(tmp_path)) is None
    put(tmp_path / "proc/vmstat", "nr_free_pages 12\n")
    assert oom_kills(str(tmp_path)) is None, "a kernel that does not tell"
    put(tmp_path / "proc/vmstat", "nr_free_pages 12\noom_kill 3\noom_kill_other 9\n")
    assert oom_kills(str(tmp_path)) == (3, False)
    put(tmp_path / "proc/self/cgroup", "0::/user.slice/tmux\n")
    put(tmp_path / "sys/fs/cgroup/user.slice/tmux/memory.events", "oom 7\noom_kill 2\noom_group_kill 5\n")
    assert oom_kills(str(tmp_path)) == (2, True)
    put(tmp_path / "proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n")
    put(tmp_path / "sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill_disable 0\noom_kill 4\n")
    assert oom_kills(str(tmp_path)) == (4, True), "the old hierarchy"
    put(tmp_path / "proc/self/cgroup", "0::/../../elsewhere/docker-1\n")
    put(tmp_path / "sys/fs/cgroup/memory.events", "oom_kill 6\n")
    assert oom_kills(str(tmp_path)) == (6, True), "a container sees its group as the root"
