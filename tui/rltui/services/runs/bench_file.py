"""Benches on disk: a file each, changed under one lock. Killed at any point, it is as before or as after."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rltui import paths
from rltui.base.text import unknown_name
from rltui.base.values import InvalidValueError
from rltui.core.runs.bench import Bench
from rltui.errors import ConflictError, RltuiError
from rltui.services.own_files import FileLock, entry_names, make_folder, read_own, write_atomically

logger = logging.getLogger(__name__)
_LOCK_TIMEOUT_S = 60.0


def bench_names() -> list[str]:
    return [Path(name).stem for name in entry_names(paths.bench_folder()) if name.endswith(".json")]


def read_benches() -> tuple[Bench, ...]:
    """All benches, newest first. One whose file is damaged is left out, and the others go on."""
    benches = []
    for name in bench_names():
        try:
            benches.append(_read(name))
        except RltuiError as error:
            logger.error("%s", error)
    return tuple(sorted(benches, key=lambda bench: -bench.at))


def read_bench(name: str) -> Bench:
    """Raises UsageError if there is none of that name, RltuiError if it cannot be read."""
    if name not in (names := bench_names()):
        raise unknown_name("bench", name, names)
    return _read(name)


def add_bench(bench: Bench) -> None:
    """Raises ConflictError if the name is taken."""
    with _locked():
        if bench.name in bench_names():
            raise ConflictError(f"the bench {bench.name} exists already", hint="choose another name with -n")
        _write(bench)


def change_bench(name: str, change: Callable[[Bench], Bench]) -> Bench:
    """Replace the bench by the result of `change`, and return that.

    Raises:
        UsageError: if there is none of that name.
        RltuiError: if it cannot be read or written, or as `change`; nothing is changed then.
    """
    with _locked():
        before = read_bench(name)
        after = change(before)
        if after != before:
            _write(after)
    return after


@contextmanager
def _locked() -> Iterator[None]:
    make_folder(paths.bench_folder(), mode=0o700)
    with FileLock(paths.bench_folder() / "bench.lock").hold(wait_s=_LOCK_TIMEOUT_S):
        yield


def _write(bench: Bench) -> None:
    write_atomically(paths.bench_folder() / f"{bench.name}.json", bench.to_json())


def _read(name: str) -> Bench:
    path = paths.bench_folder() / f"{name}.json"
    try:
        return Bench.from_json(read_own(path))
    except (InvalidValueError, OSError) as error:
        raise RltuiError(
            f"cannot read the bench {path}: {error}", hint="delete the file to forget it"
        ) from error
