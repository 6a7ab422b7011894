# ruff: noqa: PTH208, PTH204, PTH202, PTH103, PTH105, PTH111, PTH118, PTH120, PTH123
"""Puts the shim's package on a node: the first code that runs there, as text from `services/hosts/nodes`."""

from __future__ import annotations

import os
import shutil
import time

_OLD_S = 7 * 86400.0


def folder() -> str:
    """The cache folder of rltui for the user on this node: packages that were sent, and attempts that run
    here.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "rltui")


def unpack(files: dict[str, str], version: str) -> str:
    """Write the files that are not there yet, given as text by path. Returns the folder to import them from.

    Several nodes may share the folder, and may write at once. Packages of other versions are removed when
    they are old: a process that runs has imported all that it needs.
    """
    root = os.path.join(folder(), "shim-" + version)
    for name, text in files.items():
        path = os.path.join(root, name)
        data = text.encode()
        try:
            is_there = os.path.getsize(path) == len(data)
        except OSError:
            is_there = False
        if not is_there:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            temporary = f"{path}.{os.uname().nodename}.{os.getpid()}"
            with open(temporary, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
            _remove_old(root)
    return root


def _remove_old(root: str) -> None:
    """Remove packages of other versions that were not touched for `_OLD_S`."""
    for name in os.listdir(folder()):
        path = os.path.join(folder(), name)
        try:
            is_old = time.time() - os.path.getmtime(path) > _OLD_S
        except OSError:  # another node was quicker
            continue
        if is_old and path != root and name.startswith("shim-"):
            shutil.rmtree(path, ignore_errors=True)
