"""Other experiments that read the same config files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rltui.core.config.report import Problem
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.leases import living
from rltui.services.experiment.registry import known_experiments


def shared_configs(files: Iterable[str | Path], own: ExperimentRecord | None = None) -> tuple[Problem, ...]:
    """A warning for each of `files` that another experiment reads while it runs."""
    return tuple(
        Problem(
            severity="warning",
            file=file,
            message=(
                f"the experiment {other.name} ({other.output_dir}) also reads this file and will use the"
                " edit at its next start; to keep them apart, give one its own copy"
            ),
        )
        for other, shared in readers_of(files, own)
        if living(other)
        for file in shared
    )


def readers_of(
    files: Iterable[str | Path], own: ExperimentRecord | None = None
) -> Iterator[tuple[ExperimentRecord, list[str]]]:
    """Other experiments than `own` that read some of `files`, with these files."""
    paths = {Path(file).resolve(): str(file) for file in files}
    for other in known_experiments() if paths else ():
        if other.observed or (own is not None and other.output_dir == own.output_dir):
            continue
        shared = [paths[path] for name in other.config_files if (path := Path(name).resolve()) in paths]
        if shared:
            yield other, shared
