"""A machine that is looked at from here: how it is reached, and what rltui is called there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

from rltui.errors import RltuiError, UsageError
from rltui.settings import HostSettings

_ALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
"""ssh notices within 15 s that the line is dead; on a quiet one it sends a message every 5 s."""
_NO_PROMPTS = ("-o", "BatchMode=yes")
"""Once the screen has the terminal, nobody can answer one."""
_WITH_PATH = re.compile(r"(?P<host>[^:]+):(?P<rltui>[/~].*)")


@dataclass(frozen=True, slots=True)
class RemoteMachine:
    """A machine with an rltui of its own."""

    name: str
    """The name that the person calls it by."""
    command: tuple[str, ...]
    """The start of a command line that runs there what is its last word, by a shell: `ssh box`."""
    rltui: str = "rltui"

    @property
    def is_ssh(self) -> bool:
        """True if it is reached by ssh, whose options are known."""
        return PurePath(self.command[0]).name == "ssh"

    def serving(self, *, prompts: bool) -> list[str]:
        """The command line of the other end of a link. `prompts`: ssh may ask for a password."""
        options = (*_ALIVE, "-T", *(() if prompts else _NO_PROMPTS))
        return [*self._with(options), self._line([self.rltui, "serve", "--stdio"])]

    def running(
        self, argv: Sequence[str], *, terminal: bool, env: Mapping[str, str] = MappingProxyType({})
    ) -> list[str]:
        """The command line that runs `argv` there with `env`, on this terminal or with pipes."""
        variables = "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())
        line = f"env {variables}{self._line(argv)}" if env else self._line(argv)
        return [*self._with((*_ALIVE, "-t" if terminal else "-T")), line]

    def forwarding(self, own_port: int, port: int) -> list[str]:
        """The command line that makes a port of that machine one of this, until its stdin ends."""
        options = (*_ALIVE, *_NO_PROMPTS, "-T", "-o", "ExitOnForwardFailure=yes")
        return [*self._with((*options, "-L", f"localhost:{own_port}:localhost:{port}")), "cat"]

    def forwarding_no_more(self, own_port: int, port: int) -> list[str]:
        """The command line that ends that also where it went through a shared connection, which would keep
        it.
        """
        return [*self._with(("-O", "cancel", "-L", f"localhost:{own_port}:localhost:{port}"))]

    def without_rltui(self, *output: str) -> RltuiError:
        """The error that there is no rltui, and what to do. `output`: what the shell there says."""
        return RltuiError(
            f"{self.rltui} not found on {self.name}",
            details=output,
            hint=f"install it there (pip install rltui), or give its path: "
            f"--host {self.name}:/path/to/rltui, "
            f'or in settings.toml [hosts.{self.name}] rltui = "/path/to/rltui"',
        )

    def _with(self, options: Sequence[str]) -> tuple[str, ...]:
        return (self.command[0], *options, *self.command[1:]) if self.is_ssh else self.command

    @staticmethod
    def _line(argv: Sequence[str]) -> str:
        """A command line for the shell there, which knows its own home."""
        program = argv[0]
        home = "~/" if program.startswith("~/") else ""
        return " ".join([home + shlex.quote(program.removeprefix(home)), *map(shlex.quote, argv[1:])])


def host_of(text: str, configured_hosts: Mapping[str, HostSettings]) -> RemoteMachine:
    """The machine of `--host`: a name in the settings, or an ssh destination, and perhaps the path of rltui.

    Raises:
        UsageError: if it can be neither.
    """
    if (settings := configured_hosts.get(text)) is not None:
        return configured(text, settings)
    with_path = _WITH_PATH.fullmatch(text)
    name = with_path["host"] if with_path else text
    if not name or name.startswith("-") or "/" in name or any(letter.isspace() for letter in name):
        raise UsageError(
            f"--host {text!r} is not a host",
            hint=(
                "as for ssh: box, me@box; with the path of rltui there: box:/opt/rltui/bin/rltui; or a"
                " name of [hosts] in settings.toml"
            ),
        )
    if with_path is None:
        return RemoteMachine(name, ("ssh", name))
    if (settings := configured_hosts.get(name)) is not None:
        return RemoteMachine(name, configured(name, settings).command, with_path["rltui"])
    return RemoteMachine(name, ("ssh", name), with_path["rltui"])


def configured(name: str, settings: HostSettings) -> RemoteMachine:
    return RemoteMachine(name, settings.reach or ("ssh", name), settings.rltui)
