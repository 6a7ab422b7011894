"""Another editor, which saves a config at any moment and in any way."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import ready_process

PROGRAM = Path(__file__).parent / "programs/saves.py"


@dataclass
class Saves:
    """Counts of the editor's saves, once it has ended."""

    made: int = 0
    lost: int = 0


@contextmanager
def saving_editor(path: Path) -> Iterator[Saves]:
    """Saves `path` as long as this lasts: keys `mine`, always 0, and `theirs`, and a long comment."""
    saves = Saves()
    end = Path(f"{path}.stop")
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(path), str(random.randrange(1 << 30))]
    with ready_process(command, "ready") as editor:
        try:
            yield saves
        finally:
            end.touch()
            assert editor.stdout is not None
            saves.made, saves.lost = map(int, editor.stdout.read().split())
            end.unlink()
