"""Builds the test double of `libnvidia-ml.so.1` and says how to make a process load it.

The loader reads `LD_LIBRARY_PATH` at process start, so the double reaches only processes started with the
environment made here, and never the test process itself.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = (HERE / "libnvidia_ml.c", HERE / "scenario.h")
SCENARIOS = HERE / "scenarios"
LIBRARY = "libnvidia-ml.so.1"
SCENARIO_VARIABLE = "RLTUI_FAKE_NVML"


def environment(scenario: str | Path) -> dict[str, str]:
    """Variables for a process that shall see the machine of `scenario`: a shipped name or a file.

    Skips the calling test where there is no C compiler.
    """
    path = scenario if isinstance(scenario, Path) else SCENARIOS / f"{scenario}.conf"
    return {**os.environ, "LD_LIBRARY_PATH": str(_built()), SCENARIO_VARIABLE: str(path)}


def environment_without_driver(folder: Path) -> dict[str, str]:
    """Variables for a process that shall find no NVML, whatever is installed.

    A text file of the library's name in the empty `folder` ends the loader's search.
    """
    (folder / LIBRARY).write_text("not a library\n")
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}


@functools.cache
def _built() -> Path:
    """Folder that holds the compiled double: one per user and version of the source, kept between runs."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]
    cache = Path(tempfile.gettempdir()) / f"rltui-fake-nvml-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    assert cache.stat().st_uid == os.getuid(), f"{cache} belongs to somebody else"
    folder = cache / digest
    if not (folder / LIBRARY).exists():
        folder.mkdir(exist_ok=True)
        _compile(folder)
    return folder


def _compile(folder: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc, clang) to build the NVML double with")
    unfinished = folder / f"{LIBRARY}.{os.getpid()}"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}"]
    subprocess.run([compiler, *flags, "-o", unfinished, SOURCES[0]], check=True, timeout=60)
    unfinished.replace(folder / LIBRARY)  # other test workers build at the same time
