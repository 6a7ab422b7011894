"""The config of a run, whether it is written in one file or in three, as the run gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltui.core.config.data import apply_edits
from rltui.core.config.knobs import KnobValue
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl import ports
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.values import is_table


@dataclass(frozen=True, slots=True)
class RunConfigReader:
    """Reads the files of one generation, or of the one that they show."""

    generation: Generation
    servers: tuple[str, ...] = ()
    """Addresses that a person chose for inference; empty: those of the config."""
    is_lent: bool = False
    """The server is one that the config would start, of another experiment."""

    def as_written(self, files: ConfigFiles) -> Mapping[str, Any]:
        """One merged config; of three files each below its role."""
        merged = next((files[role].data for role in ("rl", "sft") if role in files), None)
        return {role: file.data for role, file in files.items()} if merged is None else merged

    def generation_of(self, files: ConfigFiles) -> Generation:
        return self.generation.of(self.as_written(files), "sft" if "sft" in files else "rl")

    def address_edits(self, files: ConfigFiles) -> dict[str, KnobValue]:
        """Edits of the merged config for the addresses that a person chose; without [inference], unless that
        describes the server.
        """
        if not self.servers or not self.has_parts(files):
            return {}
        data = self.as_written(files)
        move = ports.lent if self.is_lent and is_table(data, "inference") else ports.sent_to
        return move(self.generation_of(files), data, self.servers)

    def __call__(self, files: ConfigFiles) -> Mapping[str, Any]:
        """The merged config as if it named these addresses."""
        data, edits = self.as_written(files), self.address_edits(files)
        return apply_edits(data, edits) if edits else data

    def has_parts(self, files: ConfigFiles) -> bool:
        """It is for processes that work together: RL, or SFT with evaluations."""
        return "sft" not in files or self.generation_of(files).role == "sft"

    def of_parts(self, files: ConfigFiles) -> Mapping[str, Any]:
        """That of a run with parts; empty for SFT alone."""
        return self(files) if self.has_parts(files) else {}
