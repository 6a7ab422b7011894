"""The private tmux server that keeps supervisor and shims alive when a connection drops.

One server per user (`tmux -L NAME -f /dev/null`), one session per experiment, window 0 the supervisor, one
window per component. The user's own tmux server, options and environment are never touched.

Every call blocks for about 2 ms on a tmux client: call from one executor thread, not from the event loop.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
import shutil
import signal
import socket
import struct
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rltui.base.interpreter import OUTER_VARIABLES
from rltui.core import hints
from rltui.core.logs.lines import plain_text
from rltui.errors import ConflictError, RltuiError
from rltui.services import processes
from rltui.services.processes import subprocesses

if TYPE_CHECKING:
    from libtmux import Server

_LISTEN_TIMEOUT_S = 2.0
"""Time for a server to create its socket again."""
_UCRED = struct.Struct("3i")
"""Layout of `struct ucred` of unix(7): pid, uid, gid."""
_MINIMUM_VERSION = (3, 2)
"""First version with `new-window -e`, `list-panes -f` and exact `=` targets as used here."""
SUPERVISOR_WINDOW = "supervisor"
_CONDA = "conda install -c conda-forge tmux"
_INSTALL_HINT = f"install it: apt install tmux, dnf install tmux, or {_CONDA}"

SERVER_OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-s", "set-clipboard", "off"),  # a log line with OSC 52 must not reach the clipboard
    ("-g", "destroy-unattached", "off"),
    ("-g", "detach-on-destroy", "on"),
    ("-g", "history-limit", "5000"),
    ("-g", "update-environment", ""),
    ("-g", "status-left", ""),
    ("-g", "status-right", " #{session_name} · #{?@takes_keys,ctrl+],q} detaches, nothing stops "),
    ("-g", "status-right-length", "80"),
    ("-wg", "allow-rename", "off"),
    ("-wg", "automatic-rename", "off"),
    ("-wg", "remain-on-exit", "on"),
)
"""Set before every new session, on the private server only."""

_TYPING = "typing"
"""The key table for a pane that takes keys: all but one go there."""
_SERVER_KEYS: tuple[tuple[str, ...], ...] = (
    ("-n", "q", "detach-client"),
    *(("-T", table, "C-]", "detach-client") for table in ("root", _TYPING)),
    (
        *("-n", "C-c", "display-message", "-d", "5000"),
        "ctrl+c does nothing here: rltui stop -c #{window_name} stops it; q detaches",
    ),
)
"""Set with the options. Few panes here read keys, and the prefix is used by a tmux of the person's own around
this one. ctrl+] leaves a console in other programs, too (telnet, virsh).
"""

_LOCALE = ("LANG", "LC_ALL", "LC_CTYPE")
_SERVER_VARIABLES = frozenset(
    {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TMUX_TMPDIR", "USER", *_LOCALE}
)
"""All that the server itself inherits: its environment reaches every later session, so a GPU list or a
component's tag from the shell of the first start must not be included.
"""


class TmuxWindow(NamedTuple):
    id: str
    """Unique on the server, such as `@3`."""
    name: str
    pane_pid: int
    """Process that tmux started: the supervisor or a shim."""
    takes_keys: bool
    """True if its program has a terminal of its own, which gets the keys."""
    dead: bool
    """True if it ended and the window was kept. Says nothing about the exit code: tmux 3.3a often has
    none.
    """


class TmuxHost:
    """The experiments' terminals. Not thread-safe; any number of hosts may share a server.

    Every method raises `RltuiError`, naming the tmux command, when tmux refuses.
    """

    def __init__(self, socket_name: str) -> None:
        self.socket_name = socket_name
        folder = os.environ.get("TMUX_TMPDIR", "/tmp")  # noqa: S108  (where tmux itself puts it)
        self._socket_path = Path(folder) / f"tmux-{os.getuid()}" / socket_name

    @cached_property
    def _server(self) -> Server:
        from libtmux import Server  # 80 ms and 3 MB, which a supervisor pays that opens windows

        return Server(socket_name=self.socket_name, config_file="/dev/null")

    def check(self) -> None:
        """Raises `RltuiError` if tmux is missing or too old. Its other output is ignored: warnings of the
        loader about a library do not prevent it from working.
        """
        if shutil.which("tmux") is None:
            raise RltuiError("tmux is not installed", hint=_INSTALL_HINT)
        version = (
            subprocesses.check_output(["tmux", "-V"], timeout_s=TIMEOUT_S).decode(errors="replace").strip()
        )
        numbers = re.search(r"(\d+)\.(\d+)", version)  # none where it is built from the newest source
        if numbers is not None and (int(numbers[1]), int(numbers[2])) < _MINIMUM_VERSION:
            least = ".".join(map(str, _MINIMUM_VERSION))
            raise RltuiError(
                f"{version} is too old; {least} or newer is needed",
                hint=f"if your distribution has no newer one: {_CONDA}",
            )

    def restore_socket(self) -> None:
        """Have the server that this process runs in listen again if its socket was deleted (tmux(1))."""
        path, _, pid_and_session = os.environ.get("TMUX", "").partition(",")
        pid = pid_and_session.partition(",")[0]
        if Path(path) != self._socket_path or self._socket_path.exists() or pid != str(os.getppid()):
            return
        with suppress(OSError):  # where the folder cannot be made, the server cannot listen there either
            self._socket_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.kill(int(pid), signal.SIGUSR1)
        deadline = time.monotonic() + _LISTEN_TIMEOUT_S
        while not self._socket_path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    def start_supervisor(
        self, session: str, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]
    ) -> TmuxWindow:
        """Create the session with window 0 running `argv`.

        This process's environment plus `env` becomes the session's, for later windows too. It travels over
        tmux's socket (`update-environment`), not as `-e` arguments, which everyone can read in `ps`.

        Raises:
            ConflictError: The session exists.
        """
        if self.has_session(session):
            raise ConflictError(f"tmux session {session!r} already exists")
        closing = ("set-option", "-w", "-t", f"={session}:0", "remain-on-exit", "off")
        return self._new_session(session, SUPERVISOR_WINDOW, argv, cwd=cwd, env=env, then=(closing,))

    def start_window(
        self, session: str, window: str, argv: Sequence[str], *, cwd: str, takes_keys: bool = False
    ) -> TmuxWindow:
        """Run `argv`, without a shell, in a new window that stays when it ends; replaces dead windows of that
        name.

        If the session is gone (somebody killed the tmux server), it is created again with this process's
        environment, which is that of the first one if the supervisor calls.

        Raises:
            ConflictError: A living window has that name.
        """
        typing = ("set-option", "-w", "-t", f"={session}:={window}", "@takes_keys", "1")
        then = [typing] if takes_keys else []
        if not self.has_session(session):
            return self._new_session(session, window, argv, cwd=cwd, env={}, then=then)
        namesakes = [existing for existing in self.list_windows(session) if existing.name == window]
        if any(not existing.dead for existing in namesakes):
            raise ConflictError(f"tmux window {window!r} of session {session!r} is still running")
        window_options = (
            "-t",
            f"={session}:",
            "-n",
            _literal(window),
            "-c",
            _literal(cwd),
            "-P",
            "-F",
            _WINDOW_FORMAT,
        )
        kill_commands = [("kill-window", "-t", existing.id) for existing in namesakes]
        lines = self._run(
            ("new-window", "-d", *window_options, "--", *_exec_argv(argv)), *kill_commands, *then
        )
        return _parse_window(lines[0])

    def list_windows(self, session: str) -> tuple[TmuxWindow, ...]:
        """Windows in the order of their creation; empty if the session or the server does not exist."""
        lines = self._run_or_empty("list-panes", "-a", "-F", f"#{{session_name}} {_WINDOW_FORMAT}")
        return tuple(
            _parse_window(line.removeprefix(f"{session} "))
            for line in lines
            if line.startswith(f"{session} ")
        )

    def list_sessions(self) -> tuple[str, ...]:
        """Names of all sessions; empty where no server runs."""
        return tuple(self._run_or_empty("list-sessions", "-F", "#{session_name}"))

    def has_session(self, session: str) -> bool:
        return session in self.list_sessions()

    def kill_session(self, session: str) -> None:
        """Close the session's windows. Its processes get SIGHUP, which shims ignore: end those first."""
        if self.has_session(session):
            self._run(("kill-session", "-t", f"={session}"))

    def attach_argv(self, session: str, window: str, *, readonly: bool = False) -> list[str]:
        """Command that shows the window in this terminal, also from within another tmux.

        `readonly`: keys are not passed on, and of tmux's own only those that detach or scroll work.

        Raises:
            RltuiError: There is no such window.
        """
        for candidate in self.list_windows(session):
            if candidate.name == window:
                target = ["-t", f"={session}:{candidate.id}", *(["-r"] if readonly else [])]
                table = _TYPING if candidate.takes_keys else "root"
                keys = ["set-option", "-t", f"={session}:", "key-table", table]
                tmux = [
                    "tmux",
                    "-L",
                    self.socket_name,
                    "-f",
                    "/dev/null",
                    *keys,
                    ";",
                    "attach-session",
                    *target,
                ]
                return ["env", "-u", "TMUX", *tmux]
        raise RltuiError(
            f"tmux session {session!r} has no window {window!r}",
            hint=f"`{hints.START(component='C')}` opens one for a component.",
        )

    def _new_session(
        self,
        session: str,
        window: str,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        then: Sequence[Sequence[str]],
    ) -> TmuxWindow:
        """Create the session with window 0 running `argv`, and run `then` in the same client call.

        This process's environment plus `env` becomes the session's.
        """
        create = ("new-session", "-d", "-s", session, "-n", _literal(window), "-x", "200", "-y", "50")
        window_options = ("-c", _literal(cwd), "-P", "-F", _WINDOW_FORMAT, "--")
        *preparing, names = _update_environment(os.environ.keys() - OUTER_VARIABLES | env.keys())
        # a server that does not exit for want of sessions; without effect on one that runs
        start = (("start-server",), ("set-option", "-s", "exit-empty", "off"))
        try:
            self._run(*start, variables=_SERVER_VARIABLES)
        except RltuiError as error:
            if not any(text in str(error) for text in _DYING):
                raise
            self._run(*start, variables=_SERVER_VARIABLES)
        try:
            self._run(*(("set-option", *option) for option in SERVER_OPTIONS))
            self._run(*(("bind-key", *key) for key in _SERVER_KEYS))
            for command in preparing:
                self._run(command)
            lines = self._run(
                names,
                (*create, *window_options, *_exec_argv(argv)),
                ("set-option", "-g", "update-environment", ""),
                *then,
                env=env,
            )
        finally:
            self._run(("set-option", "-s", "exit-empty", "on"))
        return _parse_window(lines[0])

    def _run_or_empty(self, *command: str) -> list[str]:
        """Output lines; none if the server or the session does not exist, which is no error for a query."""
        try:
            return self._run(command)
        except RltuiError as error:
            if any(text in str(error) for text in _MISSING):
                return []
            raise

    def _refuse_stopped(self) -> None:
        """A server that is stopped accepts every command, and answers none."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(self._socket_path))
            except TimeoutError:
                raise RltuiError(f"the tmux server -L {self.socket_name} does not answer") from None
            except OSError:  # there is none
                return
            pid = int(_UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0])
        server = processes.read_process_id(pid)
        if server is not None and processes.is_stopped(server):
            raise RltuiError(
                f"the tmux server -L {self.socket_name}, pid {pid}, is stopped",
                hint=f"resume it: kill -CONT {pid}",
            )

    def _run(
        self,
        *commands: Sequence[str],
        variables: frozenset[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Run tmux commands in one client, with nothing between them, and return the output lines.

        The client gets this process's environment, or only its `variables` if given, and `env`.
        """
        from libtmux.exc import TmuxCommandNotFound

        self._refuse_stopped()
        server = self._server
        argv = [argument for command in commands for argument in (*map(_escape, command), ";")][:-1]
        try:
            with _client_environment(variables, env or {}):
                result = server.cmd(*argv)
        except TmuxCommandNotFound:
            raise RltuiError("tmux is not installed", hint=_INSTALL_HINT) from None
        except OSError as error:
            raise RltuiError(f"cannot run tmux: {error.strerror}") from error
        if result.returncode != 0:
            names = ", ".join(dict.fromkeys(command[0] for command in commands))
            raise RltuiError(f"tmux {names} failed", details=result.stderr, hint=_hint_for(result.stderr))
        return result.stdout


