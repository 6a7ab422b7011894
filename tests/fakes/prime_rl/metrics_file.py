"""`metrics.jsonl` of the last generations: partial rows of two programs, several a step."""

from __future__ import annotations

import json
import time
from pathlib import Path, PurePath

from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.trees import has, value_at


class Metrics:
    """Appends rows; does nothing in generations without the file, and where it is switched off."""

    def __init__(self, generation: Generation, tree: Tree) -> None:
        is_off = has(tree, "monitors.file") and value_at(tree, "monitors.file") in (None, "None")
        self._path: Path | None = None
        if generation.is_late and not is_off:
            output = Path(value_at(tree, "output_dir", "outputs"))
            named = value_at(tree, "monitors.file.path", PurePath(generation.metrics).name)
            self._path = output / PurePath(generation.metrics).with_name(named)
        self._has_clock = generation.has_attempts

    def row(self, step: int, values: dict[str, float], clock: dict[str, float] | None = None) -> None:
        """The latest generation writes rows by the clock besides, without a step, with values `clock`."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows: list[dict[str, object]] = [{"step": step, "time": time.time(), **values}]
        if self._has_clock:
            rows.append(
                {
                    "step": None, "time": time.time(), "concurrency/max_inflight": 64.0, **(clock or {}),
                    "producer": "orch",
                }
            )  # fmt: skip
        with self._path.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
