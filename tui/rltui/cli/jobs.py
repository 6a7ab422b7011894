"""What a command line says of whether a new run is a SLURM job, and of which."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rltui.cli.command import Arguments
from rltui.cli.terminal import confirm
from rltui.core.hosts.options import HostOptions
from rltui.errors import UsageError

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
    }
    if arguments.slurm or (arguments.layout is not None and options):
        return {_KIND: options}
    if options:
        raise UsageError("job options need --slurm", hint="add --slurm to submit the run as a job")
    return {}
