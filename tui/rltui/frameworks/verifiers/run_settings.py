"""Folder, length and checkpoints of a run of vf-rl, as its config says."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.run_settings import RunSettings
from rltui.frameworks.schemas import SchemaFramework
from rltui.frameworks.verifiers.files import ARGS


@dataclass(frozen=True)
class VfRlRunSettings(RunSettings):
    reader: SchemaFramework
    """Reads values of its config."""

    def output_dir(self, files: ConfigFiles) -> str | None:
        """`outputs/<run_name>`, unless the file sets another."""
        return self.reader.sound_text(files, f"{ARGS}.output_dir")

    def max_steps(self, files: ConfigFiles) -> int | None:
        return self.reader.sound_count(files, f"{ARGS}.max_steps")

    def checkpoint_interval(self, files: ConfigFiles) -> int | None:
        return self.reader.sound_count(files, f"{ARGS}.save_steps")
