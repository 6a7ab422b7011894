"""The config of the experiment: its files, the framework's view of them, and the launches made of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.core import hints
from rltui.core.config.report import DerivedValue, KnobTable, Problem
from rltui.core.experiment.api import Alert
from rltui.core.experiment.layout import Layout
from rltui.core.gpu.devices import GpuChoice
from rltui.core.gpu.report import GpuDevice
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.launch import PortKnob
from rltui.services.config.document import ConfigDocument
from rltui.services.config.files import read_snapshot, write_passed
from rltui.services.config.history import EditHistory
from rltui.services.config.models import FrameworkModels, informed
from rltui.services.config.passed import passed_values
from rltui.services.config.proposal import Proposal
from rltui.services.experiment import layout_files, trust
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.launch import Launch, Launcher
from rltui.services.experiment.ports import LAST_PORT, movable_ports
from rltui.services.experiment.registry import known_experiments
from rltui.services.experiment.resolved_configs import Resolver
from rltui.services.gpu.assignment import assigned_devices, gpu_sources
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.processes import port_holders
from rltui.services.runs.observed import framework_of
from rltui.services.runs.provenance import collector_of
from rltui.supervisor.events import EventBus

logger = logging.getLogger(__name__)

_RESOLVED = "resolved"
"""Folder of the files that the framework makes of the config: below the attempt's, and below rltui's own."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The constants of a supervisor: its experiment, that experiment's folder, layout and framework."""

    record: ExperimentRecord
    layout: Layout
    framework: Framework

    @classmethod
    def of(cls, record: ExperimentRecord) -> Setup:
        """The setup of the experiment of `record`.

        Raises:
            ConfigError: if its layout or framework cannot be found or understood.
        """
        framework = informed(framework_of(record), Path(record.workspace), record.config_paths)
        return cls(record, layout_files.load_for(record), framework)

    @property
    def control(self) -> ControlFolder:
        return self.record.control

    @property
    def components(self) -> list[str]:
        """Ids of the components that start with the experiment, in the order of the layout."""
        return [spec.id for spec in self.layout.automatic]

    @property
    def parts(self) -> frozenset[str]:
        """Ids of all components, also of those that start on request."""
        return frozenset(spec.id for spec in self.layout.component)

    @property
    def are_jobs_here(self) -> bool:
        """The jobs of the run are processes of this machine, whose addresses are theirs."""
        return not any(self.layout[name].is_remote for name in self.run_jobs)

    @property
    def run_jobs(self) -> frozenset[str]:
        return self.layout.run_jobs(self.framework.run_roles)

    @property
    def workspace(self) -> Path:
        return Path(self.record.workspace)

    def layout_problems(self) -> tuple[Problem, ...]:
        """A warning where the layout's file has changed since the supervisor read it."""
        try:
            if layout_files.load_for(self.record) == self.layout:
                return ()
            change = "has changed"
        except ConfigError as error:
            change = f"has changed and can no longer be read ({error.title})"
        message = (
            f"the layout {change} since the supervisor started, and the old one is still in use; to use"
            f" the new one: `{hints.DOWN(name=self.record.name)}`, then `{self.record.resume_command}`"
        )
        return (Problem(severity="warning", message=message, file=self.record.layout_file),)


