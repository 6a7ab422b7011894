"""Folder, length and checkpoints of a run of the embedded engine, as its config says."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.run_settings import RunSettings
from rltui.frameworks.schemas import SchemaFramework


@dataclass(frozen=True)
class TinyRlRunSettings(RunSettings):
    reader: SchemaFramework
    """Reads values of its config."""

    def output_dir(self, files: ConfigFiles) -> str | None:
        return self.reader.sound_text(files, "output_dir")

    def max_steps(self, files: ConfigFiles) -> int | None:
        return self.reader.sound_count(files, "max_steps")

    def preparation_steps(self, component: str, files: ConfigFiles) -> int | None:
        """Number of steps of the warm-up."""
        return self.reader.sound_count(files, "sft.max_steps") if component == "sft" else None

    def checkpoint_interval(self, files: ConfigFiles) -> int | None:
        """The default if the file does not say; none without a table `[ckpt]`."""
        return self.reader.sound_count(files, "ckpt.interval")
