"""The components of the experiment: their processes, and the obstacles to their starts."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from rltui import paths
from rltui.base.interpreter import bare_command
from rltui.base.tasks import Signal, tick
from rltui.base.text import ssh_host
from rltui.core import hints
from rltui.core.experiment.api import Alert
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.devices import chosen_devices
from rltui.frameworks.engines.base import Engine
from rltui.hosts.remote import job_status_alerts
from rltui.hosts.shim import program as shim_program
from rltui.services import processes
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.launch import Launch
from rltui.services.experiment.probes import served_model
from rltui.services.experiment.registry import name_if_needed
from rltui.services.gpu.forecast import Forecaster
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.hosts.job_status import JobStatus
from rltui.services.own_files import FileLock, make_folder
from rltui.services.processes import ProcessId
from rltui.services.processes.origin import holder_text
from rltui.services.processes.orphans import leftovers_text
from rltui.services.tmux import TmuxHost
from rltui.supervisor.component import ComponentRunner, UnmetDependency
from rltui.supervisor.config import Config, Setup
from rltui.supervisor.events import EventBus
from rltui.supervisor.gpu.forecast import MemoryForecast, memory_obstacle
from rltui.supervisor.gpu.reservations import ReservationManager
from rltui.supervisor.observation import Observation
from rltui.supervisor.orphans import OrphanWatch
from rltui.supervisor.servers import Servers

_SHIM = Path(shim_program.__file__).with_name("__main__.py")
_POLL_S = 1.0
"""Pause between two looks at an output that another experiment makes."""


class Processes:
    """Owns the components in `runners` and knows their orphans."""

    def __init__(
        self,
        setup: Setup,
        events: EventBus,
        config: Config,
        observation: Observation,
        readings: GpuReadings,
        forecaster: Forecaster,
        servers: Servers,
        *,
        tmux: TmuxHost,
    ) -> None:
        self.record = setup.record
        self.failure_patterns = setup.framework.failures
        self.changes = Signal()
        """Notified when a component or an orphan has changed."""
        self._output_locks: dict[str, FileLock] = {}
        """Component → lock that is held while it makes an output that other experiments may make as well."""
        self._setup = setup
        self._events = events
        self._config = config
        self._observation = observation
        self._readings = readings
        self._servers = servers
        self.terminal = _Terminal(tmux, paths.tmux_session(setup.record.name), setup.workspace)
        self.runners = {
            spec.id: ComponentRunner(spec=spec, runner_host=self) for spec in setup.layout.component
        }
        self.orphans = OrphanWatch(setup, self.runners, events, readings, self.changes)
        events.on_change("servers", self.changes.notify)
        self.forecast = MemoryForecast(setup.layout, self.runners, config.document, forecaster, readings)
        self.reservations = ReservationManager(
            setup.record.name,
            self.runners,
            config.document,
            forecaster,
            readings,
            completed_steps=lambda: observation.progress.progress.step or 0,
        )

    async def stop(self, names: Collection[str], *, kill: bool = False) -> list[str]:
        """Stop these at the same time, but each after those of them that need it. Returns those that cannot
        be ended.
        """
        layout = self._setup.layout
        order = [name for name in reversed(layout.start_order()) if name in names]
        stop_tasks: dict[str, asyncio.Task[bool]] = {}

        async def end(name: str, users: Sequence[asyncio.Task[bool]]) -> bool:
            if users:
                await asyncio.wait(users)
            return await self.runners[name].stop(kill=kill)

        for name in order:
            users = [stop_tasks[user] for user in stop_tasks if name in layout.needs(user)]
            stop_tasks[name] = asyncio.create_task(end(name, users), name=f"stop {name}")
        results = await asyncio.gather(*stop_tasks.values())
        return [name for name, is_ended in zip(order, results, strict=True) if not is_ended]

    # --- how it stands ------------------------------------------------------------------------------------

    def alive(self) -> list[str]:
        """Ids of the components that have a process."""
        return [name for name, runner in self.runners.items() if runner.lifecycle.alive]

    def attempts(self) -> dict[str, int]:
        """Number of the attempt of each component that has a process."""
        return {
            name: runner.attempt
            for name, runner in self.runners.items()
            if runner.lifecycle.alive and runner.attempt is not None
        }

    def run_jobs(self) -> list[ComponentRunner]:
        """The jobs that write the run; it ends when they end."""
        names = self._setup.run_jobs
        return [runner for name, runner in self.runners.items() if name in names]

    def ssh_components(self, components: Iterable[str]) -> tuple[str, ...]:
        """Return the components of these that were last started by an ssh command, as `trainer on node7`."""
        hosts = {
            name: ssh_host(runner.launch.argv)
            for name in components
            if (runner := self.runners[name]).launch is not None
        }
        return tuple(f"{name} on {host}" for name, host in hosts.items() if host is not None)

    def remaining_processes(self) -> tuple[str, ...]:
        """Sentences about processes that could not be ended, here and on other machines, and why."""
        local = (
            f"{processes.survival_reason(ProcessId(orphan.pid, orphan.start))}"
            + (f", of {orphan.component}" if orphan.component else "")
            for orphan in self.orphans.orphans
        )
        return *local, *(
            f"{name}: {reason}"
            for name, runner in self.runners.items()
            if runner.handle is not None and (reason := runner.handle.survival_reason()) is not None
        )

    def set_stall(self, component: str, evidence: str | None) -> None:
        """Set why a living component counts as stalled; `None`: it gives signs of life again.

        While the silence lasts, this is called again with newer durations.
        """
        runner = self.runners[component]
        if runner.evidence == evidence:
            return
        is_changed = (runner.evidence is None) != (evidence is None)
        runner.evidence = evidence if runner.lifecycle.alive else None
        if is_changed and runner.lifecycle.alive:
            is_stalled = evidence is not None
            self._events.alert(
                Alert(
                    kind="stall" if is_stalled else "recovered",
                    severity="warning" if is_stalled else "information",
                    title=f"{component} {'stalled' if is_stalled else 'is no longer stalled'}",
                    text=evidence or "making progress again",
                    component=component,
                )
            )
        self._events.changed("status")

    # --- what components ask of it ------------------------------------------------------------------------

    def lifecycle_changed(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        lifecycle, name = runner.lifecycle, runner.spec.id
        if not lifecycle.busy and (lock := self._output_locks.pop(name, None)) is not None:
            lock.release()
        self._events.lifecycle_changed(runner, previous)
        if lifecycle.alive != previous.alive:
            self._events.changed("knobs")
        if lifecycle.alive and not previous.alive and runner.log is not None:
            self._observation.attempt_started(name, runner.log, runner.attempt or 1)
        if previous.alive and not lifecycle.alive:
            self._observation.attempt_ended(name)
            self.orphans.request_search()
        if previous.busy and not lifecycle.busy:
            self.reservations.release_finished()
        self._events.changed("status")
        self.changes.notify()

    def job_status_changed(self, component: str, previous: JobStatus | None, job_status: JobStatus) -> None:
        if job_status.id and (previous is None or previous.id != job_status.id):
            self._events.journal.add(
                "notice", f"{component}: {job_status.where}", component=component, remote=job_status.id
            )
        for alert in job_status_alerts(component, previous, job_status):
            self._events.alert(alert)
        self._events.changed("status")

    def shim_lost(self, runner: ComponentRunner) -> None:
        """Warn: processes that such a component leaves behind are harder to find."""
        name = runner.spec.id
        as_pid = "" if runner.pid is None else f" as pid {runner.pid}"
        text = (
            f"{name} keeps running{as_pid}, watched by the supervisor. Its next start will use a shim again."
        )
        title = f"the shim of {name} was killed"
        self._events.alert(Alert(kind="notice", severity="warning", title=title, text=text, component=name))

    def start_blocker(self, component: str) -> tuple[bool, str] | None:
        for needed in self._setup.layout[component].after:
            lifecycle = self.runners[needed].lifecycle
            if self._is_there(needed):
                continue
            if lifecycle.expected:
                return True, f"{needed} to be {'ready' if lifecycle.kind == 'service' else 'done'}"
            # the full reason is shown at `needed`
            reason = (lifecycle.reason or "").partition(" (")[0].partition(";")[0]
            return False, f"{needed} {lifecycle.word}" + (f": {reason}" if reason else "")
        if (server := self._servers.start_blocker(component)) is not None:
            return server
        engine = self.forecast.start_blocker(component)
        return None if engine is None else (True, engine)

    def _is_there(self, component: str) -> bool:
        """True if a service is ready, or a job has done its work."""
        lifecycle = self.runners[component].lifecycle
        if lifecycle.kind == "service":
            return lifecycle.state is ComponentState.READY
        return not lifecycle.expected and (
            lifecycle.state is ComponentState.EXITED or self.is_made(component)
        )

    def is_made(self, component: str) -> bool:
        return self._config.is_made(component)

    async def wait_for_output_lock(self, component: str, hold: Callable[[str], None]) -> bool:
        if (other_experiment := self.lock_output(component)) is None:
            return True
        while other_experiment is not None:
            hold(f"waiting for {other_experiment}, which is producing the same output")
            await tick(_POLL_S)
            other_experiment = self.lock_output(component)
        return not self.is_made(component)

    def lock_output(self, component: str) -> str | None:
        path = self._config.launcher.context(self._config.document.files).creates(component)
        if path is None:
            return None
        folder = paths.state_dir() / "making"
        make_folder(folder)
        lock = FileLock(folder / hashlib.sha1(os.fsencode(path), usedforsecurity=False).hexdigest())
        is_locked, own_dir = lock.acquire(), self._setup.control.component_dir(component)
        name, _, recorded_dir = lock.path.read_text().partition("\n")
        if is_locked and (
            Path(recorded_dir) == own_dir or not recorded_dir or not _lives_in(Path(recorded_dir))
        ):
            lock.path.write_text(f"{self.record.name}\n{own_dir}")
            self._output_locks[component] = lock
            return None
        lock.release()
        return name or "another experiment"

    async def unmet_dependency(self, component: str, launch: Launch) -> UnmetDependency | None:
        earlier = self.reservations.others() if launch.gpus else ()
        unmet = await unmet_precondition(
            component,
            launch,
            self.orphans,
            self._readings,
            self._setup.framework.engine,
            name_if_needed(self.record.name),
        )
        if unmet is not None:
            return unmet
        return await self.reservations.reserve(component, earlier) if launch.gpus else None

    async def prepare(self, component: str, attempt_dir: Path) -> Launch:
        await self._readings.first()
        await self.orphans.wait_for_searches()
        orphan_pids = [orphan.pid for orphan in self.orphans.orphans]
        await asyncio.to_thread(self._config.move_ports, component, stays=self.alive(), own=orphan_pids)
        observation = self._observation
        launch = await self._config.prepare(
            component, attempt_dir, resume_step=observation.resume_step, run_id=observation.run_id
        )
        if launch.host is not None or launch.gpus == "":
            return launch
        return replace(launch, devices=len(chosen_devices(launch.gpus, self._readings.newest.devices)))

    def can_move(self, component: str) -> bool:
        return bool(self._config.movable_ports(component, self._config.document.files, self.alive()))

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        await self.terminal.open_window(component, attempt_dir, takes_keys=self.runners[component].spec.tty)


def _lives_in(component_dir: Path) -> bool:
    """True if the component with this folder has a process, whether or not its supervisor has."""
    control = ControlFolder(component_dir.parents[2])
    attempts = control.attempts(component_dir.name)
    record = (
        processes.read_attempt(control.attempt_dir(component_dir.name, attempts[-1])) if attempts else None
    )
    return record is not None and record.living_main is not None


async def unmet_precondition(
    component: str,
    launch: Launch,
    orphans: OrphanWatch,
    readings: GpuReadings,
    engine: Engine,
    name: str | None = None,
) -> UnmetDependency | None:
    """The first obstacle on the box to a start. `name`: of the experiment, where a command has to name it."""
    await orphans.wait_for_searches()
    if own_orphans := orphans.of(component):
        text = f"{leftovers_text(own_orphans)} (`{hints.FREE_LEFTOVERS(name=name)}` ends them)"
        return UnmetDependency(text, code="leftovers")
    for port in launch.local_ports:
        if holders := processes.port_holders(port):
            model = await asyncio.to_thread(served_model, port) if port == launch.port else None
            server = f" (already serving {model})" if model else ""
            text = f"port {port}, in use by {' and '.join(map(holder_text, holders))}{server}"
            return UnmetDependency(text, code="port_taken")
    if not launch.gpus:
        return None
    # Read for every start: what others hold by now must not be counted as this component's, where that
    # has to be estimated from changes.
    report = await readings.fresh()
    obstacle = memory_obstacle(component, launch, report.devices, engine.memory)
    return None if obstacle is None else UnmetDependency(obstacle, code="gpu_memory")


class _Terminal:
    """The tmux session of the experiment. libtmux blocks: one thread orders its calls."""

    def __init__(self, tmux: TmuxHost, session: str, workspace: Path) -> None:
        self._tmux = tmux
        self._session = session
        self._workspace = workspace
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tmux")

    async def open_window(self, component: str, attempt_dir: Path, *, takes_keys: bool) -> None:
        argv = bare_command(str(_SHIM), str(attempt_dir))
        cwd = str(self._workspace)
        start = partial(self._tmux.start_window, takes_keys=takes_keys)
        await self._call(partial(start, self._session, component, argv, cwd=cwd))

    async def close(self) -> None:
        """End the session.

        Raises:
            RltuiError: if tmux refuses.
        """
        await self._call(self._tmux.restore_socket)
        await self._call(partial(self._tmux.kill_session, self._session))

    async def _call(self, call: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, call)
