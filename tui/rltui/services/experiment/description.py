"""Describes a run and its components from its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.base.secrets import MASK, is_secret
from rltui.core.config.report import KnobInfo, KnobTable
from rltui.core.experiment.api import Request
from rltui.core.experiment.description import (
    AttemptDescription,
    ComponentDescription,
    Readiness,
    RunDescription,
)
from rltui.core.experiment.layout import ComponentSpec, Layout
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.plan import Situation, make_plan
from rltui.core.experiment.states import ComponentState
from rltui.core.hosts.specs import HOST_TABLES
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services import processes
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launch, Launcher, read_launch
from rltui.services.experiment.registry import find_socket
from rltui.services.redaction import without_secrets
from rltui.services.runs.metadata import read_metadata


class RunDescriber:
    """Describes the run of `record`, whose present config is `files` (`None`: it cannot be read)."""

    def __init__(
        self,
        record: ExperimentRecord,
        layout: Layout,
        framework: Framework,
        files: ConfigFiles | None,
        knobs: KnobTable,
    ) -> None:
        self._record, self._layout, self._framework = record, layout, framework
        self._files, self._knobs = files, knobs
        self._control = record.control

    def run(self) -> RunDescription:
        record = self._record
        metadata = None
        with suppress(ConfigError):  # damaged: the list of runs says it
            metadata = read_metadata(self._control.path)
        return RunDescription(
            name=record.name,
            run_id="" if metadata is None else metadata.id,
            framework=record.framework,
            layout_file=record.layout_file,
            output_dir=record.output_dir,
            run_dir=record.run_dir,
            workspace=record.workspace,
            config_files=record.config_files,
            created_at=record.created_at,
            command=record.resume_command,
            socket=str(find_socket(record)),
            supervisor_log=str(self._control.supervisor_log),
            session=paths.tmux_session(record.name),
            tmux_socket=paths.tmux_socket(),
            components=tuple(self._components()),
        )

    def _components(self) -> Iterator[ComponentDescription]:
        for spec in self._layout.component:
            attempts = tuple(self._attempts(spec.id))
            if not spec.is_manual or attempts:
                yield self._component(spec, attempts)

    def _component(
        self, spec: ComponentSpec, attempts: tuple[AttemptDescription, ...]
    ) -> ComponentDescription:
        fields: dict[str, Any] = {
            "id": spec.id,
            "kind": spec.kind,
            "after": spec.after,
            "restart_policy": spec.restart.policy,
            "config_files": attempts[-1].config_files if attempts else self._record.config_files,
            "values": self._values(spec.id),
            "attempts": attempts,
            **self._restart_set(spec),
        }
        try:
            launch = self._launch(spec.id, attempts)
        except RltuiError as error:
            return ComponentDescription(problem=error.title, **fields)
        is_running = bool(attempts) and attempts[-1].is_running
        return ComponentDescription(
            argv=tuple(map(without_secrets, launch.argv)),
            env={
                name: MASK if is_secret(name) else without_secrets(value)
                for name, value in launch.env.items()
            },
            cwd=launch.cwd,
            host=_host_text(launch.host),
            pid=self._pid(spec.id, attempts[-1].number) if is_running else None,
            session=f"{paths.tmux_session(self._record.name)}:{spec.id}" if is_running else "",
            ports=launch.all_ports,
            devices=launch.gpus or "",
            ready=None if launch.ready is None else Readiness(**launch.ready.model_dump()),
            **fields,
        )

    def _launch(self, component: str, attempts: tuple[AttemptDescription, ...]) -> Launch:
        """How its newest attempt was started; of one without attempts, how it would be.

        Raises:
            RltuiError: if nobody can say.
        """
        if attempts:
            launch = read_launch(self._control.attempt_dir(component, attempts[-1].number))
            if launch is not None:
                return launch
        if self._files is None:
            raise ConfigError("the config cannot be read")
        launcher = Launcher(self._record, self._layout, self._framework)
        return launcher.context(self._files).launch(component)

    def _attempts(self, component: str) -> Iterator[AttemptDescription]:
        for number in self._control.attempts(component):
            folder = self._control.attempt_dir(component, number)
            record = processes.read_attempt(folder)
            config = folder / "config"
            copies = sorted(map(str, config.glob("*.toml")))
            log = str(self._control.log_file(component, number))
            known = AttemptDescription(number=number, log=log, config_files=tuple(copies))
            yield (
                known
                if record is None
                else known.replace(
                    started_at=record.started_at,
                    ended_at=record.ended_at,
                    is_running=record.is_alive,
                    exit_code=record.exit_code,
                    signal=record.signal,
                    error=record.error,
                    stop_requested=record.stop_requested,
                )
            )

    def _pid(self, component: str, attempt: int) -> int | None:
        record = processes.read_attempt(self._control.attempt_dir(component, attempt))
        return record.living_main.pid if record is not None and record.living_main is not None else None

    def _values(self, component: str) -> Mapping[str, Any]:
        return {
            knob.key: knob.running if knob.is_running else self._next_value(knob)
            for knob in self._knobs.knobs
            if component in knob.readers
        }

    def _next_value(self, knob: KnobInfo) -> Any:  # noqa: ANN401 - TOML
        """The value of its next start: rltui's choice in place of one that cannot be used, such as a port."""
        record = self._record
        is_replaced = knob.key in record.overrides and record.overridden.get(knob.key) == knob.value
        return record.overrides[knob.key] if is_replaced else knob.value

    def _restart_set(self, spec: ComponentSpec) -> Mapping[str, tuple[str, ...]]:
        """Return the components that restart with it while all run, and the reasons."""
        if self._files is None or spec.is_manual:
            return {}
        layout = self._layout
        with suppress(ConfigError):
            situation = Situation(
                layout=layout,
                lives={
                    other.id: Lifecycle(other.kind, state=_ordinary_state(other))
                    for other in layout.component
                },
                rules=(*self._framework.launch.restart_rules(self._files), *layout.restart_rules()),
                completed_steps=0,
                resume_step=None,
                run_jobs=layout.run_jobs(self._framework.run_roles),
                is_made=lambda _: False,
            )
            plan = make_plan(Request(action="restart", components=(spec.id,)), situation, readers={})
            others = tuple(name for name in plan.stop if name != spec.id)
            return {"restarts_with": others, "because": plan.reasons}
        return {}


def _ordinary_state(spec: ComponentSpec) -> ComponentState:
    """A state of the middle of a run, for a plan that needs one."""
    if spec.is_manual:
        return ComponentState.STOPPED
    return ComponentState.EXITED if spec.creates else ComponentState.READY


def _host_text(host: Mapping[str, Any] | None) -> str:
    """Name and kind of the machine, job or pod; empty for this machine."""
    if host is None:
        return ""
    titles = {spec.kind: spec.title for spec in HOST_TABLES.values()}
    name = Path(str(host.get("name") or "")).name
    return f"{titles.get(str(host['kind']), str(host['kind']))} {name}".strip()
