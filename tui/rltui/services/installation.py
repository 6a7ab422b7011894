"""Tells whether the code that this process runs is still on disk: an upgrade replaces it under living
processes.

Such a process must leave the work to a new one: what it has yet to import, and the programs that it starts,
are of another version or gone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rltui.base.interpreter import OWN_PYTHON
from rltui.services.own_files import may_exist

SETTLED_S = 10.0
"""An update that has written nothing for so long is complete."""
_Versions = Mapping[Path, tuple[int, int] | None]


class LoadedCode:
    """The interpreter and the modules of rltui that this process has loaded, as they were on disk."""

    def __init__(self) -> None:
        modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "rltui"]
        files = {file for module in modules if (file := getattr(module, "__file__", None)) is not None}
        self._loaded: _Versions = {path: _version(path) for path in map(Path, (OWN_PYTHON, *files))}
        self._seen: _Versions = self._loaded
        self._seen_at = time.monotonic()

    @property
    def is_replaced(self) -> bool:
        """True if a file is another or gone; one that cannot be read now is left alone."""
        return self._is_replaced(self._look())

    def is_update_complete(self) -> bool:
        """True if the code was replaced, and calls have seen no other change for `SETTLED_S`."""
        seen, now = self._look(), time.monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        return now - self._seen_at >= SETTLED_S and self._is_replaced(seen)

    def _look(self) -> _Versions:
        return {path: _version(path) for path in self._loaded}

    def _is_replaced(self, seen: _Versions) -> bool:
        return any(
            seen[path] != loaded and (seen[path] is not None or not may_exist(path))
            for path, loaded in self._loaded.items()
        )


def _version(path: Path) -> tuple[int, int] | None:
    """Modification time in ns and size; `None` if the file cannot be read. Its inode may change on a network
    file system though nobody wrote.
    """
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size
