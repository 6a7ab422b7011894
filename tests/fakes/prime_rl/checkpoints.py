"""Checkpoints: where they are, what makes one complete, from which one a program goes on."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.prime_rl.folders import steps
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.lines import Printer, raise_uncaught
from tests.fakes.prime_rl.trees import has, value_at


class Checkpoints:
    """The half of one program: `trainer` or `orchestrator`. Without a `[ckpt]` table nothing is saved."""

    def __init__(self, generation: Generation, tree: Tree, half: str) -> None:
        output = value_at(tree, "ckpt.output_dir", value_at(tree, "output_dir", "outputs"))
        self.folder = Path(output) / "checkpoints"
        self._generation = generation
        self._half = half
        self._saves = tree.get("ckpt") is not None
        self._interval = value_at(tree, "ckpt.interval")
        self._wanted = _wanted(generation, tree)

    @property
    def interval(self) -> int | None:
        return int(self._interval) if self._interval else None

    def is_due(self, step: int) -> bool:
        return self._saves and self.interval is not None and step % self.interval == 0

    def save(self, step: int, out: Printer, *, last: bool = False) -> None:
        """Write this half; the last one also where no interval is set."""
        if not self._saves:
            return
        out.info("Writing final checkpoint" if last else f"Saving checkpoint at step {step}")
        folder = self.folder / f"step_{step}"
        target = folder / self._half
        target.mkdir(parents=True, exist_ok=True)
        # torch's distributed checkpoints are complete once `.metadata` is there.
        (target / ("progress.pt" if self._half == "orchestrator" else ".metadata")).write_text(str(step))
        if self._half == "trainer" and self._generation.marks_checkpoints:
            (folder / "STABLE").touch()

    def resume_step(self, out: Printer) -> int | None:
        """The checkpoint to go on from, loaded; `None` for a fresh start. Ends the process where that
        is missing.

        "The latest" is the highest number, whether it is complete or not.
        """
        step = self._wanted
        if step == -1:
            steps_there = steps(self.folder)
            if not steps_there:
                out.warning(f"No checkpoints found in {self.folder}. Starting from scratch.")
                return None
            step = steps_there[-1]
        if step is None:
            return None
        if not (self.folder / f"step_{step}" / self._half).is_dir():
            raise_uncaught(
                f"FileNotFoundError: Checkpoint not found at {self.folder}/step_{step}/{self._half}"
            )
        return step


def _wanted(generation: Generation, tree: Tree) -> int | None:
    """The step to resume from; -1: the latest."""
    if generation.is_late:
        if not has(tree, "resume") or tree["resume"] is None:
            return None
        return int(value_at(tree, "resume.step", -1))
    step = value_at(tree, "ckpt.resume_step")
    if generation.name == "A1" and step == 0:
        return None
    return None if step is None else int(step)
