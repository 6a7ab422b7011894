"""Runs that somebody else started: finding them, and what is known of their framework without a config."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltui.base.kinds import is_integer
from rltui.base.text import QUIET_S
from rltui.core import hints
from rltui.core.config.data import leaves
from rltui.core.experiment.api import FollowedLog
from rltui.core.experiment.layout import Layout
from rltui.core.metrics.progress import LARGEST_STEP
from rltui.errors import ConfigError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.registry import LOOKED_INTO, framework_of_tree
from rltui.frameworks.run_settings import RunFiles
from rltui.paths import require_folder
from rltui.services.config.config_file import content_of
from rltui.services.config.files import load_files
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.own_files import entry_names, foreign_folder_reason

_PARSERS: Mapping[str, Callable[[str], Any]] = {".json": json.loads, ".toml": tomllib.loads}


def written_max_steps(run_dir: Path, files: RunFiles) -> int | None:
    """`max_steps` of the config that a framework wrote down for its run; `None` if it wrote none."""
    for name in files.lengths:
        steps = _written_table(run_dir / name).get("max_steps")
        if is_integer(steps) and abs(steps) <= LARGEST_STEP:
            return steps
    return None


def written_config(run_dir: Path, files: RunFiles) -> dict[str, Any]:
    """The config that a framework wrote down for its run, flat: `trainer.optim.lr`; empty if it wrote
    none.
    """
    for folder in files.written_configs:
        config: dict[str, Any] = {}
        for name in sorted(entry_names(run_dir / folder, _MOST_ENTRIES)):
            prefix = "" if Path(name).stem == "rl" else f"{Path(name).stem}."
            table = _written_table(run_dir / folder / name)
            config |= {f"{prefix}{key}": value for key, value in leaves(table)}
        if config:
            return {key: value for key, value in config.items() if value not in (None, {}, [])}
    return {}


def _written_table(path: Path) -> Mapping[str, Any]:
    """Empty if there is none, it is not ours to read, or half written."""
    try:
        data = _PARSERS[path.suffix](content_of(path).decode())
    except (LookupError, OSError, ValueError, RecursionError, ConfigError):
        return {}
    return data if isinstance(data, Mapping) else {}


def framework_of(record: ExperimentRecord) -> Framework:
    """The framework of an experiment. For an observed one, only the meaning of its files: it has no config
    here.
    """
    framework = registry.get(record.framework)
    if not record.observed:
        if record.inference:
            framework = framework.sent_to(record.inference, is_lent=bool(record.inference_of))
        return framework.fitted(layout_files.load_for(record)) if framework.reads_layout else framework
    files = framework.run.locations
    return replace(
        GENERIC,
        id=framework.id,
        title=framework.title,
        generation_title=framework.generation_title,
        failures=framework.failures,
        progress=framework.progress,
        run=replace(
            GENERIC.run,
            files=lambda _: files,
            max_steps=lambda _: written_max_steps(Path(record.run_dir), files),
        ),
        make=None,
        reads_layout=False,
    )


def setup_of(record: ExperimentRecord) -> tuple[Layout, Framework, ConfigFiles]:
    """Read what a start of the experiment, which need not exist, would use now.

    Raises:
        ConfigError: if layout or config cannot be understood.
    """
    framework = framework_of(record)
    return layout_files.load_for(record), framework, load_files(record.config_paths, framework)


def title_of(record: ExperimentRecord, layout: Layout, framework: Framework) -> str:
    """The experiment's title for people: an observed run's framework, whatever the layout."""
    return framework.title if record.observed else layout.title or framework.title


def refuse_observed(record: ExperimentRecord) -> None:
    """Guard for everything that would change something.

    Raises:
        UsageError: if somebody else runs the experiment.
    """
    if record.observed:
        raise UsageError(
            f"{record.name} is only observed: rltui cannot start, stop or edit a run that it did not start",
            hint=(
                f"`{hints.DOWN(name=record.name)}` ends the observation; the run in {record.run_dir}"
                " continues"
            ),
        )


def is_growing(logs: Iterable[FollowedLog], now: float) -> bool:
    """True if somebody still writes to one of them."""
    return any(log.changed_at is not None and now - log.changed_at < QUIET_S for log in logs)


_RESULTS = frozenset({"results.jsonl", "traces.jsonl"})
"""Result files of `vf-eval`, before 0.4 and since."""
_MOST_FOLDERS = 20_000
_MOST_ENTRIES = 500
"""Limit per folder; relevant entries are few."""


@dataclass(frozen=True, slots=True)
class DetectedRun:
    path: Path
    """An absolute path without links."""
    framework: str


def find_run(folder: Path, framework: str | None = None) -> DetectedRun:
    """The run in `folder`, or the only one in a subfolder.

    With `framework`, the folder is taken as a run of it, whatever it contains.

    Raises:
        UsageError: if there is none, or several: names them, the one written to last first.
        ConfigError: if another rltui runs it, and its record there is damaged.
    """
    require_folder(folder, hint="name the output folder of a run")
    folder = folder.resolve()
    if framework is not None:
        return DetectedRun(folder, framework)
    if (run := _detect_run(folder)) is not None:
        return run
    inside = [candidate for entry in _folders(folder) if (candidate := _detect_run(entry)) is not None]
    if len(inside) == 1:
        return inside[0]
    if not inside:
        raise UsageError(
            f"{folder} contains no run of a known framework",
            hint=(
                "name the folder that contains logs/; if the run has just started, name its framework"
                " with --framework"
            ),
        )
    inside.sort(key=lambda candidate: candidate.path.stat().st_mtime, reverse=True)
    raise UsageError(
        f"{folder} contains {len(inside)} runs; name one",
        details=[hints.WATCH_RUN(folder=candidate.path) for candidate in inside],
        hint="newest first",
    )


def holds_results(folder: Path) -> bool:
    """True for results of one evaluation without a run."""
    names = frozenset(entry_names(folder, _MOST_ENTRIES))
    return not names.isdisjoint(_RESULTS) and framework_of_tree([*_names(folder)]) is None


def find_runs(folder: Path) -> Iterator[DetectedRun]:
    """All runs, and all results of evaluators, in `folder` and below; runs inside a run are part of it. For
    the user's own experiments the framework is not determined.

    Visits the first 20,000 folders, without hidden ones.
    """
    waiting, remaining = [folder.resolve()], _MOST_FOLDERS
    while waiting and (remaining := remaining - 1):
        current = waiting.pop()
        if is_own(current):
            yield DetectedRun(current, GENERIC.id)
        elif (run := _detect_run(current)) is not None:
            yield run
        elif holds_results(current):
            yield DetectedRun(current, registry.EVALUATOR)
        else:
            inside = (child for child in _folders(current) if not child.name.startswith("."))
            waiting += sorted((child for child in inside if not child.is_symlink()), reverse=True)


def is_own(folder: Path) -> bool:
    """True for the output folder of an experiment of the user's own, whether that can be read or not."""
    control = ControlFolder(folder)
    return control.record_file.is_file() and foreign_folder_reason(control.path) is None


def _detect_run(folder: Path) -> DetectedRun | None:
    """The run that was written to exactly this folder."""
    if (control := ControlFolder(folder)).record_file.is_file():
        record = control.read_record()
        if record is not None:  # another person's rltui runs it, maybe in another place of the file system
            below = os.path.relpath(record.run_dir, record.output_dir)
            return DetectedRun((folder / below).resolve(), record.framework)
    framework = framework_of_tree([*_names(folder)])
    return None if framework is None else DetectedRun(folder, framework)


def _names(folder: Path) -> Iterator[str]:
    for inner in ("", *LOOKED_INTO):
        for entry in entry_names(folder / inner, _MOST_ENTRIES):
            yield f"{inner}/{entry}" if inner else entry


def _folders(folder: Path) -> list[Path]:
    return [path for name in entry_names(folder, _MOST_ENTRIES) if (path := folder / name).is_dir()]
