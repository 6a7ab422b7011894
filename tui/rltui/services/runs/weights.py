"""Weights of a run in the form that other programs load: a folder like those on the hub."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui.base.template import Missing
from rltui.base.text import parse_whole_number
from rltui.core import hints
from rltui.core.logs.lines import plain_text
from rltui.errors import ConfigError, RltuiError
from rltui.paths import require_folder
from rltui.services.config.files import load_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.gpu.model_files import safetensors_header
from rltui.services.own_files import read_regular
from rltui.services.runs.observed import framework_of
from rltui.services.runs.provenance import checkout_of

_FOLDERS = ("weights/step_{step}", "checkpoints/step_{step}/weights", "checkpoint-{step}")
"""Folders that the frameworks write them to; the second is the target of conversions."""
_MARKER = "STABLE"
_CONFIG, _ADAPTER_CONFIG = "config.json", "adapter_config.json"
_OUTPUT_LINES = 5
"""Number of last lines of a failed program's output in an error."""


@dataclass(frozen=True, slots=True)
class WeightsConversion:
    """The program that converts a checkpoint to weights, without a GPU. It takes a minute and more."""

    argv: tuple[str, ...]
    workspace: str
    env: Mapping[str, str]
    folder: Path
    """Exists once the weights are complete."""

    def check(self, returncode: int | None, output: str) -> Path:
        """The folder, after the program has ended.

        Raises:
            RltuiError: if it does not exist.
        """
        if returncode == 0 and self.folder.is_dir():
            return self.folder
        lines = [line for line in plain_text(output).splitlines() if line.strip()]
        raise RltuiError(
            f"{self.folder.parent} has only trainer state, and converting it to weights failed",
            details=lines[-_OUTPUT_LINES:],
            hint="see the output above; the conversion ran in the framework's environment",
        )


def folder_of_step(
    record: ExperimentRecord, step: int, *, only_look: bool = False, adapters: bool = False
) -> Path:
    """The folder with the complete weights of that step. They are converted if the checkpoint has none; with
    `only_look`, the folder that they would be in is returned. `adapters`: these suffice.

    Raises:
        ConfigError: if there are none, or they are incomplete; names the existing steps.
        RltuiError: if they cannot be converted.
    """
    run_dir = Path(record.run_dir)
    folder = next(
        (path for pattern in _FOLDERS if (path := run_dir / pattern.format(step=step)).is_dir()), None
    )
    if folder is not None:
        return complete_folder(folder, adapters=adapters)
    conversion = weights_conversion(record, step)
    if conversion is None:
        hint = f"available: {', '.join(map(str, steps))}" if (steps := _steps(run_dir)) else "name a folder"
        raise ConfigError(f"no weights of step {step} in {run_dir}", hint=hint)
    if only_look:
        return conversion.folder
    try:
        completed = subprocess.run(
            conversion.argv,
            cwd=conversion.workspace,
            env=conversion.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise RltuiError(f"cannot run {conversion.argv[0]}: {error.strerror}") from error
    return conversion.check(completed.returncode, completed.stdout.decode(errors="replace"))


def weights_conversion(record: ExperimentRecord, step: int) -> WeightsConversion | None:
    """The conversion for the weights of a checkpoint; `None` if there is nothing to convert.

    Raises:
        ConfigError: if the framework's programs are not found.
    """
    framework, config_files = framework_of(record), record.config_paths
    maker = framework.run.weights_maker(load_files(config_files, framework), record.run_dir, step)
    if maker is None or framework.checkout is None or not Path(maker.needs).is_file():
        return None
    run = checkout_of(record, framework.checkout).run_prefix()
    if isinstance(run, Missing):
        raise ConfigError(run.reason, hint=run.hint)
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return WeightsConversion((*run, *maker.argv), record.workspace, env, Path(maker.folder))


def complete_folder(folder: Path, *, adapters: bool = False) -> Path:
    """Check that `folder` is a complete model, and return it absolute; with `adapters`, these alone suffice.

    Raises:
        ConfigError: if it is no folder of a model, or an incomplete one.
    """
    require_folder(folder, hint="name the folder of a model, or a step of a run")
    if not adapters and _holds_adapters(folder):
        hint = f"merge them into the model first; {hints.PUBLISH} uploads adapters as they are"
        raise ConfigError(f"{folder} holds adapters ({_ADAPTER_CONFIG}), not a complete model", hint=hint)
    if reason := incompleteness(folder):
        raise ConfigError(f"{folder} is not complete: {reason}", hint="it may not be fully written yet")
    return folder.absolute()


def incompleteness(folder: Path) -> str:
    """Say what is missing to load the model; empty if nothing is."""
    if not (folder / _CONFIG).is_file() and not _holds_adapters(folder):
        return f"it has no {_CONFIG}"
    names = _files(folder)
    if not names:
        return "it has no weights (*.safetensors, *.bin)"
    for name in sorted(names):
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.suffix == ".safetensors" and not _is_complete(path):
            return f"{name} is truncated"
    uses_marker = any((sibling / _MARKER).exists() for sibling in folder.parent.glob("step_*"))
    if uses_marker and not (folder / _MARKER).exists():
        return f"it has no {_MARKER}, which is written last"
    return ""


def _holds_adapters(folder: Path) -> bool:
    return (folder / _ADAPTER_CONFIG).is_file() and not (folder / _CONFIG).is_file()


def _files(folder: Path) -> set[str]:
    """Names of the files that hold weights: those in an index, or the existing ones."""
    for index in sorted(folder.glob("*.index.json")):
        try:
            names = set(map(str, json.loads(read_regular(index))["weight_map"].values()))
            if any("/" in name for name in names):
                raise ValueError("refers to files elsewhere")
            return names
        except (OSError, ValueError, LookupError, AttributeError, RecursionError):
            return {index.name.removesuffix(".index.json")}  # which is missing: the index is still written
    kinds = ("*.safetensors", "*.bin")
    return {path.name for kind in kinds for path in folder.glob(kind) if path.name != "training_args.bin"}


def _is_complete(path: Path) -> bool:
    """True if the file is as long as its header says."""
    header, begin = safetensors_header(path)
    try:
        ends = [entry["data_offsets"][1] for entry in (header or {}).values()]
        return header is not None and bool(path.stat().st_size >= begin + max(ends, default=0))
    except (OSError, LookupError, TypeError):
        return False


def _steps(run_dir: Path) -> list[int]:
    folders = (path for name in ("weights", "checkpoints") for path in (run_dir / name).glob("step_*"))
    steps = {parse_whole_number(path.name.removeprefix("step_")) for path in folders}
    return sorted(step for step in steps if step is not None)
