"""SLURM jobs of experiments: what would be submitted, and what was."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.secrets import mask_text
from rltui.client import launch
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launch, LaunchContext, Launcher
from rltui.services.experiment.resolved_configs import Resolver
from rltui.services.hosts import slurm
from rltui.services.hosts.job_status import read_job_status
from rltui.services.runs.observed import setup_of

_LAUNCHER_S = 300.0


@dataclass(frozen=True, slots=True)
class JobPreview:
    component: str
    command: tuple[str, ...]
    script: str
    """The job script, with secrets masked."""


def previews(record: ExperimentRecord) -> tuple[JobPreview, ...]:
    """Preview the job of each component that would be one. Nothing is submitted.

    The experiment need not exist. A launcher that writes a script itself is run, on a scratch folder.

    Raises:
        ConfigError: if a command cannot be put together, or a launcher refuses.
    """
    layout, framework, files = setup_of(record)
    scratch = Path(tempfile.mkdtemp(prefix="rltui-jobs-"))
    try:
        within = record.run_dir.removeprefix(record.output_dir).lstrip("/")
        scratch_record = replace(record, output_dir=str(scratch), run_dir=str(scratch / within))
        launcher = Launcher(scratch_record, layout, framework)
        context = launcher.context(files)
        job_previews = []
        for name in _submitted(context):
            resolved_config = asyncio.run(_resolved(context, name, scratch))
            launch_spec = launcher.context(files, resolved=resolved_config).launch(name)
            job_previews.append(_preview(record, name, launch_spec, scratch))
        return tuple(job_previews)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def submitted(record: ExperimentRecord) -> tuple[str, ...]:
    """The components of which a start of the experiment, which need not be there, would make jobs."""
    layout, framework, files = setup_of(record)
    return tuple(_submitted(Launcher(record, layout, framework).context(files)))


def _submitted(context: LaunchContext) -> Iterator[str]:
    """Ids of the components that would be submitted, without those whose output exists."""
    for spec in context.layout.automatic:
        outputs = context.creates(spec.id)
        if spec.is_submitted and (outputs is None or not outputs.exists()):
            yield spec.id


async def _resolved(context: LaunchContext, component: str, scratch: Path) -> Mapping[str, str]:
    resolver = Resolver(scratch, workspace=Path(context.record.workspace))
    resolutions, run = context.resolutions(component), context.run_context.run
    return (await resolver.make(resolutions, context.files, run=run, into=scratch)).files


def _preview(record: ExperimentRecord, component: str, run: Launch, scratch: Path) -> JobPreview:
    control = record.control
    folder = control.attempt_dir(component, max(control.attempts(component), default=0) + 1)
    spec = run.host
    assert spec is not None
    try:
        if spec["script"]:
            text = _written(run, spec["script"])
        else:
            name = slurm.job_name(record.tag, component)
            text = slurm.script_text(spec, name=name, argv=run.argv, cwd=run.cwd, folder=folder)
        command = slurm.submit_command(spec, folder / slurm.SCRIPT_FILE)
    except ValueError as error:
        raise ConfigError(f"{record.layout_file}: {error}") from error
    return JobPreview(component, command, mask_text(text.replace(str(scratch), record.output_dir)))


def _written(run: Launch, places: tuple[str, ...]) -> str:
    """The script that a launcher writes when it is run without submitting."""
    assert run.host is not None
    argv = [*run.argv, *run.host["arguments"], *run.host["preview"]]
    env = {**os.environ, **run.env}
    try:
        process = subprocess.run(
            argv, cwd=run.cwd, env=env, capture_output=True, text=True, check=False, timeout=_LAUNCHER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RltuiError(f"cannot run {argv[0]}: {error}") from error
    last_lines = [line for line in (process.stdout + process.stderr).splitlines() if line.strip()][-12:]
    if process.returncode:
        raise RltuiError(f"{' '.join(argv[:3])} … ended with code {process.returncode}", details=last_lines)
    for folder in places:
        path = Path(run.cwd, folder)
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise RltuiError(f"no job script was written as {' or '.join(places)}", details=last_lines)


def newest_job(experiment: str) -> str:
    """Number of the job that an experiment has submitted last.

    Raises:
        ConflictError: if there is none.
        RltuiError: if there is no such experiment.
    """
    record = launch.choose(experiment)
    layout, control = layout_files.load_for(record), record.control
    numbers = [
        (remote.since, remote.id)
        for spec in layout.component
        if spec.is_submitted
        for attempt in control.attempts(spec.id)[-1:]
        if (remote := read_job_status(control.attempt_dir(spec.id, attempt))) is not None and remote.id
    ]
    if not numbers:
        raise ConflictError(
            f"{experiment} has not submitted a job",
            hint="start it first, or name a job: --dependency afterok:1234",
        )
    return max(numbers)[1]
