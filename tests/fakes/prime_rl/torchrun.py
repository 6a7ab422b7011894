"""torchrun: a process per rank, its output to files and, for some ranks, prefixed to stdout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from types import FrameType
from typing import IO

from tests.fakes.prime_rl.generation import Generation

_PROGRAMS = {"prime_rl.trainer.rl.train": "trainer", "prime_rl.trainer.sft.train": "sft-trainer"}
_FLAGS = ("standalone", "no-python")


def torchrun(generation: Generation, arguments: list[str]) -> int:
    """The program `torchrun`: options, `-m MODULE` or a script, then the arguments of that."""
    options, program, rest = _parse(arguments)
    world = int(options.get("nproc-per-node", "1"))
    visible_ranks = {
        int(rank) for rank in options.get("local-ranks-filter", ",".join(map(str, range(world)))).split(",")
    }
    role = options.get("role", "default")
    folder = None
    if "log-dir" in options:
        name = f"{options.get('rdzv-id', 'none')}_{uuid.uuid4().hex[:8]}"
        folder = Path(options["log-dir"]) / name / "attempt_0"
    ranks = [_start(program, rest, rank, world) for rank in range(world)]

    def end(number: int, frame: FrameType | None) -> None:
        for child in ranks:
            child.terminate()
        sys.exit(1)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    readers = []
    for rank, child in enumerate(ranks):
        prefix = f"[{role}{rank}]:" if rank in visible_ranks else None
        reader = threading.Thread(target=_hand_on, args=(child.stdout, prefix, folder, rank))
        reader.start()
        readers.append(reader)
    code = ranks[0].wait()
    for child in ranks[1:]:
        child.terminate()
        child.wait()
    for reader in readers:
        reader.join()
    if code:
        failed = "Root Cause (first observed failure):\n  rank: 0  exitcode: "
        print(
            f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n{failed}{code}", flush=True
        )
    return 1 if code else 0


def _parse(arguments: list[str]) -> tuple[dict[str, str], str, list[str]]:
    options: dict[str, str] = {}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        argument = arguments[index]
        if argument == "-m":
            return options, _PROGRAMS[arguments[index + 1]], arguments[index + 2 :]
        name, equals, value = argument.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not equals and name not in _FLAGS:
            index += 1
            value = arguments[index]
        options[name] = value
        index += 1
    module = arguments[index].removeprefix("src/").removesuffix(".py").replace("/", ".")
    return options, _PROGRAMS[module[module.index("prime_rl.") :]], arguments[index + 1 :]


def _start(program: str, arguments: list[str], rank: int, world: int) -> subprocess.Popen[bytes]:
    path = Path(sys.argv[0]).parent / program
    environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    return subprocess.Popen(
        [str(path), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
    )


def _hand_on(stream: IO[bytes], prefix: str | None, folder: Path | None, rank: int) -> None:
    file = None
    if folder is not None:
        path = folder / str(rank) / "stdout.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    for line in stream:
        if file is not None:
            file.write(line)
            file.flush()
        if prefix is not None:
            sys.stdout.buffer.write(prefix.encode() + line)
            sys.stdout.flush()
    if file is not None:
        file.close()
