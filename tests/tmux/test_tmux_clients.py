"""Messages on real tmux clients: of our private server, and of a server as the user has one."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.terminal import Terminal

from rltui.services.tmux import TmuxHost, show_message

pytestmark = pytest.mark.tmux


class Desk:
    """A tmux server with a session per person, each looked at in a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"rltui-test-{uuid.uuid4().hex[:12]}"
        self.env = {k: v for k, v in os.environ.items() if k != "TMUX"} | {"LANG": "C.UTF-8", "TERM": "xterm"}
        self.terminals: list[Terminal] = []

    @property
    def socket(self) -> Path:
        return Path(os.environ.get("TMUX_TMPDIR", "/tmp")) / f"tmux-{os.getuid()}" / self.name

    def sit_down(self, session: str) -> Terminal:
        env = {**self.env, "RLTUI_TMUX_SOCKET": f"{self.name}-{len(self.terminals)}"}
        server = ["tmux", "-L", self.name, "-f", "/dev/null"]
        attach = ["env", "-u", "TMUX", *server, "new-session", "-A", "-s", session]
        terminal = Terminal(
            [*attach, "echo here; exec sleep 1000"], cwd=self.folder, env=env, columns=110, rows=8
        )
        self.terminals.append(terminal)
        terminal.wait_for("here")
        return terminal

    def tidy_up(self) -> None:
        subprocess.run(["tmux", "-L", self.name, "kill-server"], check=False, capture_output=True)
        for terminal in self.terminals:
            terminal.close()
        for path in self.socket.parent.glob(f"*{self.name}*"):
            path.unlink(missing_ok=True)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.tidy_up()


async def test_an_attached_client_sees_the_text_as_it_is(desk: Desk) -> None:
    terminal = desk.sit_down("my session")
    text = "-dash 93%H full #{pane_id} #x #[fg=red] #(touch ran) \x1b[31mred\x07 ö\nnext line;"
    assert await show_message(desk.name, text, duration_s=10) == 1
    terminal.wait_for("-dash 93%H full #{pane_id} #x #[fg=red] #(touch ran) red ö next line;")
    assert not (desk.folder / "ran").exists()


async def test_only_clients_of_the_users_choice_see_it(desk: Desk) -> None:
    work, other = desk.sit_down("work"), desk.sit_down("other")
    assert await show_message(desk.name, "to work", duration_s=10, patterns=("w*",)) == 1
    assert await show_message(str(desk.socket), "to both", duration_s=10, patterns=("/dev/pts/*",)) == 2
    assert await show_message(desk.name, "to nobody", duration_s=10, patterns=("x*",)) == 0
    assert await show_message(desk.name, "to other", duration_s=10, session="other") == 1
    other.wait_for("to other")
    work.wait_for("to both")
    assert "to other" not in work.screen()


async def test_the_options_of_the_server_stay_as_they_are(desk: Desk) -> None:
    desk.sit_down("work")

    def options() -> str:
        shown = "show-options -s ; show-options -g ; show-hooks -g ; show-environment -g"
        command = ["tmux", "-L", desk.name, *shown.split()]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    before = options()
    await show_message(desk.name, "hello", duration_s=10)
    assert options() == before


@pytest.mark.parametrize("server", ["rltui-test-absent", "/tmp/rltui-test-absent.sock"])
async def test_a_server_that_is_not_there_is_silent(server: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        assert await show_message(server, "hello", duration_s=10) == 0
    assert caplog.records == []


async def test_nobody_attached_is_no_error(host: TmuxHost) -> None:
    host.start_supervisor("s", ["sleep", "1000"], cwd="/", env={})
    assert await show_message(host.socket_name, "hello", session="s", duration_s=10) == 0
