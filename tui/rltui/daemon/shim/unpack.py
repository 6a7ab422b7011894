# ruff: noqa: PTH208, PTH204, PTH202, PTH103, PTH105, PTH111, PTH118, PTH120, PTH123
"""The first thing that runs on a node: puts the shim's package there. Sent as text, see `services/nodes`."""

from __future__ import annotations

import os
import shutil
import time

_OLD_S = 7 * 86400.0


def folder() -> str:
    """The user's own on this node: what is sent, and the attempts that run here."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "rltui")


def unpack(files: dict[str, str], version: str) -> str:
    """Write what is not there yet of `files`, text by path. Returns the folder to import them from.

    Several nodes may share it, and several of them may write at once. What other versions of rltui have left
    there goes when it is old: who runs has imported all that he needs.
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
            _clear(root)
    return root


def _clear(root: str) -> None:
    """Old neighbours, whenever this one is new."""
    for name in os.listdir(folder()):
        other = os.path.join(folder(), name)
        try:
            is_old = time.time() - os.path.getmtime(other) > _OLD_S
        except OSError:  # another node was quicker
            continue
        if is_old and other != root and name.startswith("shim-"):
            shutil.rmtree(other, ignore_errors=True)
