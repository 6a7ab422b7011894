"""The config of the experiment: its files, what the framework says of them, what a start takes of them."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.core import hints
from rltui.core.api import Alert
from rltui.core.config_report import DerivedValue, KnobTable, Problem
from rltui.core.gpu.devices import GpuChoice
from rltui.core.gpu.report import GpuDevice
from rltui.core.layout import Layout
from rltui.daemon.events import EventBus
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services import layout_files, subprocesses, trust
from rltui.services.config.editor import ConfigEditor
from rltui.services.config.files import LoadedFiles, load_snapshot, write_passed
from rltui.services.config.models import FrameworkModels, informed
from rltui.services.config.store import ConfigStore, EditPreview
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.launch import LAST_PORT, Launch, Launcher
from rltui.services.nodes import command_input, reach_words
from rltui.services.processes import port_holders
from rltui.services.resolved_configs import Resolver
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import known_experiments
from rltui.services.runs.observed import framework_of
from rltui.services.runs.provenance import ProvenanceCollector

logger = logging.getLogger(__name__)

_CHECK_TIMEOUT_S = 60.0
"""Longest time of what must succeed before a start."""
_RESOLVED = "resolved"
"""Folder of the files that the framework makes of the config: below the attempt's, and below rltui's own."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays as it is while a supervisor lives: whose experiment, where, and made of what."""

    record: ExperimentRecord
    control: ControlFolder
    layout: Layout
    framework: Framework

    @classmethod
    def of(cls, record: ExperimentRecord) -> Setup:
        """The setup of the experiment of `record`.

        Raises:
            ConfigError: if its layout or framework cannot be found or understood.
        """
        files = [Path(name) for name in record.config_files]
        return cls(
            record=record,
            control=ControlFolder(Path(record.output_dir)),
            layout=layout_files.load_for(record),
            framework=informed(framework_of(record), Path(record.workspace), files),
        )

    @property
    def components(self) -> list[str]:
        """Ids of those that start with the experiment, in the order of the layout."""
        return [spec.id for spec in self.layout.automatic]

    @property
    def run_jobs(self) -> frozenset[str]:
        """Ids of those that write the run."""
        return self.layout.run_jobs(self.framework.run_roles)

    @property
    def workspace(self) -> Path:
        return Path(self.record.workspace)

    def layout_problems(self) -> tuple[Problem, ...]:
        """The layout's file says something else than it did when the supervisor read it."""
        try:
            if layout_files.load_for(self.record) == self.layout:
                return ()
            what = "was changed"
        except ConfigError as error:
            what = f"was changed and cannot be read any more ({error.title})"
        message = (
            f"the layout {what} since this experiment's supervisor started, which goes on with what it read"
            f" then: `{hints.DOWN(name=self.record.name)}` and then"
            f" `{self.record.resume_command}` take the new one"
        )
        return (Problem(severity="warning", message=message, file=self.record.layout_file),)


