from __future__ import annotations

from pathlib import Path

from rltui.services.runs.attempt_end import oom_kills


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_machine_and_group_are_added(tmp_path: Path) -> None:
    put(tmp_path / "proc/vmstat", "nr_free_pages 12\noom_kill 3\noom_kill_other 9\n")
    assert oom_kills(tmp_path) == 3
    put(tmp_path / "proc/self/cgroup", "0::/user.slice/tmux\n")
    put(tmp_path / "sys/fs/cgroup/user.slice/tmux/memory.events", "oom 7\noom_kill 2\noom_group_kill 5\n")
    assert oom_kills(tmp_path) == 5


def test_a_group_of_the_old_hierarchy(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n")
    put(tmp_path / "sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill_disable 0\noom_kill 4\n")
    assert oom_kills(tmp_path) == 4


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/../../elsewhere/docker-1\n")
    put(tmp_path / "sys/fs/cgroup/memory.events", "oom_kill 6\n")
    assert oom_kills(tmp_path) == 6


def test_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None
    put(tmp_path / "proc/vmstat", "nr_free_pages 12\n")
    assert oom_kills(tmp_path) is None


def test_this_machine() -> None:
    kills = oom_kills()
    told = "oom_kill" in Path("/proc/vmstat").read_text() if Path("/proc/vmstat").exists() else False
    assert (kills is not None and kills >= 0) or not told