_WINDOW_FORMAT = "#{window_id} #{pane_pid} #{?@takes_keys,1,0} #{pane_dead} #{window_name}"
_DYING = ("server exited", "lost server")
"""Messages when the last session ended a moment ago."""
_MISSING = ("no server running", "error connecting", "can't find session", "no sessions", *_DYING)
_MAX_NAMES_BYTES = 8000
"""Half of what tmux takes in one command (16 KiB), the rest is for the command that follows."""


def _parse_window(line: str) -> TmuxWindow:
    window_id, pane_pid, takes_keys, dead, name = line.split(" ", 4)
    return TmuxWindow(window_id, name, int(pane_pid), takes_keys == "1", dead == "1")


def _literal(text: str) -> str:
    """Escape text that tmux would expand as a format."""
    return text.replace("#", "##")


def _update_environment(variables: Set[str]) -> list[tuple[str, ...]]:
    """Commands that make the next session import these variables from its client, in pieces that tmux
    accepts.

    By name, since a pattern imports only its first match (3.3a, `environ_update`).
    """
    names = " ".join(sorted(name for name in variables if re.fullmatch(r"\w+", name, re.ASCII)))
    pieces = textwrap.wrap(names, _MAX_NAMES_BYTES, break_long_words=False, break_on_hyphens=False)
    return [("set-option", "-ga", "update-environment", piece) for piece in pieces or [""]]


