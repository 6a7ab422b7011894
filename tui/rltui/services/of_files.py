"""What follows from a config is worked out once for each config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple

from rltui.frameworks.base import ConfigFiles

Args = TypeVarTuple("Args")
T = TypeVar("T")


class OfFiles(Generic[*Args, T]):
    """A function of config files and hashable arguments, whose results are kept until files are read again.

    What raises is not kept.
    """

    def __init__(self, work: Callable[[ConfigFiles, *Args], T]) -> None:
        self._work = work
        self._files: ConfigFiles = {}
        self._results: dict[tuple[*Args], T] = {}

    def __call__(self, files: ConfigFiles, *args: *Args) -> T:
        if not _are_same(files, self._files):
            self._files, self._results = files, {}
        if args not in self._results:
            self._results[args] = self._work(files, *args)
        return self._results[args]


def _are_same(files: ConfigFiles, others: ConfigFiles) -> bool:
    """From one reading. Equal values will not do: `1` equals `1.0` and `true`."""
    return files.keys() == others.keys() and all(
        file.data is others[role].data and file.path == others[role].path for role, file in files.items()
    )
