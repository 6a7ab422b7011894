"""Experiments that use the inference server of another one.

The user's record names the owner (`inference_of`); the owner has a file for each user, so that both sides
know. A lease is valid while something of the user lives.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from rltui.errors import RltuiError
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import find_experiment
from rltui.services.own_files import entry_names, make_folder, write_atomically
from rltui.services.processes import read_attempt
from rltui.services.runs.observed import framework_of

_FOLDER = "leases"


def save_lease(owner: ExperimentRecord, user: ExperimentRecord) -> None:
    """Record that `user` uses the server of `owner`.

    Raises:
        RltuiError: if it cannot be written.
    """
    folder = owner.control.path / _FOLDER
    make_folder(folder)
    write_atomically(folder / user.name, user.output_dir.encode())


def users_of(owner: ExperimentRecord) -> tuple[ExperimentRecord, ...]:
    """The experiments that use its server now and have a living process."""
    users = []
    for name in _lease_names(owner):
        with suppress(RltuiError):  # a damaged record uses nothing
            user = find_experiment(name)
            if user is not None and user.inference_of == owner.name and living(user):
                users.append(user)
    return tuple(users)


def trained_by(owner: ExperimentRecord) -> str | None:
    """Name of the run whose weights the server has: the run that started last since the server did, its own
    or a user's; `None`: it has the weights that it started with.

    Raises:
        RltuiError: if one of their layouts or records cannot be read any more.
    """
    since = _last_start(owner, ("inference",))
    users = (find_experiment(name) for name in _lease_names(owner))
    start_times = {
        experiment.name: _last_start(experiment, _run_jobs(experiment))
        for experiment in (
            owner,
            *(user for user in users if user is not None and user.inference_of == owner.name),
        )
    }
    newest = max(start_times, key=start_times.__getitem__)
    return newest if start_times[newest] > since else None


def living(record: ExperimentRecord, components: Collection[str] | None = None) -> tuple[str, ...]:
    """The components, of these or of all, that have a process."""
    return tuple(
        folder.parent.name
        for folder in record.control.newest_attempts(components)
        if (attempt := read_attempt(folder)) is not None and attempt.is_alive
    )


def training(record: ExperimentRecord) -> tuple[str, ...]:
    """The jobs of its run that have a process.

    Raises:
        ConfigError: if its layout cannot be read any more.
    """
    return living(record, _run_jobs(record))


def _run_jobs(record: ExperimentRecord) -> frozenset[str]:
    return layout_files.load_for(record).run_jobs(framework_of(record).run_roles)


def _last_start(record: ExperimentRecord, components: Collection[str]) -> float:
    attempts = map(read_attempt, record.control.newest_attempts(components))
    return max((attempt.started_at for attempt in attempts if attempt is not None), default=0.0)


def _lease_names(owner: ExperimentRecord) -> list[str]:
    return sorted(entry_names(owner.control.path / _FOLDER))
