"""The recorded box: what real experiments left on disk.

The path of its root and the identity of its boot are placeholders, and the numbers of its models are zeros.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rltui.services.processes import boot_identity

ARCHIVE = Path(__file__).with_name("box.tar.xz")
PLACEHOLDER = "/tmp/rlt-RECORDED"
"""As long as the path of a box: offsets in files hold."""
REPOSITORY = str(Path(__file__).parents[2])
NOT_HERE = "/REPOSITORY"
"""In the place of the folder with the layouts that the runs were started with."""
BOOT = "boot-RECORDED".ljust(53, ".")
"""In the place of the identity of the boot: the box is one that has not been booted since."""
SAVED = ("work", "state", "config")
OMITTED = (".sqlite", ".sqlite-journal", ".lock", ".pyc")
"""The index of runs is made again from the folders."""
WEIGHTS = (".safetensors", ".pt")
HEAD_BYTES = 4096
"""Of a file of weights: names, types and shapes stand there."""


def pack(root: Path) -> None:
    """Keep what lies in a box."""
    packed = ARCHIVE.with_suffix(".new")
    with tarfile.open(packed, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for folder in SAVED:
            for path in sorted((root / folder).rglob("*")):
                if path.is_symlink() or path.name.endswith(OMITTED) or "__pycache__" in path.parts:
                    continue
                entry = archive.gettarinfo(path, str(path.relative_to(root)))
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                if path.is_file():
                    data = path.read_bytes().replace(os.environ["PATH"].encode(), b"/usr/bin:/bin")
                    if path.suffix in WEIGHTS:
                        data = data[:HEAD_BYTES].ljust(len(data), b"\0")
                    data = _replace_names(
                        data, {str(root): PLACEHOLDER, REPOSITORY: NOT_HERE, boot_identity(): BOOT}
                    )
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
                elif path.is_dir():
                    archive.addfile(entry)
    packed.replace(ARCHIVE)


@contextmanager
def unpacked() -> Iterator[Path]:
    """A folder with the recorded box; gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="rlt-", dir="/tmp"))
    assert len(str(root)) == len(PLACEHOLDER)
    try:
        for name in ("run", "cache", "tmux", *SAVED):
            (root / name).mkdir(mode=0o700)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(root, filter="data")
        for path in [each for folder in SAVED for each in (root / folder).rglob("*") if each.is_file()]:
            info, data = path.stat(), path.read_bytes()
            new_data = _replace_names(
                data, {PLACEHOLDER: str(root), NOT_HERE: REPOSITORY, BOOT: boot_identity()}
            )
            if new_data != data:
                path.write_bytes(new_data)
                os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _replace_names(data: bytes, names: Mapping[str, str]) -> bytes:
    for old, new in names.items():
        data = data.replace(old.encode(), new.encode())
    return data
