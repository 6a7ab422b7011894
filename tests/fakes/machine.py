"""Another machine, as far as rltui can see: a user with folders of their own, reached as ssh would."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run
from tests.waiting import retry_until

from rltui.client.transports.remote_machine import RemoteMachine
from rltui.client.transports.ssh import HostLink

NOISE = "Welcome to gpubox"


@dataclass(frozen=True)
class Machine:
    """A machine that `rltui --host` can reach."""

    root: Path

    @property
    def way(self) -> Path:
        """The program that reaches it; its last argument is for a shell there."""
        return self.root / "way"

    @property
    def host(self) -> RemoteMachine:
        return RemoteMachine("gpubox", (str(self.way),), f"{self.root}/rltui")

    def cut(self, *, for_good: bool = False) -> None:
        """End the connection; `for_good`: no other comes about until `mend`."""
        if for_good:
            self.way.chmod(stat.S_IRUSR)
        pid = int((self.root / "pid").read_text())
        os.kill(pid, 9)

    def mend(self) -> None:
        self.way.chmod(stat.S_IRWXU)


def machine_at(root: Path) -> Machine:
    """A machine without any run."""
    folders = {f"XDG_{name.upper()}": root / name for name in ("state_home", "config_home", "cache_home")}
    folders["XDG_RUNTIME_DIR"] = root / "run"
    for folder in folders.values():
        folder.mkdir(mode=0o700, parents=True)
    variables = "\n".join(f"export {name}='{folder}'" for name, folder in folders.items())
    (root / "rltui").write_text(f'#!/bin/sh\necho $$ > {root}/pid\nexec {sys.executable} -m rltui "$@"\n')
    (root / "way").write_text(
        f"#!/bin/sh\n{variables}\nexport RLTUI_TMUX_SOCKET=none-{os.getpid()}\ncd '{root}'\n"
        f'echo "{NOISE}"\nexec sh -c "$1"\n'
    )
    for name in ("rltui", "way"):
        (root / name).chmod(stat.S_IRWXU)
    return Machine(root)


def machine_with_runs(root: Path) -> Machine:
    """A machine with the runs `alpha` and `beta`, which have ended."""
    machine = machine_at(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(root / "state_home"))
        for name, steps in (("alpha", 5), ("beta", 3)):
            write_finished_run(root / "out" / name, steps=steps)
    return machine


@contextmanager
def opened(machine: Machine) -> Iterator[HostLink]:
    link = HostLink(machine.host)
    messages: list[str] = []
    link.open(messages.append)
    try:
        yield link
    finally:
        link.close()
        assert not is_alive(machine)


def is_alive(machine: Machine) -> bool:
    """True while the process at the other end lives."""
    pid = int((machine.root / "pid").read_text())
    return Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()


def wait_for_connections(link: HostLink, connections: int) -> None:
    """Wait until the link was connected so often."""
    retry_until(lambda: link.connections >= connections and link.is_up, timeout_s=20)
