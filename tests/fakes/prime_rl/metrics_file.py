"""`metrics.jsonl` of the last generation: partial rows of two programs, several a step."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.trees import has, value_at


class Metrics:
    """Appends rows; does nothing in generations without the file, and where it is switched off."""

    def __init__(self, generation: Generation, tree: Tree) -> None:
        is_off = has(tree, "monitors.file") and value_at(tree, "monitors.file") in (None, "None")
        self._path: Path | None = None
        if generation.name == "C" and not is_off:
            output = Path(value_at(tree, "output_dir", "outputs"))
            self._path = output / value_at(tree, "monitors.file.path", "metrics.jsonl")

    def row(self, step: int, values: dict[str, float]) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"step": step, "time": time.time(), **values}) + "\n")
