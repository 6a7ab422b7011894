"""What a command line says of whether a new run is a SLURM job, and of which."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.command import Arguments
from rltui.cli.terminal import confirm
from rltui.core.host_options import HostOptions
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.frameworks.base import Framework

_KIND = "slurm"
_OF_JOBS = ("partition", "time", "nodes", "account", "qos", "dependency", "job_name")


def start_or_submit(start: Callable[[Arguments], int], arguments: Arguments) -> int:
    """Start a run; where its config asks for a cluster and the command line does not, a person is asked."""
    from rltui.client import draft

    try:
        return start(arguments)
    except draft.ClusterConfigError as error:
        if not sys.stdin.isatty() or not confirm(f"{error.title}. Submit it as a job?"):
            raise
    arguments.slurm = True
    return start(arguments)


def chosen_layout(
    arguments: Arguments, files: tuple[Path, ...], framework: str | None, workspace: Path | None
) -> str | None:
    from rltui.client.checking import cluster_layout

    if not arguments.slurm or arguments.layout is not None:
        return str(arguments.layout) if arguments.layout is not None else None
    return cluster_layout(files, framework, workspace=workspace)


def options_for_hosts(arguments: Arguments) -> HostOptions:
    """The options that the arguments name for its jobs; no kind of host where it is not to be a job.

    Raises:
        UsageError: for an option that has no meaning without a job.
    """
    from rltui.client.jobs import newest_job

    values = {name: getattr(arguments, name) for name in _OF_JOBS} | {"gpus_per_node": arguments.gpus}
    if arguments.after_run:
        dependencies = [values["dependency"]] if values["dependency"] else []
        values["dependency"] = ",".join([*dependencies, f"afterok:{newest_job(arguments.after_run)}"])
    option_values = {"options": arguments.slurm_option, "arguments": arguments.launcher_option}
    options: dict[str, str | bool | tuple[str, ...]] = {
        **{name: text for name, text in values.items() if text},
        **{name: tuple(value) for name, value in option_values.items() if value},
        **({"auto_auth": True} if arguments.auto_auth else {}),
        **({"array": array} if (array := getattr(arguments, "array", "")) else {}),
    }
    if arguments.slurm or (arguments.layout is not None and options):
        return {_KIND: options}
    if options:
        raise UsageError("job options need --slurm", hint="add --slurm to submit the run as a job")
    return {}


def with_devices(arguments: Arguments, host_options: HostOptions, framework: Framework) -> HostOptions:
    """Add `--single-gpu` as the launcher that writes the job's script takes it.

    Raises:
        UsageError: where it takes none, or devices of this machine are named.
    """
    if not host_options or (arguments.devices is None and not arguments.single_gpu):
        return host_options
    if arguments.devices is not None or not framework.job_on_one_gpu:
        option = "--single-gpu" if arguments.devices is None else "--devices"
        raise UsageError(
            f"{option} selects GPUs of this machine; a job gets those of its node",
            hint="--gpus N sets the GPUs per node; the config assigns them",
        )
    options = host_options[_KIND]
    launcher_arguments = options.get("arguments", ())
    assert isinstance(launcher_arguments, tuple)  # of words: `options_for_hosts`
    arguments_on_one_gpu = (*launcher_arguments, *framework.job_on_one_gpu)
    return {**host_options, _KIND: {**options, "arguments": arguments_on_one_gpu}}
