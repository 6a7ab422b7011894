"""Machines on which commands can be run: how to reach them, and with what environment a program starts.

`reach` of a node is the beginning of a command line such as `ssh node-2` or `docker exec -i box`, to which a
command is appended. Since some of these pass on arguments and some a line for a shell, the command is always
`sh`, with a script on its stdin.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

_SSH_OPTIONS = {
    "BatchMode": "yes",
    "ControlMaster": "no",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ConnectTimeout": "10",
}
"""Nobody can type a password, but a master connection that a person has opened is used. None of ours becomes
one, since others would end with it. A lost connection is noticed within 15 s.
"""
_LOGIN_SHELL = """\
case "$SHELL" in *csh) SHELL=;; esac
[ -x "$SHELL" ] || SHELL=/bin/sh
export SHELL
exec "$SHELL" -l -c {line}
"""
"""csh does not accept `-c` together with `-l`."""


def is_ssh(reach: Sequence[str]) -> bool:
    """True if `reach` is a command of ssh, whose options are known."""
    return PurePath(reach[0]).name == "ssh"


def reach_argv(
    reach: Sequence[str], *, forward: Sequence[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """`reach`; for ssh with the `options` that a connection without a person needs, unless it sets them.

    `forward`: ports `PORT` or `LOCAL:REMOTE` of this machine that are forwarded during the connection.
    """
    if not is_ssh(reach):
        return [Path(reach[0]).expanduser().as_posix() if reach[0].startswith("~") else reach[0], *reach[1:]]
    command_line = " ".join(reach)
    extra_options = [
        f"-o{name}={value}" for name, value in _SSH_OPTIONS.items() if f"{name}=" not in command_line
    ]
    if forward:
        extra_options.append("-oExitOnForwardFailure=yes")
    for ports in forward:
        local_port, _, remote_port = ports.partition(":")
        extra_options += ["-L", f"127.0.0.1:{local_port}:127.0.0.1:{remote_port or local_port}"]
    return [reach[0], *options, *extra_options, *reach[1:]]


def shell_input(program: str, *, python: str, login: bool) -> bytes:
    """Stdin for `sh` that makes it run `python` with this `program`; with `login`, in the environment of a
    login shell, which in a container would undo the settings of its image.

    `python` is searched on the PATH there. Further stdin goes to the program. Its source is visible to all
    who list processes there, and must be short: see `program_input`.
    """
    line = f'exec {_shell_word(python)} -I -u -c "$RLTUI_PROGRAM"'
    text = f"RLTUI_PROGRAM={shlex.quote(program)}\nexport RLTUI_PROGRAM\n"
    return (text + (_LOGIN_SHELL.format(line=shlex.quote(line)) if login else f"{line}\n")).encode()


def program_input(program: str, *, python: str, login: bool) -> bytes:
    """Stdin for `sh` that makes it run `python` with this `program`, which has no stdin.

    The program's source is on no command line. `python`, `login`: as for `shell_input`.
    """
    # By a pipe from a command that is built in: sh may have read ahead on its own stdin, and a here-document
    # would be a file in some shells. By descriptor 3: what a profile may read is not the program.
    pipe = f"printf %s {shlex.quote(program)} | "
    line = f"exec {_shell_word(python)} -I -u -"
    if not login:
        return f"{pipe}{line}\n".encode()
    shell = _LOGIN_SHELL.format(line=shlex.quote(f"{line} <&3"))
    return f"{pipe}{{\n{shell}}} 3<&0 </dev/null\n".encode()


def _shell_word(python: str) -> str:
    """The path quoted for a shell, except for the home directory there."""
    home, _, path = python.partition("/")
    return f"~/{shlex.quote(path)}" if home == "~" else shlex.quote(python)


def shim_program(ending: str) -> str:
    """A program that installs the shim's package on a node, unless it exists, and then runs `ending`.

    Its variable `root` is the folder of the package, from which it can be imported.
    """
    shim = Path(__file__).parents[3] / "hosts" / "shim"
    sources = {path.name: path.read_text(encoding="utf-8") for path in sorted(shim.glob("*.py"))}
    files = {f"rltui/hosts/shim/{name}": text for name, text in sources.items()}
    files |= {"rltui/__init__.py": "", "rltui/hosts/__init__.py": ""}
    version = hashlib.sha256(repr(files).encode()).hexdigest()[:12]
    setup = f"import sys\nroot = unpack({files!r}, {version!r})\nsys.path.insert(0, root)\n"
    return f"{sources['unpack.py']}\n{setup}{ending}\n"


def facts_command(
    reach: Sequence[str], request: Mapping[str, object], *, python: str, login: bool
) -> tuple[tuple[str, ...], bytes]:
    """The command that prints details of the machine at `reach` (`hosts/shim/doctor.py`), and its stdin."""
    ending = f"from rltui.hosts.shim.doctor import report\nreport({dict(request)!r})"
    return (*reach_argv(reach), "sh"), program_input(shim_program(ending), python=python, login=login)


def node_tag(tag: str) -> str:
    """The tag of an experiment's processes on a node, different from that of an experiment started there."""
    name, _, folder = tag.partition("@")
    return f"{name}@{os.uname().nodename}:{folder}"