class Config:
    """`store` reads the files, `editor` writes them, `launcher` makes commands of them. Knows nothing of
    processes. Lives on the supervisor's loop.
    """

    def __init__(
        self,
        setup: Setup,
        events: EventBus,
        *,
        derive: Callable[[ConfigFiles], tuple[DerivedValue, ...]],
        choose: Callable[[GpuChoice], tuple[GpuDevice, ...]],
    ) -> None:
        """`derive` gives the figures that follow from the files, `choose` the devices of this machine."""
        record, framework = setup.record, setup.framework
        self._setup = setup
        self._framework = framework
        self._events = events
        self.launcher = Launcher(record, setup.layout, framework, choose=choose)
        self.store = ConfigStore(
            [Path(name) for name in record.config_files],
            framework,
            components=setup.components,
            launched=setup.layout.launched,
            derive=derive,
            forced=record.forced,
        )
        self.editor = ConfigEditor(self.store, setup.control, events.journal)
        self._models = FrameworkModels(framework, setup.workspace)
        self._framework_lock = asyncio.Lock()
        """One who waits for the framework takes one of the supervisor's few threads, others none."""
        self._provenance = ProvenanceCollector(
            control=setup.control.path,
            workspace=setup.workspace,
            output_dir=Path(record.output_dir),
            framework=framework,
            layout=setup.layout,
            config_files=[Path(name) for name in record.config_files],
        )
        self._resolver = Resolver(
            setup.control.path / _RESOLVED, workspace=setup.workspace, tell=self._set_makes_configs
        )
        self.makes_configs = False
        """The framework works out, from the files, what its programs read: that may take a minute."""

    def close(self) -> None:
        self._models.close()

    def _set_makes_configs(self, is_making: bool) -> None:
        self.makes_configs = is_making
        self._events.changed("status")

    def reconcile(self) -> None:
        """Finish an edit that an earlier supervisor was killed at."""
        try:
            self.editor.settle()
        except RltuiError as error:
            title = "an edit that was begun is not settled"
            self._events.alert(Alert(kind="config", severity="error", title=title, text=str(error)))

    def trust(self) -> None:
        """Somebody starts it, so what it runs is meant to be run."""
        record = self._setup.record
        try:
            trust.trust_programs(
                Path(record.layout_file),
                self._framework,
                workspace=self._setup.workspace,
                config_files=[Path(name) for name in record.config_files],
            )
        except RltuiError as error:
            logger.warning("trust is not kept: %s", error)

    async def save_provenance(self, driver: str | None) -> None:
        """Write down what the run is started with besides the files. `driver`: its version, where known."""
        files, launcher = self.store.files, self.launcher
        try:
            devices = (each for name in self._setup.components for each in launcher.devices(name, files))
            await self._provenance.keep(files, {each.label: each.name for each in devices}, driver)
        except RltuiError as error:
            logger.warning("what the run was started with is not kept: %s", error)

    # --- what the files say -------------------------------------------------------------------------------

    def running(self, attempts: Mapping[str, int]) -> dict[str, ConfigFiles]:
        """Living component → the files it was started with. `attempts`: its number, by component.

        Raises:
            ConfigError: if a kept copy was damaged since.
        """
        control = self._setup.control
        return {
            name: load_snapshot(control.attempt_dir(name, attempt) / "config", self._framework)
            for name, attempt in attempts.items()
        }

    def knobs(self, attempts: Mapping[str, int]) -> KnobTable:
        """The knob table, from the files as they are now. `attempts`: as `running`.

        Raises:
            ConfigError: if a file cannot be read; the components go on with what they were started with.
        """
        return self.editor.knob_table(self.running(attempts))

    def gpu_sources(self) -> tuple[tuple[GpuCommand, ...], str | None]:
        """Commands that read other machines' GPUs, and why they must not be run; none where the config, which
        may name them, is broken.
        """
        layout_file = Path(self._setup.record.layout_file)
        try:
            found = self.launcher.gpu_sources(self.store.files)
        except ConfigError as error:
            self._events.config_error(error)
            return (), None
        if found and not trust.is_layout_trusted(layout_file):
            return found, f"not asked: {trust.untrusted(layout_file.parent)}"
        return found, None

    def is_made(self, component: str) -> bool:
        """Whether what this job makes is there. A config that cannot be read makes nothing."""
        try:
            path = self.launcher.creates(component, self.store.files)
        except ConfigError:
            return False
        return path is not None and path.exists()

    # --- what the framework itself says -------------------------------------------------------------------

    async def can_be_asked(self, edit: EditPreview) -> bool:
        """The framework's own models can be asked about the files that `edit` would leave."""
        paths = [source.path for source in edit.after.sources.values()]
        return await asyncio.to_thread(self._models.can_be_asked, paths)

    async def is_accepted(self, edit: EditPreview | None) -> bool:
        """The framework finds the files valid, as they are or as `edit` would leave them: what our rules say
        against them is a warning from now on.
        """
        loaded = self._loaded(edit)
        async with self._framework_lock:
            accepted = await asyncio.to_thread(self._models.accepts, loaded)
        if accepted:
            self.store.accept(loaded)
        return accepted

    async def framework_problems(
        self, edit: EditPreview | None, ours: Sequence[Problem]
    ) -> tuple[Problem, ...]:
        """What the framework's own models say of the files besides `ours`; seconds may pass."""
        loaded = self._loaded(edit)
        async with self._framework_lock:
            return await asyncio.to_thread(self._models.problems, loaded, ours)

    def _loaded(self, edit: EditPreview | None) -> LoadedFiles:
        return edit.after if edit is not None else self.store.load_sources()

    # --- what a start takes of them -----------------------------------------------------------------------

    async def validate(
        self, components: Sequence[str], files: ConfigFiles, *, resume_step: int | None, run_id: str
    ) -> None:
        """Make what starts of `components` will ask for, so that a refusal is known before anything stops.

        Components that start together share one making. Seconds may pass.

        Raises:
            ConfigError: if the framework refuses the config.
            RltuiError: if it cannot be asked, or the disk is full.
        """
        run = self.launcher.run_prefix(files)
        for component in components:
            for wanted in self.launcher.resolutions(component, files, resume_step=resume_step, run_id=run_id):
                await self._resolver.prepare(wanted, files, run=run)

    def move_ports(self, component: str, *, stays: Collection[str], own: Collection[int]) -> None:
        """Choose ports of `component` again that another program has taken, but none that `stays` reads.

        `own`: pids of what this experiment has left, which ends before the start. Blocks.

        Raises:
            RltuiError: if the config cannot be read, or the choice cannot be kept.
        """
        files = self.store.load()
        for item in self.launcher.movable_ports(component, files, stays):
            port = self.launcher.chosen_port(item, files)
            holders = [each for above in (0, *item.more) for each in port_holders(port + above)]
            if all(holder.pid in own for holder in holders):
                continue
            others = (each for each in known_experiments() if each.name != self._setup.record.name)
            claimed = {chosen for each in others for chosen in each.overrides.values()}
            free = next(
                each
                for each in range(port + 1, LAST_PORT)
                if not any(each + above in claimed or port_holders(each + above) for above in (0, *item.more))
            )
            self._setup.control.write_record(self.launcher.move_port(item, free))
            text = f"port {port} is held by {holders[0]}: {component} uses {free}"
            self._events.journal.add("config", text, component=component)

    async def prepare(
        self, component: str, attempt_dir: Path, *, resume_step: int | None, run_id: str
    ) -> Launch:
        """Snapshot the files, make what the framework makes of them, and fill in the command.

        Raises:
            ConfigError: if the config cannot be understood, or the framework refuses it.
            RltuiError: if the framework cannot be asked, or the disk is full.
        """
        self.store.load()
        files = self.store.snapshot(attempt_dir / "config")
        resolved: dict[str, str] = {}
        for wanted in self.launcher.resolutions(component, files, resume_step=resume_step, run_id=run_id):
            run = self.launcher.run_prefix(files)
            made = await self._resolver.make(wanted, files, run=run, into=attempt_dir / _RESOLVED)
            resolved.update(made.files)
            if not made.was_kept and wanted.notes:
                self._events.journal.add("config", "; ".join(wanted.notes), component=component)
        passed = self.launcher.passed(component, files, resume_step=resume_step, run_id=run_id)
        write_passed(attempt_dir / "config", passed)
        launch = self.launcher.launch(
            component, files, resume_step=resume_step, run_id=run_id, resolved=resolved
        )
        if launch.ready is not None and launch.ready.file is not None:
            self._remove_ready_file(Path(launch.ready.file))
        if launch.check:
            await _run_check(launch)
        return launch

    def _remove_ready_file(self, mark: Path) -> None:
        """A file of rltui's own that told that the attempt before was ready: it misleads its partners, too.

        Raises:
            RltuiError: if it cannot be removed.
        """
        if not mark.is_relative_to(self._setup.control.path):
            return
        try:
            mark.unlink(missing_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot remove {mark}, which is out of date: {error.strerror}") from error


async def _run_check(launch: Launch) -> None:
    """Run what must succeed before a start, on its node or in its pod where it has one.

    Raises:
        RltuiError: if it fails or takes too long.
    """
    if launch.host is not None and "reach" in launch.host:
        env = {**launch.host["env"], **launch.env}
        script = command_input(launch.check, cwd=launch.cwd, env=env, login=launch.host["login"])
        words = [*reach_words(launch.host["reach"]), "sh"]
        done = await subprocesses.run(words, timeout_s=_CHECK_TIMEOUT_S, stdin=script, leaves_nothing=True)
    else:
        done = await subprocesses.run(
            launch.check,
            timeout_s=_CHECK_TIMEOUT_S,
            variables=launch.env,
            cwd=Path(launch.cwd),
            leaves_nothing=True,
        )
    failure = f"took longer than {_CHECK_TIMEOUT_S:g} s" if done.code is None else done.failure
    if failure is not None:
        raise RltuiError(f"`{shlex.join(launch.check)}` {failure}")
