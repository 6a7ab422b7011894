"""Runs that are asked for on the command line, as requests to the queue."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.parser import parse
from rltui.cli.progress import working
from rltui.client.queue.asking import QueueRequest
from rltui.core import hints
from rltui.core.queue import QueueEntry, QueueOptions
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.services.runs.experiment_files import ExperimentRecord


def queue_options(arguments: argparse.Namespace) -> QueueOptions:
    from rltui.scheduler.stop_rules import check_rule

    for rule in arguments.stop_if:
        check_rule(rule)
    return QueueOptions(
        gpus=arguments.gpus,
        retries=arguments.retries,
        stop_if=tuple(arguments.stop_if),
        priority=arguments.priority,
    )


@contextmanager
def plan_request(
    words: Sequence[str], overrides: Sequence[str], *, with_needs: bool = False
) -> Iterator[QueueRequest]:
    """The run that `rltui up` would make of these.

    Raises:
        ConfigError: if its config breaks a rule, as `rltui check` says it.
    """
    from rltui.cli.new_run import wanted_run  # knows the frameworks, which `rltui queue` needs not
    from rltui.client import creation
    from rltui.client.jobs import submitted
    from rltui.services.config import origins

    behind = ["--", *overrides] if overrides else []
    up = parse(["up", *words, *behind])
    with wanted_run(up) as wanted:
        with working("plans the run as `up` would"):
            record, earlier = creation.plan_record(wanted)
            if not wanted.force:
                creation.refuse_errors(record, starting=False)
        creation.trust_what_runs(wanted)
        yield QueueRequest(
            words=tuple(word for word in words if word != "--new"),
            overrides=tuple(overrides),
            name=record.name,
            folder=Path(record.output_dir),
            files=origins.made_from(map(Path, record.config_files)),
            is_named=up.name is not None,
            is_taken=earlier is not None,
            is_resumed=wanted.earlier_run == "resume",
            is_job=(is_job := _is_job(record)),
            jobs=submitted(record) if with_needs and is_job else (),
            needs=_needs(record) if with_needs and not is_job else (None, 0),
        )


def _is_job(record: ExperimentRecord) -> bool:
    """All that it starts is submitted to SLURM."""
    from rltui.services import layout_files

    return all(spec.slurm is not None for spec in layout_files.load_for(record).automatic)


def refuse_devices(wish: QueueRequest, options: QueueOptions) -> None:
    if wish.is_job and options.gpus is not None:
        raise UsageError(
            f"{wish.name} is submitted to SLURM, and needs no GPUs of this machine",
            hint="GPUs of each node of its job: --slurm --gpus N",
        )


def _needs(record: ExperimentRecord) -> tuple[int | None, int]:
    """How many devices it would use, and the memory that it needs of the fullest; none where a person named
    devices, or no GPU can be read.
    """
    from rltui.client.memory import needed_bytes

    if record.devices:
        return None, 0
    sizes = needed_bytes(record)
    return len(sizes) or None, max(sizes.values(), default=0)


def as_options(point: Sequence[tuple[str, str]]) -> list[str]:
    return [f"--{key}={value}" for key, value in point]


def print_added(added: Sequence[QueueEntry], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps([each.model_dump(mode="json") for each in added]))
        return
    for each in added:
        print(f"{each.name} is queued: {each.folder}")
    if added and added[0].group:
        print(f"the sweep is called {added[0].group}; look: {hints.QUEUE}")
