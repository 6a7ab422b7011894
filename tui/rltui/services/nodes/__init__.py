"""Machines on which commands can be run: how a program gets there, and with what environment it begins.

`reach` of a node leads to it: words such as `ssh node-2` or `docker exec -i box`, behind which a command is
put. Since some of these hand a list of words on and some a line for a shell, the command is always `sh`, and
what it shall do is said on its stdin.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

_SSH_OPTIONS = {
    "BatchMode": "yes",
    "ControlMaster": "no",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ConnectTimeout": "10",
}
"""Nobody types a password, but a master connection that a person has opened is used. None of ours becomes
one, since others would end with it. A lost one is noticed within 15 s."""
_LOGIN_SHELL = """\
case "$SHELL" in *csh) SHELL=;; esac
[ -x "$SHELL" ] || SHELL=/bin/sh
export SHELL
exec "$SHELL" -l -c {line}
"""
"""csh takes no `-c` beside `-l`."""


def is_ssh(reach: Sequence[str]) -> bool:
    """Whether `reach` begins with ssh, whose options are known."""
    return PurePath(reach[0]).name == "ssh"


def reach_words(
    reach: Sequence[str], *, forward: Sequence[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """`reach`, of ssh with the `options` that a connection without a person needs, where it has not its own.

    `forward`: ports `PORT` or `HERE:THERE` of this machine that lead there while it lasts.
    """
    if not is_ssh(reach):
        return [Path(reach[0]).expanduser().as_posix() if reach[0].startswith("~") else reach[0], *reach[1:]]
    given = " ".join(reach)
    added = [f"-o{name}={value}" for name, value in _SSH_OPTIONS.items() if f"{name}=" not in given]
    if forward:
        added.append("-oExitOnForwardFailure=yes")
    for ports in forward:
        here, _, there = ports.partition(":")
        added += ["-L", f"127.0.0.1:{here}:127.0.0.1:{there or here}"]
    return [reach[0], *options, *added, *reach[1:]]


def shell_input(program: str, *, python: str, login: bool) -> bytes:
    """What `sh` is told so that it becomes `python` with this `program`, with `login` in the environment of a
    login shell: in a container that would undo what its image has set.

    `python` is looked for on the PATH there. What is behind it on stdin is the program's. Its text is seen
    by all who list processes there, and is to be short: see `program_input`.
    """
    line = f'exec {_found(python)} -I -u -c "$RLTUI_PROGRAM"'
    text = f"RLTUI_PROGRAM={shlex.quote(program)}\nexport RLTUI_PROGRAM\n"
    return (text + (_LOGIN_SHELL.format(line=shlex.quote(line)) if login else f"{line}\n")).encode()


def program_input(program: str, *, python: str, login: bool) -> bytes:
    """What `sh` is told so that it runs `python` with this `program`, which has no input.

    The program's text is on no command line. `python`, `login`: as for `shell_input`.
    """
    # By a pipe from a command that is built in: sh may have read ahead on its own stdin, and a here-document
    # would be a file in some shells. By descriptor 3: what a profile may read is not the program.
    said = f"printf %s {shlex.quote(program)} | "
    line = f"exec {_found(python)} -I -u -"
    if not login:
        return f"{said}{line}\n".encode()
    shell = _LOGIN_SHELL.format(line=shlex.quote(f"{line} <&3"))
    return f"{said}{{\n{shell}}} 3<&0 </dev/null\n".encode()


def _found(python: str) -> str:
    """The word for a shell: quoted, but for the home there."""
    home, _, rest = python.partition("/")
    return f"~/{shlex.quote(rest)}" if home == "~" else shlex.quote(python)


def shim_program(ending: str) -> str:
    """A program that puts the shim's package on a node, unless it is there, and then does what `ending` says.

    `root` is the folder that it was put into, and of which it can be imported.
    """
    shim = Path(__file__).parents[2] / "daemon" / "shim"
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(shim.glob("*.py"))}
    files = {f"rltui/daemon/shim/{name}": text for name, text in texts.items()}
    files |= {"rltui/__init__.py": "", "rltui/daemon/__init__.py": ""}
    version = hashlib.sha256(repr(files).encode()).hexdigest()[:12]
    there = f"import sys\nroot = unpack({files!r}, {version!r})\nsys.path.insert(0, root)\n"
    return f"{texts['unpack.py']}\n{there}{ending}\n"


def facts_command(
    reach: Sequence[str], request: Mapping[str, object], *, python: str, login: bool
) -> tuple[tuple[str, ...], bytes]:
    """What prints facts of the machine where `reach` leads (`daemon/shim/facts.py`), and its stdin."""
    ending = f"from rltui.daemon.shim.doctor import report\nreport({dict(request)!r})"
    return (*reach_words(reach), "sh"), program_input(shim_program(ending), python=python, login=login)


def tag_there(tag: str) -> str:
    """What an experiment's processes on a node are tagged with: not as those of one that runs from there."""
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
    """What reads the GPUs where `reach` leads, line by line, and its stdin. `tag`: of the experiment.

    `of_job`: where it leads into a job of SLURM, the component and attempt that the job is.
    """
    text = Path(__file__).with_name("gpu_report.py").read_text(encoding="utf-8")
    program = f"{text}\nwatch({tag_there(tag)!r}, {of_job!r})\n"
    return (*reach_words(reach), "sh"), program_input(program, python=python, login=login)


def command_input(command: Sequence[str], *, cwd: str, env: Mapping[str, str], login: bool) -> bytes:
    """What `sh` is told so that it becomes `command` with `env`; `login` as for `shell_input`."""
    line = _line(command, cwd, env)
    return (_LOGIN_SHELL.format(line=shlex.quote(line)) if login else f"{line}\n").encode()


def terminal_words(
    reach: Sequence[str], command: Sequence[str], *, cwd: str, env: Mapping[str, str], login: bool
) -> tuple[str, ...]:
    """`command` there with the terminal of this side; ssh is asked for one. `login` as for `shell_input`."""
    line = _line(command, cwd, env)
    line = f'exec "$SHELL" -l -c {shlex.quote(line)}' if login else line
    if not is_ssh(reach):
        return (*reach_words(reach), "sh", "-c", line)
    return (*reach_words(reach, options=["-t"]), line)


def _line(command: Sequence[str], cwd: str, env: Mapping[str, str]) -> str:
    words = ["env", *(f"{name}={value}" for name, value in env.items()), *command]
    return f"cd {shlex.quote(cwd)} && exec {shlex.join(words)}"
