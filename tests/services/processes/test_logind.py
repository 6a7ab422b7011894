"""What a logout does to a user's processes, by the files of logind."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.services.processes.logind import Logout, at_logout

KILLS, KEEPS = Logout(kills_processes=True, removes_ipc=True), Logout(kills_processes=False, removes_ipc=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for folder in ("etc", "run", "usr/lib"):
        (tmp_path / folder / "systemd/logind.conf.d").mkdir(parents=True, exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, KEEPS),
        ({"etc/systemd/logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, KEEPS),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses = Yes\n"}, KILLS),
        ({"usr/lib/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n"}, KILLS),
        (
            {
                "etc/systemd/logind.conf": "[Login]\n",
                "usr/lib/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n",
            },
            KEEPS,
        ),
        (
            {
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n",
                "etc/systemd/logind.conf.d/50-keep.conf": "[Login]\nKillUserProcesses=no\n",
            },
            KEEPS,
        ),
        (
            {
                "usr/lib/systemd/logind.conf.d/10-kill.conf": "[Login]\nKillUserProcesses=no\n",
                "run/systemd/logind.conf.d/10-kill.conf": "[Login]\nKillUserProcesses=yes\n",
            },
            KILLS,
        ),
        ({"etc/systemd/logind.conf": "KillUserProcesses=yes\nKillOnlyUsers=bob\n"}, KEEPS),
        ({"etc/systemd/logind.conf": "KillUserProcesses=yes\nKillExcludeUsers=root ada\n"}, KEEPS),
        ({"etc/systemd/logind.conf": "RemoveIPC=no\n"}, Logout(kills_processes=False, removes_ipc=False)),
        ({"var/lib/systemd/linger/ada": ""}, Logout(kills_processes=False, removes_ipc=False)),
    ],
)
def test_the_files_of_logind_decide(root: Path, files: dict[str, str], told: Logout) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert at_logout(root, uid=1000, user="ada") == told


def test_root_keeps_everything_and_without_systemd_nothing_is_known(root: Path) -> None:
    (root / "etc/systemd/logind.conf").write_text("KillUserProcesses=yes\n")
    assert at_logout(root, uid=0, user="root") == Logout(kills_processes=False, removes_ipc=False)
    (root / "run/systemd/system").rmdir()
    assert at_logout(root, uid=1000, user="ada") is None
