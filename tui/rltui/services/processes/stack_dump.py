"""Stack dumps of the Python processes of a tree: `py-spy dump` of each."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from rltui.base.interpreter import OWN_PYTHON
from rltui.services.processes import subprocesses
from rltui.services.processes.identity import PROC, ProcessId, command_line, descendants, is_alive, read_stat

MOST_PROCESSES = 16
PROCESS_TIMEOUT_S = 10.0
"""Limit for one process, in seconds."""
_TOTAL_TIMEOUT_S = 20.0
"""Limit for the complete tree."""
_AT_ONCE = 4
LONGEST_DUMP = 64 * 1024
"""Limit of the dump of one process, in bytes."""


def find_py_spy() -> str | None:
    """Path next to this interpreter, else on the PATH; `None` if it is not installed."""
    adjacent = Path(OWN_PYTHON).with_name("py-spy")
    return str(adjacent) if adjacent.is_file() else shutil.which("py-spy")


async def dump_stacks(root: ProcessId, *, py_spy: str | None = None) -> str | None:
    """The stacks of `root` and its living descendants, parents first, for display.

    Takes at most `_TOTAL_TIMEOUT_S`, covers `MOST_PROCESSES`. Failures are described in place of the stacks.
    `None` if py-spy is not installed, or the tree has no Python process.
    """
    program = py_spy or find_py_spy()
    if program is None:
        return None
    tree = await asyncio.to_thread(lambda: list(filter(_is_python, (root, *descendants(root.pid)))))
    if not tree:
        return None
    turns = asyncio.Semaphore(_AT_ONCE)
    deadline = asyncio.get_running_loop().time() + _TOTAL_TIMEOUT_S
    dumped = tree[:MOST_PROCESSES]
    dumps = await asyncio.gather(*(_dump(program, process, turns, deadline) for process in dumped))
    remaining = len(tree) - len(dumped)
    more = [f"… and {remaining} more Python processes, skipped"] if remaining else []
    return "\n\n".join([*dumps, *more]) + "\n"


def _is_python(process: ProcessId) -> bool:
    """True if it lives, and its program or a loaded library is Python's; titles (`VLLM::EngineCore`) prove
    nothing.
    """
    if not is_alive(process):
        return False
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
        remaining_s = deadline - asyncio.get_running_loop().time()
        if remaining_s <= 0:
            return f"{heading}\n  skipped: the others took {_TOTAL_TIMEOUT_S:.0f} s"
        stat = read_stat(process.pid)
        # py-spy 0.4 gives up on a process that is stopped already, unless it need not stop it itself.
        stopped = ("--nonblocking",) if stat is not None and stat.state in {"T", "t"} else ()
        command = (program, "dump", *stopped, "--pid", str(process.pid))
        limit_s = min(PROCESS_TIMEOUT_S, remaining_s)
        outcome = await subprocesses.run(command, timeout_s=limit_s)
    if outcome.code is None:
        return f"{heading}\n  no answer within {limit_s:.0f} s"
    if outcome.code != 0:
        return f"{heading}\n  {_failure(outcome.errors.decode(errors='replace'))}"
    return _truncate(outcome.output).rstrip()


def _failure(errors: str) -> str:
    if "permission denied" in errors.lower() or "operation not permitted" in errors.lower():
        return (
            "py-spy lacks permission: run rltui as the same user with CAP_SYS_PTRACE, or set"
            " kernel.yama.ptrace_scope = 0"
        )
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return (
        f"py-spy failed: {lines[0].removeprefix('Error: ')}" if lines else "py-spy failed without a message"
    )


def _truncate(output: bytes) -> str:
    text = output[:LONGEST_DUMP].decode(errors="replace")
    return text if len(output) <= LONGEST_DUMP else f"{text}\n  … truncated after {LONGEST_DUMP // 1024} KiB"
