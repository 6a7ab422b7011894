"""Builds the test double of `libcuda.so.1` and says how to make a process load it.

As with the double of NVML beside it: only processes started with the environment made here load it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("libcuda.c")
LIBRARY = "libcuda.so.1"


def environment(uuids: Sequence[str], *, init: str = "0", old: bool = False) -> dict[str, str]:
    """Variables for a process that shall see these devices (`GPU-…`), fastest first.

    Skips the calling test where there is no C compiler.

    Args:
        uuids: of every device.
        init: result of `cuInit`, or `hang`.
        old: the driver is from before CUDA 11.4.
    """
    digits = [uuid.removeprefix("GPU-").replace("-", "") for uuid in uuids]
    return {
        "LD_LIBRARY_PATH": str(_built(("-DOLD",) if old else ())),
        "RLTUI_FAKE_CUDA": ",".join(digits),
        "RLTUI_FAKE_CUDA_INIT": init,
    }


def environment_without_driver(folder: Path) -> dict[str, str]:
    """Variables for a process that shall find no CUDA driver, whatever is installed.

    A text file of the library's name in the empty `folder` ends the loader's search.
    """
    (folder / LIBRARY).write_text("not a library\n")
    return {"LD_LIBRARY_PATH": str(folder)}


@functools.cache
def _built(options: tuple[str, ...]) -> Path:
    """Folder that holds the compiled double: one per user and version of the source, kept between runs."""
    digest = hashlib.sha256(SOURCE.read_bytes() + repr(options).encode()).hexdigest()[:16]
    cache = Path(tempfile.gettempdir()) / f"rltui-fake-cuda-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    assert cache.stat().st_uid == os.getuid(), f"{cache} belongs to somebody else"
    folder = cache / digest
    if not (folder / LIBRARY).exists():
        folder.mkdir(exist_ok=True)
        _compile(folder, options)
    return folder


def _compile(folder: Path, options: tuple[str, ...]) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc, clang) to build the CUDA double with")
    unfinished = folder / f"{LIBRARY}.{os.getpid()}"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}"]
    subprocess.run([compiler, *flags, *options, "-o", unfinished, SOURCE], check=True, timeout=60)
    unfinished.replace(folder / LIBRARY)  # other test workers build at the same time
