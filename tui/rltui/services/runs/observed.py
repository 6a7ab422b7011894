"""Runs that somebody else started: what is known of their framework without a config."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.core import hints
from rltui.core.api import FollowedLog
from rltui.core.config_data import leaves
from rltui.core.layout import Layout
from rltui.core.metrics import LARGEST_STEP
from rltui.core.text import QUIET_S
from rltui.errors import ConfigError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.frameworks.generic import GENERIC, Generic
from rltui.frameworks.registry import LOOKED_INTO, framework_of_tree
from rltui.services import layout_files
from rltui.services.config.source import content_of
from rltui.services.own_files import why_folder_is_foreign
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord

_FILES: tuple[tuple[str, Callable[[str], Any]], ...] = (
    *(
        (f"{folder}/{name}.json", json.loads)
        for folder in ("configs/latest/resolved", "configs/resolved", "configs")
        for name in ("trainer", "sft")
    ),
    ("configs/trainer.toml", tomllib.loads),
    ("configs/rl.toml", tomllib.loads),
    ("configs/sft.toml", tomllib.loads),
    ("run_default/control/orch.toml", tomllib.loads),
)
"""Relative to the folder of the run: prime-rl of today, then of spring 2026, which wrote resolved configs."""


_CONFIG_PLACES = ("configs/latest/resolved", "configs/resolved", "configs")
"""The first with files counts."""


def written_max_steps(run_dir: Path) -> int | None:
    """`max_steps` of the first of those files that has one; `None` where it is not written down."""
    for name, parse in _FILES:
        try:
            data = parse(content_of(run_dir / name).decode())
        except (OSError, ValueError, RecursionError, ConfigError):  # none, not ours to read, or half written
            continue
        steps = data.get("max_steps") if isinstance(data, Mapping) else None
        if isinstance(steps, int) and not isinstance(steps, bool) and abs(steps) <= LARGEST_STEP:
            return steps
    return None


def written_config(run_dir: Path) -> dict[str, Any]:
    """What a framework wrote down of the config that it ran with, flat: `trainer.optim.lr`; empty where it
    did not.
    """
    for place in _CONFIG_PLACES:
        found: dict[str, Any] = {}
        for name in sorted(_entries(run_dir / place)):
            parse = {".json": json.loads, ".toml": tomllib.loads}.get(Path(name).suffix)
            if parse is None:
                continue
            try:
                data = parse(content_of(run_dir / place / name).decode())
            except (OSError, ValueError, RecursionError, ConfigError):
                continue
            if isinstance(data, Mapping):
                stem = Path(name).stem
                found |= {key if stem == "rl" else f"{stem}.{key}": value for key, value in leaves(data)}
        if found:
            return {key: value for key, value in found.items() if value not in (None, {}, [])}
    return {}


def framework_of(record: ExperimentRecord) -> Framework:
    """The framework of an experiment. Of an observed one, only what its files mean: it has no config here."""
    framework = registry.get(record.framework)
    if not record.observed:
        if record.inference:
            framework = framework.sent_to(record.inference, is_lent=bool(record.inference_of))
        return framework if framework.id != GENERIC.id else framework.fitted(layout_files.load_for(record))
    return _Observed(framework, Path(record.run_dir))


class _Observed(Generic):
    """What the files of a run mean that has no config here."""

    def __init__(self, framework: Framework, run_dir: Path) -> None:
        super().__init__()
        self._framework, self._run_dir = framework, run_dir
        self.id, self.title = framework.id, framework.title
        self.log_marks, self.metrics, self.facts = framework.log_marks, framework.metrics, framework.facts
        self.files, self.failures = framework.files, framework.failures

    def max_steps(self, files: ConfigFiles) -> int | None:
        del files
        return written_max_steps(self._run_dir)

    def log_row(self, component: str, line: str) -> Mapping[str, Any] | None:
        return self._framework.log_row(component, line)


def title_of(record: ExperimentRecord, layout: Layout, framework: Framework) -> str:
    """What the experiment is called for people: an observed run as its framework, whatever the layout."""
    return framework.title if record.observed else layout.title or framework.title


def refuse_observed(record: ExperimentRecord) -> None:
    """For everything that would change something.

    Raises:
        UsageError: if somebody else runs the experiment.
    """
    if record.observed:
        raise UsageError(
            f"{record.name} is observed: rltui did not start it, so there is nothing to start, stop or edit",
            hint=f"`{hints.DOWN(name=record.name)}` ends the observation; "
            f"the run in {record.run_dir} goes on",
        )


def is_growing(logs: Iterable[FollowedLog], now: float) -> bool:
    """Somebody still writes to one of them."""
    return any(log.changed_at is not None and now - log.changed_at < QUIET_S for log in logs)


_RESULTS = frozenset({"results.jsonl", "traces.jsonl"})
"""Of `vf-eval`, before 0.4 and since, beside what it was told."""
EVALUATOR = "verifiers"
"""Id of the framework whose program leaves such results."""
_MOST_FOLDERS = 20_000
_MOST_ENTRIES = 500
"""Of each folder; those that tell are few."""


@dataclass(frozen=True, slots=True)
class FoundRun:
    path: Path
    """Absolute, without links."""
    framework: str


def find_run(folder: Path, framework: str | None = None) -> FoundRun:
    """The run in `folder`, or the only one in a folder of that.

    With `framework`, the folder is taken as a run of it, whatever it holds.

    Raises:
        UsageError: if there is none, or several: names them, the one written to last first.
        ConfigError: if another rltui runs it, and its record there is damaged.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder", hint="name the output folder of a run")
    folder = folder.resolve()
    if framework is not None:
        return FoundRun(folder, framework)
    if (found := _run_at(folder)) is not None:
        return found
    inside = [run for entry in _folders(folder) if (run := _run_at(entry)) is not None]
    if len(inside) == 1:
        return inside[0]
    if not inside:
        raise UsageError(
            f"{folder} holds no run of a framework that rltui knows",
            hint="name the folder that has logs/ in it; if the run is just beginning, say which framework "
            "with --framework",
        )
    inside.sort(key=lambda run: run.path.stat().st_mtime, reverse=True)
    raise UsageError(
        f"{folder} holds {len(inside)} runs: say which",
        details=[hints.WATCH_RUN(folder=run.path) for run in inside],
        hint="the one that changed last comes first",
    )