class Config:
    """`document` reads and edits the files, `launcher` makes commands of them. Knows nothing of processes."""

    def __init__(
        self,
        setup: Setup,
        events: EventBus,
        *,
        derive: Callable[[ConfigFiles], tuple[DerivedValue, ...]],
        choose: Callable[[GpuChoice], tuple[GpuDevice, ...]],
    ) -> None:
        """`derive` computes the values that follow from the files, `choose` the devices of this machine."""
        record, framework = setup.record, setup.framework
        self._setup = setup
        self._framework = framework
        self._events = events
        self.launcher = Launcher(record, setup.layout, framework, choose=choose)
        self.history = EditHistory(setup.control, events.journal)
        self.document = ConfigDocument(
            record.config_paths,
            framework,
            components=setup.components,
            launched=setup.layout.launched,
            derive=derive,
            forced=record.forced,
            recorded=True,
            history=self.history,
        )
        self._models = FrameworkModels(framework, setup.workspace)
        self._framework_lock = asyncio.Lock()
        """Serialises requests to the framework, so that they occupy one of the supervisor's few threads."""
        self._provenance = collector_of(record, setup.layout, framework)
        self._resolver = Resolver(
            setup.control.path / _RESOLVED, workspace=setup.workspace, notify=self._set_makes_configs
        )
        self.makes_configs = False
        """True while the framework makes the files that its programs read: up to a minute."""

    def close(self) -> None:
        self._models.close()

    def _set_makes_configs(self, is_making: bool) -> None:
        self.makes_configs = is_making
        self._events.changed("status")

    def reconcile(self) -> None:
        """Finish an edit during which an earlier supervisor was killed."""
        try:
            self.history.reconcile()
        except RltuiError as error:
            title = "an unfinished edit remains"
            self._events.alert(Alert(kind="config", severity="error", title=title, text=str(error)))

    def trust(self) -> None:
        """Trust the programs of the experiment: a person starts it, and means them to run."""
        record = self._setup.record
        try:
            trust.trust_programs(
                Path(record.layout_file),
                self._framework,
                workspace=self._setup.workspace,
                config_files=record.config_paths,
            )
        except RltuiError as error:
            logger.warning("trust is not kept: %s", error)

    async def save_provenance(self, driver: str | None) -> None:
        """Write down the circumstances of the start that the files do not hold. `driver`: its version, where
        known.
        """
        files = self.document.files
        try:
            context = self.launcher.context(files)
            components = self._setup.components
            devices = (device for name in components for device in assigned_devices(name, context))
            await self._provenance.record(files, {device.label: device.name for device in devices}, driver)
        except RltuiError as error:
            logger.warning("what the run was started with is not kept: %s", error)

    # --- what the files say -------------------------------------------------------------------------------

    def running(self, attempts: Mapping[str, int]) -> dict[str, ConfigFiles]:
        """Living component → the files it was started with. `attempts`: component → number of its attempt.

        Raises:
            ConfigError: if a copy was damaged since.
        """
        control = self._setup.control
        return {
            name: read_snapshot(control.attempt_dir(name, attempt), self._framework)
            for name, attempt in attempts.items()
        }

    def knobs(self, attempts: Mapping[str, int]) -> KnobTable:
        """The knob table of the files as they are now, with attempts and errors as for `running`."""
        return self.document.knob_table(self.running(attempts))

    def gpu_sources(self) -> tuple[tuple[GpuCommand, ...], str | None]:
        """Commands that read other machines' GPUs, and why they must not be run; none where the config, which
        may name them, is broken.
        """
        layout_file = Path(self._setup.record.layout_file)
        try:
            commands = gpu_sources(self.launcher.context(self.document.files))
        except ConfigError as error:
            self._events.config_error(error)
            return (), None
        if commands and not trust.is_layout_trusted(layout_file):
            return commands, f"not run: {trust.untrusted(layout_file.parent)}"
        return commands, None

    def is_made(self, component: str) -> bool:
        """True if the output of this job exists. A config that cannot be read makes nothing."""
        try:
            path = self.launcher.context(self.document.files).creates(component)
        except ConfigError:
            return False
        return path is not None and path.exists()

    # --- what the framework itself says -------------------------------------------------------------------

    async def can_be_asked(self, edit: Proposal) -> bool:
        """True if the framework's own models can check the files that `edit` would leave."""
        paths = [Path(file.path) for file in edit.after.values()]
        return await asyncio.to_thread(self._models.can_be_asked, paths)

    async def is_accepted(self, edit: Proposal | None) -> bool:
        """True if the framework finds the files valid, as they are or as `edit` would leave them. From then
        on, errors of rltui's own rules are only warnings.
        """
        files = self._files_after(edit)
        async with self._framework_lock:
            accepted = await asyncio.to_thread(self._models.accepts, files)
        if accepted:
            self.document.accept(files)
        return accepted

    async def framework_problems(self, edit: Proposal | None, ours: Sequence[Problem]) -> tuple[Problem, ...]:
        """Problems that the framework's own models find in the files besides `ours`; may take seconds."""
        files = self._files_after(edit)
        async with self._framework_lock:
            return await asyncio.to_thread(self._models.problems, files, ours)

    def _files_after(self, edit: Proposal | None) -> ConfigFiles:
        return edit.after if edit is not None else self.document.load()

    # --- what a start takes of them -----------------------------------------------------------------------

    async def validate(
        self, components: Sequence[str], files: ConfigFiles, *, resume_step: int | None, run_id: str
    ) -> None:
        """Make the configs that starts of `components` will need, so that a refusal is known before anything
        stops.

        Components that start together share one making. It may take seconds.

        Raises:
            ConfigError: if the framework refuses the config.
            RltuiError: if it cannot be run, or the disk is full.
        """
        context = self.launcher.context(files, resume_step=resume_step, run_id=run_id)
        for component in components:
            for resolution in context.resolutions(component):
                await self._resolver.prepare(resolution, files, run=context.run_context.run)

    def movable_ports(self, component: str, files: ConfigFiles, stays: Collection[str]) -> Sequence[PortKnob]:
        """The ports of `component` that rltui may change, since no component in `stays` reads them."""
        return movable_ports(component, self._setup.layout, self._framework, files, stays)

    def move_ports(self, component: str, *, stays: Collection[str], own: Collection[int]) -> None:
        """Choose other ports of `component` where a foreign program has taken one, unless `stays` read it.

        `own`: pids that this experiment has left behind, which end before the start. Blocks.

        Raises:
            RltuiError: if the config cannot be read, or the choice cannot be saved.
        """
        files = self.document.load()
        for movable in self.movable_ports(component, files, stays):
            chosen = self.launcher.context(files).run_context.overrides
            port = int(chosen.get(movable.knob, movable.port))
            holders = [holder for offset in (0, *movable.more) for holder in port_holders(port + offset)]
            if all(holder.pid in own for holder in holders):
                continue
            own_name = self._setup.record.name
            others = (other for other in known_experiments() if other.name != own_name)
            used_ports = {chosen for other in others for chosen in other.overrides.values()}
            free_port = next(
                candidate
                for candidate in range(port + 1, LAST_PORT)
                if not any(
                    candidate + offset in used_ports or port_holders(candidate + offset)
                    for offset in (0, *movable.more)
                )
            )
            self._setup.control.write_record(self.launcher.move_port(movable, free_port))
            text = f"port {port} is in use by {holders[0]}; {component} uses {free_port}"
            self._events.journal.add("config", text, component=component)

    async def prepare(
        self, component: str, attempt_dir: Path, *, resume_step: int | None, run_id: str
    ) -> Launch:
        """Copy the files, have the framework make its own of them, and fill in the command.

        Raises:
            ConfigError: if the config cannot be understood, or the framework refuses it.
            RltuiError: if the framework cannot be run, or the disk is full.
        """
        self.document.load()
        files = self.document.snapshot(attempt_dir)
        context = self.launcher.context(files, resume_step=resume_step, run_id=run_id)
        made = await self._resolver.make(
            context.resolutions(component), files, run=context.run_context.run, into=attempt_dir / _RESOLVED
        )
        for note in made.notes:
            self._events.journal.add("config", note, component=component)
        write_passed(attempt_dir, passed_values(component, context))
        launch = self.launcher.context(
            files, resume_step=resume_step, run_id=run_id, resolved=made.files
        ).launch(component)
        if launch.ready is not None and launch.ready.file is not None:
            self._remove_ready_file(Path(launch.ready.file))
        return launch

    def _remove_ready_file(self, ready_file: Path) -> None:
        """Remove a file of rltui's own that marked the earlier attempt as ready: it would mislead other
        components too.

        Raises:
            RltuiError: if it cannot be removed.
        """
        if not ready_file.is_relative_to(self._setup.control.path):
            return
        try:
            ready_file.unlink(missing_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot remove the outdated {ready_file}: {error.strerror}") from error
