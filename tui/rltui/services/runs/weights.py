"""Weights that a run has left, as other programs load them: a folder like those on the hub."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from rltui.errors import ConfigError

_PLACES = ("weights/step_{step}", "checkpoints/step_{step}/weights")
"""Where the frameworks write them; the second is where prime-rl's own converter does."""
_MARKER = "STABLE"
_CONFIG = "config.json"
_LARGEST_HEADER = 100 << 20


def of_step(run_dir: Path, step: int) -> Path:
    """The folder with the weights of that step, whole.

    Raises:
        ConfigError: if there are none, or not all of them; says which steps there are.
    """
    folder = next((path for each in _PLACES if (path := run_dir / each.format(step=step)).is_dir()), None)
    if folder is None:
        hint = f"there are: {', '.join(map(str, there))}" if (there := _steps(run_dir)) else ""
        if not hint and (run_dir / f"checkpoints/step_{step}").is_dir():
            hint = (
                f"checkpoint {step} holds the state of the trainer alone: make them with prime-rl's "
                f"tools/convert_dcp_to_bf16.py {run_dir / f'checkpoints/step_{step}'}"
            )
        raise ConfigError(f"there are no weights of step {step} in {run_dir}", hint=hint or "name a folder")
    return whole(folder)


def whole(folder: Path) -> Path:
    """`folder`, absolute.

    Raises:
        ConfigError: if it is no folder of a model, or one that is not complete.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder", hint="name the folder of a model, or a step of a run")
    if reason := why_incomplete(folder):
        raise ConfigError(f"{folder} is not complete: {reason}", hint="is it still being written?")
    return folder.absolute()


def why_incomplete(folder: Path) -> str:
    """What is missing for programs to load the model, in words; empty where nothing is."""
    if not (folder / _CONFIG).is_file():
        return f"it has no {_CONFIG}"
    names = _files(folder)
    if not names:
        return "it has no weights (*.safetensors, *.bin)"
    for name in sorted(names):
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.suffix == ".safetensors" and not _is_whole(path):
            return f"{name} is cut short"
    marked = any((beside / _MARKER).exists() for beside in folder.parent.glob("step_*"))
    if marked and not (folder / _MARKER).exists():
        return f"it has no {_MARKER}, which is written last"
    return ""


def _files(folder: Path) -> set[str]:
    """Names of those that hold weights: what an index lists, or what is there."""
    for index in sorted(folder.glob("*.index.json")):
        try:
            return set(map(str, json.loads(index.read_bytes())["weight_map"].values()))
        except (OSError, ValueError, LookupError, AttributeError, RecursionError):
            return {index.name.removesuffix(".index.json")}  # which is missing: the index is still written
    kinds = ("*.safetensors", "*.bin")
    return {path.name for kind in kinds for path in folder.glob(kind) if path.name != "training_args.bin"}


def _is_whole(path: Path) -> bool:
    """As long as its header says."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _LARGEST_HEADER:
                return False
            header = json.loads(file.read(length))
        ends = (each["data_offsets"][1] for name, each in header.items() if name != "__metadata__")
        return bool(path.stat().st_size >= 8 + length + max(ends, default=0))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError):
        return False


def _steps(run_dir: Path) -> list[int]:
    names = (path.name.removeprefix("step_") for path in (run_dir / "weights").glob("step_*"))
    return sorted(int(name) for name in names if name.isdecimal())
