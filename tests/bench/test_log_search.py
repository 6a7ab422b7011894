"""Searching a log of 1 GB, beside grep, which only counts."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bench.table import Row

from rltui.core.logs.query import Query
from rltui.services.logs.search import FileScan

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

BYTES = int(os.environ.get("BENCH_LOG_BYTES", 1 << 30))
LITERALS = ("needle in haystack", "CUDA out of memory", "Step 47112 ", "zzz")
REGEXES = (
    "needle|zebra",
    "Step [0-9]*7777 ",
    "[0-9]{9}",
    r"Loss: 0\.00[0-9]+ .*Norm: 0\.99",
    "ERROR.*memory",
)


def plain(number: int) -> str:
    minute, second = number // 60 % 60, number % 60
    return (
        f"23:{minute:02d}:{second:02d} SUCCESS Step {number} | Time: {number % 97 / 9:.2f}s | "
        f"Loss: {number * 7919 % 10007 / 10007:.4f} | Grad. Norm: {number * 104729 % 9973 / 9973:.4f}\n"
    )


def coloured(number: int) -> str:
    head, _, message = plain(number).rstrip("\n").partition(" SUCCESS ")
    return (
        f"\x1b[2m{head}\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22m{message}\x1b[0m\x1b[0m\n"
    )


def write_log(path: Path, line: Callable[[int], str]) -> None:
    block = "".join(map(line, range(60_000)))
    found = f"{block}23:03:15   ERROR needle in haystack: CUDA out of memory\n".encode()
    with path.open("wb") as file:
        while file.tell() < BYTES:
            file.write(found)
            for _ in range(9):
                file.write(block.encode())


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@pytest.mark.parametrize("line", [plain, coloured])
def test_search_beside_grep(tmp_path: Path, table: list[Row], line: Callable[[int], str]) -> None:
    path = tmp_path / "output.log"
    write_log(path, line)
    for option, patterns, share in (("-c", LITERALS, 0.5), ("-cE", REGEXES, 0.3)):
        for pattern in patterns:
            query = Query(re.compile(pattern), pattern)
            argv = ["grep", option, pattern, str(path)]
            ours, grep = (
                min(map(seconds, [run] * 3))
                for run in (
                    lambda query=query: sum(map(len, FileScan(path, query).batches())),
                    lambda argv=argv: subprocess.run(argv, stdout=subprocess.PIPE, check=False),
                )
            )
            table.append(
                Row(f"search {line.__name__}, {pattern}", ours, "s", f"grep {option}", grep, grep / share)
            )
            assert ours <= grep / share
    path.unlink()
