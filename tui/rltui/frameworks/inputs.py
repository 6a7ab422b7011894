"""What a framework is asked with: the files of a config, and the context of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rltui import paths
from rltui.base.template import Missing
from rltui.core.config.data import apply_edits


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One TOML file as it was read, or as an edit would leave it."""

    role: str
    """Role of the file in its framework: `rl`, `sft` …; empty where no framework reads it."""
    path: str
    """Absolute and not resolved: links stay as the user gave them."""
    data: Mapping[str, Any]
    passed: Mapping[str, Any] = field(default_factory=dict)
    """For the copy that a component was started with: dotted key → value that it got in place of the file's;
    `None` stands for a key that was removed.
    """
    content: bytes = b""
    """Empty if it was made of data alone."""

    @property
    def text(self) -> str:
        return self.content.decode()


ConfigFiles = Mapping[str, ConfigFile]
"""Role of a file → the file."""
Parsed = Sequence[tuple[str, Mapping[str, Any]]]
"""Path and content of some files."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """Values for the command templates besides the config."""

    workspace: str
    """Absolute folder in which components run."""
    output_dir: str
    """Absolute path."""
    python: str
    """Interpreter of rltui itself."""
    name: str = "run"
    run_dir: str = ""
    """Absolute folder that the framework writes this run into; empty: `output_dir`."""
    run: tuple[str, ...] | Missing = ()
    """Prefix of the framework's own programs: `uv run`, `uv run --project DIR`, or nothing if they are on
    the path.
    """
    traits: frozenset[str] | None = None
    """Names of the `Checkout.traits` that the checkout has; `None` if there is no checkout."""
    run_id: str = ""
    """Constant from the beginning of a run over all its resumes; empty outside a running experiment."""
    resolved: Mapping[str, str] = field(default_factory=dict)
    """Name, such as `trainer` → absolute path of the file that the framework made from the config for it;
    empty if nothing was resolved.
    """
    made: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The same names → content of those files."""
    resume_step: int | None = None
    """Checkpoint to continue from; `None` starts from the beginning."""
    overrides: Mapping[str, int | str] = field(default_factory=dict)
    """Knob name → value that rltui chose for this experiment; it precedes the one of the config."""
    cuda_devices: tuple[str, ...] = ()
    """Devices that a process started now would see as `cuda:0`, `cuda:1` …, named as in
    `CUDA_VISIBLE_DEVICES`. Empty if there is no GPU, or the interpreter's torch cannot use one.
    """
    submits: bool = False
    """The layout runs some component as a SLURM job: a launcher that gets a config is to write a script."""
    devices: tuple[str, ...] = ()
    """The same devices, whatever this interpreter's torch can do: for programs with an interpreter of their
    own. By NVML's number if numbers count so (older vLLM cannot read UUIDs), else by UUID.
    """

    @property
    def run_folder(self) -> str:
        return self.run_dir or self.output_dir

    @property
    def own_folder(self) -> str:
        """Folder of rltui's own files for this experiment."""
        return f"{self.output_dir}/{paths.STATE_FOLDER}"


def as_passed(files: ConfigFiles) -> ConfigFiles:
    """The files as a component got them: its copies with the passed values in place of theirs."""
    return {
        role: replace(file, data=apply_edits(file.data, file.passed)) if file.passed else file
        for role, file in files.items()
    }
