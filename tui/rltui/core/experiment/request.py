"""The request for a new run, as a value: a command line, a dialog and an entry of the queue make the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rltui.core.hosts.options import HostOptions
from rltui.core.runs.forks import CheckpointChoice
from rltui.core.runs.row import RunOrigin


@dataclass(frozen=True, slots=True)
class ConfigOverlay:
    """A file that is merged into a run config, as written behind `@`."""

    path: Path
    table: str = ""
    """The table that it is for, as in `--orchestrator @ orch.toml`; empty: a complete config."""


@dataclass(frozen=True, slots=True)
class Override:
    """An option that sets a key of the config: `--model.name X`."""

    key: str
    """The dotted key in snake case."""
    values: tuple[str, ...] = ()
    """Values as written: none for a switch, several for a list."""

    @property
    def option(self) -> str:
        return f"--{self.key}"


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """The files of a config, and what a command line changes of them."""

    files: tuple[Path, ...] = ()
    """Files that are read unmerged, each in its own role."""
    overlays: tuple[ConfigOverlay, ...] = ()
    """Files that are merged, in this order; after `files`, if there are any."""
    overrides: tuple[Override, ...] = ()
    edits: Mapping[str, str] = field(default_factory=dict)
    """Knob name → value, as `rltui set` takes them."""
    is_copied: bool = False
    """True: run configs are written even if they change nothing."""
    program: str = ""
    """The one program that it is for, if that has no file, just overrides."""

    @property
    def is_plain(self) -> bool:
        return not (self.overlays or self.overrides or self.edits or self.is_copied or self.program)


@dataclass(frozen=True, slots=True)
class ExperimentRequest:
    """A run as somebody wants it. Its paths are absolute, so it means the same in another folder and later.

    A field that is `None` is taken from the config, of a fork or a repeated run from the run that it is made
    of.
    """

    config: ConfigLine = ConfigLine()
    """Without files where `origin` names a run: then it is that run's recorded config, with these edits."""
    layout: str | None = None
    framework: str | None = None
    """Id of a framework, where the files themselves do not tell."""
    name: str | None = None
    output_dir: Path | None = None
    workspace: Path | None = None
    earlier_run: Literal["ask", "resume", "new"] = "ask"
    checkpoint: CheckpointChoice | None = None
    """The checkpoint to resume from; `None`: the one that the config asks for, else the newest."""
    components: tuple[str, ...] = ()
    """Components to start, with what they depend on; none: all."""
    is_loss_accepted: bool = False
    """True if its start may lose more than the work since the newest checkpoint."""
    inference: tuple[str, ...] | None = None
    """URLs of the inference servers that it uses in place of its own; empty: as the config says; `None`:
    likewise, or as before where an earlier run is resumed.
    """
    inference_of: str | None = None
    """The experiment whose inference server it uses."""
    host_options: HostOptions = field(default_factory=dict)
    """Kinds of host on which it is to run, with options besides those of the layout; none: as the layout
    says.
    """
    devices: str | None = None
    """Devices that it may use, in the form of `CUDA_VISIBLE_DEVICES`, or `NO_DEVICES`; `None`: as before, or
    all.
    """
    is_on_one_gpu: bool = False
    """True if it uses just one device, the one with the most free memory."""
    force: bool = False
    """True if no rule of rltui refuses the config, now or when it is edited."""
    origin: RunOrigin = RunOrigin()

    @property
    def source(self) -> str:
        """Id of the run whose recorded config it uses; empty: it has files of its own."""
        return self.origin.parent or self.origin.again

    @property
    def checkpoint_step(self) -> int | None:
        """The step of the checkpoint, where that is known without a look at the run."""
        return self.checkpoint if isinstance(self.checkpoint, int) else None
