"""What the Python processes of a tree are doing: `py-spy dump` of each."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from rltui.core.interpreter import OWN_PYTHON
from rltui.services import subprocesses
from rltui.services.processes.identity import PROC, ProcessId, command_line, descendants, is_alive, read_stat

MOST_PROCESSES = 16
EACH_S = 10.0
"""For one process."""
_ALL_S = 20.0
"""For the tree."""
_AT_ONCE = 4
LONGEST_DUMP = 64 * 1024
"""Bytes kept of one process."""


def find_py_spy() -> str | None:
    """Beside this interpreter, else on the PATH; `None` where it is not installed."""
    beside = Path(OWN_PYTHON).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


async def dump_stacks(root: ProcessId, *, py_spy: str | None = None) -> str | None:
    """The stacks of `root` and its living descendants, parents first, for people.

    Takes at most `_ALL_S`, covers `MOST_PROCESSES`. What could not be read is said in its place.
    `None` where py-spy is not installed, or where the tree has no Python process.
    """
    program = py_spy or find_py_spy()
    if program is None:
        return None
    tree = await asyncio.to_thread(_python_processes, root)
    if not tree:
        return None
    turns = asyncio.Semaphore(_AT_ONCE)
    deadline = asyncio.get_running_loop().time() + _ALL_S
    shown = tree[:MOST_PROCESSES]
    dumps = await asyncio.gather(*(_dump(program, process, turns, deadline) for process in shown))
    left = len(tree) - len(shown)
    more = [f"… and {left} more Python processes, not asked"] if left else []
    return "\n\n".join([*dumps, *more]) + "\n"


def _python_processes(root: ProcessId) -> list[ProcessId]:
    return [
        process for process in (root, *descendants(root.pid)) if is_alive(process) and _is_python(process)
    ]


def _is_python(process: ProcessId) -> bool:
    """By its program or a library it has loaded; titles (`VLLM::EngineCore`) say nothing."""
    folder = PROC / str(process.pid)
    try:
        if "python" in (folder / "exe").readlink().name:
            return True
        return b"libpython" in (folder / "maps").read_bytes()
    except OSError:  # gone meanwhile, or another user's
        return False


async def _dump(program: str, process: ProcessId, turns: asyncio.Semaphore, deadline: float) -> str:
    heading = f"Process {process.pid}: {command_line(process.pid)}"
    async with turns:
        left_s = deadline - asyncio.get_running_loop().time()
        if left_s <= 0:
            return f"{heading}\n  not asked: the others took {_ALL_S:.0f} s"
        return await _ask(program, process, heading, min(EACH_S, left_s))


async def _ask(program: str, process: ProcessId, heading: str, limit_s: float) -> str:
    stat = read_stat(process.pid)
    # py-spy 0.4 gives up on a process that is stopped already, unless it need not stop it itself.
    stopped = ("--nonblocking",) if stat is not None and stat.state in {"T", "t"} else ()
    command = (program, "dump", *stopped, "--pid", str(process.pid))
    done = await subprocesses.run(command, timeout_s=limit_s)
    if done.code is None:
        return f"{heading}\n  no answer within {limit_s:.0f} s"
    if done.code != 0:
        return f"{heading}\n  {_failure(done.errors.decode(errors='replace'))}"
    return _shortened(done.output).rstrip()


def _failure(errors: str) -> str:
    if "permission denied" in errors.lower() or "operation not permitted" in errors.lower():
        return (
            "py-spy may not look into it: run rltui as the same user with CAP_SYS_PTRACE, "
            "or set kernel.yama.ptrace_scope = 0"
        )
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return (
        f"py-spy failed: {lines[0].removeprefix('Error: ')}"
        if lines
        else "py-spy failed and does not say why"
    )


def _shortened(output: bytes) -> str:
    text = output[:LONGEST_DUMP].decode(errors="replace")
    return text if len(output) <= LONGEST_DUMP else f"{text}\n  … cut after {LONGEST_DUMP // 1024} KiB"
