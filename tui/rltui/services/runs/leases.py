"""Experiments that use the inference server of another one.

Who uses it has that in its record (`inference_of`); whose it is has a file for each of them, so that both
sides see it. It counts while something of the user lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rltui.errors import RltuiError
from rltui.services import layout_files
from rltui.services.own_files import make_folder, write_atomically
from rltui.services.processes import read_attempt
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import find_experiment
from rltui.services.runs.observed import framework_of

_FOLDER = "leases"


def keep_lease(owner: ExperimentRecord, user: ExperimentRecord) -> None:
    """Let `owner` know that `user` uses its server.

    Raises:
        RltuiError: if it cannot be written.
    """
    folder = ControlFolder(Path(owner.output_dir)).path / _FOLDER
    make_folder(folder)
    write_atomically(folder / user.name, user.output_dir.encode())


def users_of(owner: ExperimentRecord) -> tuple[ExperimentRecord, ...]:
    """The experiments that use its server now: something of each of them lives."""
    folder = ControlFolder(Path(owner.output_dir)).path / _FOLDER
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:  # there is none
        return ()
    found = []
    for name in names:
        with suppress(RltuiError):  # a damaged record uses nothing
            user = find_experiment(name)
            if user is not None and user.inference_of == owner.name and living(user):
                found.append(user)
    return tuple(found)


def has_been_trained(owner: ExperimentRecord) -> bool:
    """Its server may have other weights than those it started with: its own run, or a user's, began since.

    Raises:
        ConfigError: if its layout cannot be read any more.
    """
    control = ControlFolder(Path(owner.output_dir))
    jobs = _run_jobs(owner)
    begun = {
        folder.parent.name: attempt.started_at
        for folder in control.newest_attempts()
        if (attempt := read_attempt(folder)) is not None
    }
    since = begun.get("inference") or 0.0
    folder = control.path / _FOLDER
    leased = [entry.stat().st_mtime for entry in folder.iterdir()] if folder.is_dir() else []
    return any(at > since for at in (*leased, *(begun[job] or 0.0 for job in jobs & begun.keys())))


def living(record: ExperimentRecord, components: Iterable[str] | None = None) -> tuple[str, ...]:
    """Those of these components, or of all, that have a process."""
    control = ControlFolder(Path(record.output_dir))
    found = []
    for folder in control.newest_attempts():
        attempt, name = read_attempt(folder), folder.parent.name
        runs = attempt is not None and (attempt.is_supervised or attempt.living_main is not None)
        if runs and (components is None or name in components):
            found.append(name)
    return tuple(found)


def training(record: ExperimentRecord) -> tuple[str, ...]:
    """The jobs of its run that have a process.

    Raises:
        ConfigError: if its layout cannot be read any more.
    """
    return living(record, _run_jobs(record))


def _run_jobs(record: ExperimentRecord) -> frozenset[str]:
    return layout_files.load_for(record).run_jobs(framework_of(record).run_roles)
