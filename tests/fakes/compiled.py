"""Compiles the C doubles of NVIDIA libraries: once per user and version of the source, kept between runs."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


@functools.cache
def built(library: str, sources: tuple[Path, ...], options: tuple[str, ...] = ()) -> Path:
    """Folder that holds `library`, compiled from the first of `sources`; the others are included by it.

    Skips the calling test where there is no C compiler.
    """
    content = b"".join(source.read_bytes() for source in sources) + repr(options).encode()
    cache = Path(tempfile.gettempdir()) / f"rltui-fakes-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    assert cache.stat().st_uid == os.getuid(), f"{cache} belongs to somebody else"
    folder = cache / hashlib.sha256(content).hexdigest()[:16]
    if not (folder / library).exists():
        folder.mkdir(exist_ok=True)
        _compile(folder / library, sources[0], options)
    return folder


def _compile(target: Path, source: Path, options: tuple[str, ...]) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip(f"no C compiler (cc, gcc, clang) to build the double of {target.name} with")
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{target.name}"]
    subprocess.run([compiler, *flags, *options, "-o", unfinished, source], check=True, timeout=60)
    unfinished.replace(target)  # other test workers build at the same time