def holds_results(folder: Path) -> bool:
    """It is what an evaluator left, of one evaluation, and no run."""
    names = frozenset(_entries(folder))
    return not names.isdisjoint(_RESULTS) and framework_of_tree([*_names(folder)]) is None


def runs_below(folder: Path) -> Iterator[FoundRun]:
    """All runs, and all results of evaluators, in `folder` and below; what lies within one is part of it. The
    framework of the user's own experiments is not looked for.

    Goes through the first 20,000 folders, and not into hidden ones.
    """
    waiting, left = [folder.resolve()], _MOST_FOLDERS
    while waiting and (left := left - 1):
        here = waiting.pop()
        if is_own(here):
            yield FoundRun(here, GENERIC.id)
        elif (found := _run_at(here)) is not None:
            yield found
        elif holds_results(here):
            yield FoundRun(here, EVALUATOR)
        else:
            inside = (each for each in _folders(here) if not each.name.startswith("."))
            waiting += sorted((each for each in inside if not each.is_symlink()), reverse=True)


def is_own(folder: Path) -> bool:
    """It is the output folder of an experiment of the user's own, whether that can be read or not."""
    control = folder / paths.STATE_FOLDER
    return (control / "experiment.toml").is_file() and why_folder_is_foreign(control) is None


def _run_at(folder: Path) -> FoundRun | None:
    """The run that was written to just this folder."""
    if (folder / paths.STATE_FOLDER / "experiment.toml").is_file():
        record = ControlFolder(folder).read_record()
        if record is not None:  # another person's rltui runs it, maybe in another place of the file system
            below = os.path.relpath(record.run_dir, record.output_dir)
            return FoundRun((folder / below).resolve(), record.framework)
    framework = framework_of_tree([*_names(folder)])
    return None if framework is None else FoundRun(folder, framework)


def _names(folder: Path) -> Iterator[str]:
    for inner in ("", *LOOKED_INTO):
        for entry in _entries(folder / inner):
            yield f"{inner}/{entry}" if inner else entry


def _entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
    except OSError:  # not there, or not for us to read: it tells nothing
        return []


def _folders(folder: Path) -> list[Path]:
    return [path for name in _entries(folder) if (path := folder / name).is_dir()]
