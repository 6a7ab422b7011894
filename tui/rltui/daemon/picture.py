"""The experiment as it is now. Looks, changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rltui.core.api import ComponentState, ComponentStatus, Down, Status
from rltui.core.lifecycle import Life
from rltui.core.stalls import InferenceActivity, facts_of
from rltui.core.text import ssh_host
from rltui.daemon.component import ComponentRunner
from rltui.daemon.forecast import MemoryOutlook, RemedyDesk
from rltui.daemon.orphans import OrphanWatch
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.rollback import RollbackWatch
from rltui.daemon.setup import Setup
from rltui.errors import ConfigError
from rltui.services.config_store import ConfigStore
from rltui.services.launch import Launcher
from rltui.services.logs.followed import FollowedLogs
from rltui.services.runs.observed import is_growing, title_of


@dataclass(frozen=True, slots=True)
class Picture:
    """Reads the parts of a supervisor."""

    setup: Setup
    store: ConfigStore
    rollback: RollbackWatch
    recipe: Launcher
    progress: ProgressTracker
    logs: FollowedLogs
    runners: Mapping[str, ComponentRunner]
    orphans: OrphanWatch
    activities: Mapping[str, InferenceActivity]
    outlook: MemoryOutlook
    remedies: RemedyDesk
    transaction: Callable[[], str | None]
    """The plan being carried out, in words."""
    down: Callable[[], Down | None]
    """Whether and by whom everything is being ended."""

    def status(self) -> Status:
        """Everything about processes and progress."""
        record, progress = self.setup.record, self.progress.progress
        return Status(
            experiment=record.name,
            state="running" if self._is_running() else "stopped",
            framework=self.setup.framework.id,
            output_dir=record.output_dir,
            run_dir=record.run_dir,
            observed=record.observed,
            step=progress.step,
            max_steps=progress.max_steps,
            reward=progress.reward,
            components=tuple(self._component_status(runner) for runner in self.runners.values()),
            done=self.is_done(),
            title=title_of(record, self.setup.layout, self.setup.framework),
            config_files=record.config_files,
            workspace=record.workspace,
            progress=progress,
            logs=self.logs.logs,
            transaction=self.transaction(),
            down=self.down(),
            rollback=self.rollback.offer,
            orphans=self.orphans.orphans,
        )

    def _is_running(self) -> bool:
        if self.setup.record.observed:
            return is_growing(self.logs.logs, time.time())
        return any(runner.life.expected for runner in self.runners.values())

    def _component_status(self, runner: ComponentRunner) -> ComponentStatus:
        name = runner.spec.id
        try:
            gpus = tuple(device.index for device in self.recipe.devices(name, self.store.files))
        except ConfigError:  # an unreadable config is told once, by the teller
            gpus = ()
        activity = self.activities.get(name)
        facts = (*self.progress.facts(name), *(facts_of(activity) if activity is not None else ()))
        status = runner.status(facts=facts, gpus=gpus)
        if (advice := self.remedies.advice(runner)) is not None:
            return status.model_copy(update={"out_of_memory": advice[0], "remedies": advice[1]})
        if runner.attempt is None and not runner.life.busy and self.is_made(name):
            made = self.recipe.creates(name, self.store.files)
            return status.model_copy(update={"reason": f"not needed: {made} is there"})
        return status

    def remote(self, components: Iterable[str]) -> tuple[str, ...]:
        """What of these runs on another machine, by ssh, as it was last started: `trainer on node7`."""
        hosts = {
            name: ssh_host(runner.launch.argv)
            for name in components
            if (runner := self.runners[name]).launch is not None
        }
        return tuple(f"{name} on {host}" for name, host in hosts.items() if host is not None)

    def run_jobs(self) -> list[ComponentRunner]:
        """The jobs that write the run, and whose end is the end of it."""
        names = self.setup.run_jobs
        return [runner for name, runner in self.runners.items() if name in names]

    def alive(self) -> list[str]:
        """Ids of the components that have a process."""
        return [name for name, runner in self.runners.items() if runner.life.alive]

    def is_done(self) -> bool:
        """Every job of the run has ended well, left its work to nobody else, and no service is in trouble."""
        jobs = self.run_jobs()
        services = [runner for runner in self.runners.values() if runner.spec.kind == "service"]
        calm = (ComponentState.READY, ComponentState.STOPPED)
        return (
            bool(jobs)
            and all(_has_done_its_work(runner.life) for runner in jobs)
            and all(runner.life.state in calm for runner in services)
        )

    def is_made(self, component: str) -> bool:
        """Whether what this job makes is there. A config that cannot be read makes nothing."""
        try:
            path = self.recipe.creates(component, self.store.files)
        except ConfigError:
            return False
        return path is not None and path.exists()

    def why_held(self, component: str) -> tuple[bool, str] | None:
        """What the start of a component waits for, `None` if nothing; False where it cannot come any more."""
        for needed in self.setup.layout[component].after:
            life = self.runners[needed].life
            if self._is_there(needed):
                continue
            if life.expected:
                return True, f"{needed} to be {'ready' if life.kind == 'service' else 'done'}"
            why = (life.reason or "").partition(" (")[0].partition(";")[0]  # the whole is told of `needed`
            return False, f"{needed} is {life.state}" + (f": {why}" if why else "")
        engine = self.outlook.why_held(component)
        return None if engine is None else (True, engine)

    def _is_there(self, component: str) -> bool:
        """A service is ready, a job has done its work."""
        life = self.runners[component].life
        if life.kind == "service":
            return life.state is ComponentState.READY
        return not life.expected and (life.state is ComponentState.EXITED or self.is_made(component))


def _has_done_its_work(life: Life) -> bool:
    return life.state is ComponentState.EXITED and life.exit is not None and life.exit.cause is None