def gpu_command(
    reach: Sequence[str],
    *,
    python: str = "python3",
    login: bool = True,
    tag: str = "",
    of_job: tuple[str, int] | None = None,
) -> tuple[tuple[str, ...], bytes]:
    """The command that prints the GPUs at `reach`, a report per line, and its stdin. `tag`: of the
    experiment.

    `of_job`: if it leads into a job of SLURM, the component and attempt that the job is.
    """
    text = Path(__file__).with_name("gpu_report.py").read_text(encoding="utf-8")
    program = f"{text}\nwatch({node_tag(tag)!r}, {of_job!r})\n"
    return (*reach_argv(reach), "sh"), program_input(program, python=python, login=login)


def sent_variables(host: Mapping[str, Any]) -> dict[str, str]:
    """The variables of this process that are to be passed on to the host."""
    return {name: os.environ[name] for name in host["send_env"] if name in os.environ}


def command_input(
    command: Sequence[str], *, cwd: str, env: Mapping[str, str], sent: Mapping[str, str], login: bool
) -> bytes:
    """Stdin for `sh` that makes it run `command` with `env`, and with what is `sent`, whose values are on no
    command line; `login` as for `shell_input`.
    """
    # By names of their own: what a profile sets must not win.
    exports = "".join(f"export RLTUI_SENT_{name}={shlex.quote(value)}\n" for name, value in sent.items())
    taken = "".join(f'export {name}="$RLTUI_SENT_{name}" && ' for name in sent)
    line = taken + _line(command, cwd, env)
    return (exports + (_LOGIN_SHELL.format(line=shlex.quote(line)) if login else f"{line}\n")).encode()


def terminal_argv(
    reach: Sequence[str],
    command: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    send_env: Sequence[str],
    login: bool,
) -> tuple[str, ...]:
    """Arguments that run `command` there with this terminal; ssh allocates one. `login` as for
    `shell_input`.

    `send_env`: variables of ours that ssh passes on by itself, where the server there accepts them; values on
    a command line are seen by everybody.
    """
    line = _line(command, cwd, env)
    line = f'exec "$SHELL" -l -c {shlex.quote(line)}' if login else line
    if not is_ssh(reach):
        return (*reach_argv(reach), "sh", "-c", line)
    return (*reach_argv(reach, options=["-t", *(f"-oSendEnv={name}" for name in send_env)]), line)


def _line(command: Sequence[str], cwd: str, env: Mapping[str, str]) -> str:
    argv = ["env", *(f"{name}={value}" for name, value in env.items()), *command]
    return f"cd {shlex.quote(cwd)} && exec {shlex.join(argv)}"