def _exec_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """A single argument would be run by a shell, several are executed (`spawn.c`), so a single one gets
    `env` before it.
    """
    return ("env", *argv) if len(argv) == 1 else tuple(argv)


def _escape(argument: str) -> str:
    """Escape a `;` at the end of an argument, which would end the command (`cmd_parse_from_arguments`)."""
    return f"{argument[:-1]}\\;" if argument.endswith(";") else argument


def _hint_for(stderr: Sequence[str]) -> str:
    if any("too long" in line for line in stderr):
        return "tmux accepts at most 16 KiB of arguments and variables together; pass fewer."
    if any(
        f"{phrase} " in line for line in stderr for phrase in ("couldn't create directory", "error creating")
    ):
        return "the tmux socket needs a writable folder: export TMUX_TMPDIR=FOLDER"
    return ""


@contextmanager
def _client_environment(variables: frozenset[str] | None, env: Mapping[str, str]) -> Iterator[None]:
    """Change this process's environment for one call: libtmux has no other way to set the client's."""
    before = dict(os.environ)
    for name in before:
        if name in OUTER_VARIABLES or (variables is not None and name not in variables):
            del os.environ[name]
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.update(before)
        for name in env.keys() - before.keys():
            del os.environ[name]


_logger = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""Limit for each call: a tmux server that is stopped must not block the others."""
_FORMAT = "#{client_name} #{client_tty} #{session_name}"
"""Only the last field may contain spaces. A tab would not arrive: tmux replaces it if the locale is not
UTF-8.
"""


async def show_message(
    server: str, text: str, *, duration_s: float, session: str | None = None, patterns: Sequence[str] = ("*",)
) -> int:
    """Show `text` on one line until a key is pressed or `duration_s` is over. Returns the number of clients.

    `server` is a name (`tmux -L NAME`) or, with a `/`, the path of a socket; none is started. Only clients of
    `session` if given, and whose tty or session one of the `patterns` matches.
    """
    tmux = _tmux(server)
    lines = await _output(*tmux, "list-clients", "-F", _FORMAT)
    clients = [name for line in lines if (name := _matching_client(line, session, patterns)) is not None]
    message = _message(text)
    for client in clients:
        delay = str(int(duration_s * 1000))
        await _output(*tmux, "display-message", "-d", delay, "-c", client, "--", message)
    return len(clients)


def _tmux(server: str) -> tuple[str, ...]:
    if "/" in server:
        return "tmux", "-S", os.path.expanduser(server)  # noqa: PTH111
    return "tmux", "-L", server


def _matching_client(line: str, session: str | None, patterns: Sequence[str]) -> str | None:
    name, tty, attached_to = line.split(" ", 2)
    if session is not None and attached_to != session:
        return None
    matches = any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns for value in (tty, attached_to))
    return name if matches else None


def _message(text: str) -> str:
    """One line that tmux expands to the text: neither a format, nor a time, nor the end of a command."""
    line = " ".join(plain_text(segment).strip() for segment in text.splitlines())
    line = line.replace("#", "##").replace("%", "%%")
    return f"{line[:-1]}\\;" if line.endswith(";") else line


async def _output(*command: str) -> list[str]:
    """Lines of its output; none if it fails, which is normal if a server or client is gone."""
    try:
        outcome = await subprocesses.run(command, timeout_s=TIMEOUT_S)
    except RltuiError as error:
        _logger.warning("%s", error.title)
        return []
    if outcome.code is None:
        _logger.warning("%s does not answer", " ".join(command[:3]))
        return []
    if outcome.code:
        _logger.info("%s: %s", " ".join(command[:4]), outcome.errors.decode(errors="replace").strip())
        return []
    return outcome.output.decode(errors="replace").splitlines()
