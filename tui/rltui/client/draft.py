"""A user's request becomes an experiment record, step by step. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from rltui.base.text import join_words
from rltui.client import launch
from rltui.client.checking import cluster_layout, identify, runnable_layout
from rltui.client.ports import inference_url
from rltui.core import hints
from rltui.core.experiment.api import Request
from rltui.core.experiment.instances import used_instances
from rltui.core.experiment.layout import Layout, with_components
from rltui.core.experiment.request import ExperimentRequest
from rltui.core.experiment.servers import server_url
from rltui.core.hosts.options import HostOptions, lasting_options, merged_options
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.registry import family_of
from rltui.services.config import origins
from rltui.services.config.files import load_files
from rltui.services.config.run_config import RunConfig
from rltui.services.experiment import layout_files, trust
from rltui.services.experiment.files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.experiment.leases import living
from rltui.services.experiment.registry import (
    check_new_record,
    default_output_dir,
    find_experiment,
    free_name,
)
from rltui.services.own_files import free_path
from rltui.services.runs.folder import RunFolder
from rltui.services.runs.observed import setup_of
from rltui.services.runs.resume import ResumePoint, ResumePoints


@dataclass(frozen=True, slots=True)
class ConfiguredRequest:
    """A request and its config on disk: the user's files, or run configs made of them, which exist only while
    it is drafted and created.
    """

    request: ExperimentRequest
    copies: RunConfig
    notes: tuple[str, ...] = ()
    """Sentences for the user about how the config was made."""

    @classmethod
    def plain(cls, request: ExperimentRequest) -> ConfiguredRequest:
        """For a request that takes its config files as they are."""
        return cls(request, RunConfig(request.config.files))

    @property
    def workspace(self) -> Path:
        return (self.request.workspace or Path.cwd()).absolute()

    @property
    def config_files(self) -> tuple[Path, ...]:
        return tuple(path.absolute() for path in self.copies.files)

    def identify(self) -> tuple[Framework, Path]:
        """The framework and the layout file.

        Raises:
            ConfigError: as `checking.identify`.
        """
        request, files = self.request, self.config_files
        layout = request.layout
        if layout is None and request.host_options:
            layout = cluster_layout(files, request.framework, workspace=self.workspace)
        return identify(files, layout, request.framework, workspace=self.workspace)

    def trust_programs(self) -> None:
        """Trust the programs that it runs, for whoever starts it.

        Raises:
            ConfigError: as `identify`.
        """
        framework, layout_file = self.identify()
        trust.trust_programs(layout_file, framework, workspace=self.workspace, config_files=self.config_files)


@dataclass(frozen=True, slots=True)
class EarlierRun:
    output_dir: Path
    point: ResumePoint
    next_free: Path
    owner: str | None = None
    """Name of the experiment it was, where that is another than the one to be created."""

    def refusal(self) -> ConflictError:
        resumable = (
            f"--resume continues from checkpoint {self.point.step}"
            if self.point.step is not None
            else "--resume starts that run over (it has no checkpoint; its files are set aside)"
        )
        owner_text = f"an earlier run of the experiment {self.owner}" if self.owner else "an earlier run"
        return ConflictError(
            f"{self.output_dir} holds {owner_text}, which stays untouched",
            hint=f"choose: {resumable}; --new starts a new run in {self.next_free}",
        )


@dataclass(frozen=True, slots=True)
class LentServers:
    """Inference servers of somebody else that an experiment is sent to."""

    urls: tuple[str, ...] = ()
    owner: str = ""
    """Name of the experiment whose they are; empty: only their addresses are known."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An experiment that is being planned. Each step makes one that knows more; none writes anything."""

    request: ExperimentRequest
    workspace: Path
    config_files: tuple[Path, ...]
    """Absolute paths of the config."""
    framework: Framework
    layout_file: Path
    layout: Layout
    files: ConfigFiles
    """The config, as it is read."""
    output_dir: Path = Path()
    name: str = ""
    instances: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of `each` in the layout → names of its instances, as the config says."""
    earlier: EarlierRun | None = None
    servers: LentServers = LentServers()

    @property
    def record_there(self) -> ExperimentRecord | None:
        """The earlier record of this experiment, if its output folder holds one."""
        before = ControlFolder(self.output_dir).read_record()
        return before if before is not None and before.name == self.name else None


def plan_record(run: ConfiguredRequest) -> tuple[ExperimentRecord, EarlierRun | None]:
    """The experiment that `run` describes, and the earlier run in its folder. No side effects.

    Raises:
        ConfigError: as `identify`, or if the config breaks a rule.
        ConflictError: if the name is taken by an experiment in another folder.
    """
    draft = _located(_identified(run))
    if (as_before := _as_jobs_before(draft)) is not None:
        draft = _located(_identified(replace(run, request=as_before)))
    draft = _on_hosts(draft)
    draft = _with_servers(_with_earlier_run(_with_instances(draft)))
    return _record_of(draft), draft.earlier


def _identified(run: ConfiguredRequest) -> Draft:
    framework, layout_file = run.identify()
    layout = runnable_layout(layout_file)
    framework = framework.fitted(layout)
    files = load_files(run.config_files, framework)
    return Draft(run.request, run.workspace, run.config_files, framework, layout_file, layout, files)


def _located(draft: Draft) -> Draft:
    output_dir = _own_folder(draft.request, _output_dir(draft))
    return replace(draft, output_dir=output_dir, name=_name(draft.request, output_dir))


def _name(request: ExperimentRequest, output_dir: Path) -> str:
    return request.name if request.name is not None else free_name(output_dir.name, output_dir)


def _with_instances(draft: Draft) -> Draft:
    layout = with_components(draft.layout, layout_files.parts(family_of(draft.framework.id)))
    return replace(draft, instances=used_instances(layout, draft.framework.launch.instances(draft.files)))


def _with_earlier_run(draft: Draft) -> Draft:
    """Add the run in the output folder; or move to the next free folder, where a new run is asked for."""
    earlier = _earlier_run(draft)
    if earlier is None or draft.request.earlier_run != "new":
        return replace(draft, earlier=earlier)
    return replace(
        draft, output_dir=earlier.next_free, name=_name(draft.request, earlier.next_free), earlier=None
    )


def _with_servers(draft: Draft) -> Draft:
    """Add the external servers that it uses.

    Raises:
        ConflictError: if they cannot serve it.
    """
    draft = replace(draft, servers=_lent_servers(draft))
    if draft.servers.owner:
        _refuse_other_weights(draft.servers.owner, _sent(draft), draft.files)
    return draft


def _sent(draft: Draft) -> Framework:
    """The framework, set up for the external servers."""
    servers = draft.servers
    if not servers.urls:
        return draft.framework
    return draft.framework.sent_to(servers.urls, is_lent=bool(servers.owner))


def _record_of(draft: Draft) -> ExperimentRecord:
    request, external = draft.request, _sent(draft).servers.external(draft.files)
    layout_files.with_instances(  # refused now, not at the start
        draft.layout, draft.instances, draft.layout_file, without=external
    )
    output_dir = draft.output_dir.resolve()
    record = ExperimentRecord(
        name=draft.name,
        output_dir=str(output_dir),
        workspace=str(draft.workspace),
        config_files=tuple(map(str, draft.config_files)),
        layout_file=str(draft.layout_file),
        framework=draft.framework.id,
        created_at=time.time(),
        run_dir=str(output_dir / draft.layout.run_dir),
        instances=dict(draft.instances),
        external=external,
        inference=draft.servers.urls,
        inference_of=draft.servers.owner,
        devices=request.devices or "",
        forced=request.force,
        host_options={kind: dict(options) for kind, options in request.host_options.items() if options},
    )
    check_new_record(record)
    return record


def _as_jobs_before(draft: Draft) -> ExperimentRequest | None:
    """The request with the job options of the earlier run, if it resumes a run of jobs and has none itself;
    else `None`.
    """
    request = draft.request
    before = draft.record_there if request.earlier_run == "resume" else None
    if before is None:
        return None
    layout = request.layout
    if layout is None and layout_files.load_for(before).submits:
        layout = before.layout_file
    elif not request.host_options and str(draft.layout_file) != before.layout_file:
        return None
    options = merged_options(lasting_options(before.host_options), request.host_options)
    goes_on = replace(request, layout=layout, host_options=options)
    return None if goes_on == request else goes_on


class ClusterConfigError(ConfigError):
    """The config is for SLURM, and nobody has said that it shall be submitted."""


def _on_hosts(draft: Draft) -> Draft:
    """Add the host options that one GPU means.

    Raises:
        ConfigError: if config, layout and request disagree on whether this machine is meant.
        UsageError: for options that its hosts do not take.
    """
    request, layout, files = draft.request, draft.layout, draft.files
    if not request.host_options:
        if draft.framework.launch.asks_for_cluster(files) and not layout.submits:
            names = join_words([file.path for file in files.values()])
            raise ClusterConfigError(
                f"{names} is for a cluster (it has a [slurm] table)",
                hint="--slurm submits it as a job; to run it on this machine, remove [slurm]",
            )
    elif not layout.submits:
        raise ConfigError(
            f"{draft.layout_file}: no component runs as a SLURM job",
            hint="write `slurm = {}` for a component that should, or leave out --layout",
        )
    host_options = _with_one_gpu(draft)
    try:
        layout.with_host_options(host_options)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"--slurm: {reason}", hint=str(hints.UP_HELP)) from error
    return replace(draft, request=replace(request, host_options=host_options))


def _with_one_gpu(draft: Draft) -> HostOptions:
    """The host options, with one GPU as the launcher that writes a job's script takes it.

    Raises:
        UsageError: where it takes none.
    """
    request = draft.request
    if not request.host_options or not request.is_on_one_gpu:
        return request.host_options
    if not draft.framework.job_on_one_gpu:
        raise UsageError(
            "--single-gpu selects GPUs of this machine; a job gets those of its node",
            hint="--gpus N sets the GPUs per node; the config assigns them",
        )
    return {
        kind: {**options, "arguments": (*_arguments(options), *draft.framework.job_on_one_gpu)}
        for kind, options in request.host_options.items()
    }


def _arguments(options: Mapping[str, str | bool | tuple[str, ...]]) -> tuple[str, ...]:
    arguments = options.get("arguments", ())
    assert isinstance(arguments, tuple)  # as the command line makes it
    return arguments


def _lent_servers(draft: Draft) -> LentServers:
    """Servers that the request names; a resumed run without any uses those that it had.

    Raises:
        ConfigError: if the named experiment has no server.
        ConflictError: if it is this one, or its server does not run.
    """
    request, name = draft.request, draft.name
    owner = request.inference_of
    if owner is None and request.inference is not None:
        return LentServers(tuple(map(server_url, request.inference)))
    if owner is None and request.earlier_run == "resume":
        before = draft.record_there
        if before is None or not before.inference_of:
            return LentServers(before.inference if before is not None else ())
        owner = before.inference_of
    if owner is None:
        return LentServers()
    owner_record = launch.choose(owner)
    if owner_record.name == name:
        raise ConflictError(f"{name} cannot borrow its own inference server")
    url = inference_url(owner_record)
    if not living(owner_record, ("inference",)):
        raise ConflictError(
            f"the inference server of {owner} is not running",
            hint=f"start it: {hints.START(component='inference', name=owner)}",
        )
    return LentServers((url,), owner)


def _refuse_other_weights(owner: str, framework: Framework, files: ConfigFiles) -> None:
    """Raises ConflictError where its server gets weights in another way than `framework` would send them."""
    _, owner_framework, owner_files = setup_of(launch.choose(owner))
    owner_weights = owner_framework.servers.weights_by(owner_files)
    if owner_weights != (ours := framework.servers.weights_by(files)):
        raise ConflictError(
            f"the inference server of {owner} takes weights by {owner_weights or 'another method'}, but"
            f" this config sends them by {ours or 'another method'}",
            hint="set the same [weight_broadcast] in both",
        )


def _output_dir(draft: Draft) -> Path:
    """The requested folder, relative to the working directory; else the one that the config says, or next to
    it.
    """
    request, workspace, config_files = draft.request, draft.workspace, draft.config_files
    if request.output_dir is not None:
        return request.output_dir.absolute()
    if not config_files:
        return workspace / default_output_dir([Path(request.layout or "")])
    inside = config_files[0].parent
    for folder in (inside, inside.parents[1] if inside.name == origins.FOLDER else inside):
        around = ControlFolder(folder).read_record()
        if around is not None and around.config_files == tuple(map(str, config_files)):
            # an experiment's own copy of the config still names the original's
            return Path(around.output_dir)
    return workspace / (
        draft.framework.run.output_dir(draft.files)
        or default_output_dir(origins.original_files(config_files))
    )


def _own_folder(request: ExperimentRequest, output_dir: Path) -> Path:
    """The folder that the config names; beside it where that is another experiment's, and the name a new one
    or known there.
    """
    if request.name is None or request.output_dir is not None or owner_of(output_dir, request.name) is None:
        return output_dir
    adjacent, same_name = output_dir.with_name(request.name), find_experiment(request.name)
    if same_name is None:
        return output_dir if request.earlier_run == "resume" else adjacent
    return adjacent if same_folder(same_name.output_dir, str(adjacent)) else output_dir


def _earlier_run(draft: Draft) -> EarlierRun | None:
    output_dir, layout, framework, files = draft.output_dir, draft.layout, draft.framework, draft.files
    folder = RunFolder(output_dir / layout.run_dir, framework.run.files(files))
    owner = owner_of(output_dir, draft.name)
    if not folder.artifacts() and (owner is None or not ControlFolder(output_dir).newest_attempts()):
        return None
    jobs = layout.run_jobs(framework.run_roles)
    points = ResumePoints(framework, ControlFolder(output_dir), folder, jobs)
    point = points.of(Request(action="start", resume_step=draft.request.checkpoint_step), files)
    return EarlierRun(output_dir, point, free_path(output_dir), owner.name if owner else None)


def owner_of(output_dir: Path, name: str) -> ExperimentRecord | None:
    """The experiment that lies in the folder, unless that is `name` itself."""
    owner = ControlFolder(output_dir).read_record()
    return owner if owner is not None and owner.name != name else None
