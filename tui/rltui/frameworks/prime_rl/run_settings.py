"""Folder, length and checkpoints of a run of prime-rl, as its config says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl import evaluation, values
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.run_settings import RunFiles, RunSettings, WeightsMaker

WRITERS = ("orchestrator", "trainer", "sft")
"""Roles of files whose programs write into the run's folder."""


@dataclass(frozen=True)
class PrimeRlRunSettings(RunSettings):
    generation: Generation
    config: Callable[[ConfigFiles], Mapping[str, Any]]
    """One merged config, as the run gets it."""

    def output_dir(self, files: ConfigFiles) -> str | None:
        for role in ("rl", *WRITERS):
            data = files[role].data if role in files else {}
            group = values.text(data, "output_dir")
            run = values.text(data, "run.dir", "run.name") if self.generation.run_folders else None
            if run is not None or group is not None:
                is_below = self.generation.run_folders
                return str(PurePath(group or "outputs") / (run or "")) if is_below else group
        return None

    def files(self, files: ConfigFiles) -> RunFiles:
        return self.generation.sft_files if "sft" in files else self.generation.rl_files

    def max_steps(self, files: ConfigFiles) -> int | None:
        """The shared value, or that of one program."""
        return values.first_count(files, "max_steps", "trainer.max_steps", "orchestrator.max_steps")

    def checkpoint_interval(self, files: ConfigFiles) -> int | None:
        """The shared value, or that of the trainer."""
        return values.first_count(files, "ckpt.interval", "trainer.ckpt.interval")

    def weights_maker(self, files: ConfigFiles, run_dir: str, step: int) -> WeightsMaker | None:
        """Export of torch's distributed checkpoint, by a script in its environment: its releases have
        none.
        """
        return evaluation.weights_maker(self.config(files), run_dir, step, is_sft="sft" in files)
