"""The state that commands and observers of a supervisor share: components, config, run, event bus."""

from __future__ import annotations

from rltui.core.config.report import KnobTable
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.gpu.forecast import Forecaster
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.tmux import TmuxHost
from rltui.supervisor.config import Config, Setup
from rltui.supervisor.events import EventBus
from rltui.supervisor.gpu.account import GpuAccount
from rltui.supervisor.gpu.placement import Placer
from rltui.supervisor.observation import Observation
from rltui.supervisor.part_servers import PartServers
from rltui.supervisor.processes import Processes
from rltui.supervisor.servers import Servers


class Runtime:
    """The components of one experiment, with their config and GPUs, how their run stands, and the bus of what
    happens to them. It decides nothing. Each part knows those before it alone.
    """

    def __init__(self, record: ExperimentRecord, *, tmux: TmuxHost) -> None:
        self.setup = setup = Setup.of(record)
        self.events = EventBus(setup.control.journal_file, needs=setup.layout.needs)
        self.gpu_readings = GpuReadings()
        self.observation = Observation(setup, self.events)
        self.config = Config(
            setup, self.events, derive=self.observation.times.derive, choose=self.gpu_readings.chosen
        )
        self.forecaster = Forecaster(
            layout=setup.layout,
            framework=setup.framework,
            launcher=self.config.launcher,
            control=setup.control,
            workspace=setup.workspace,
        )
        self.servers = Servers(
            setup,
            self.config,
            self.observation,
            self.events,
            is_in_use=lambda: any(runner.lifecycle.busy for runner in self.processes.runners.values()),
            is_expected=self._is_expected,
        )
        self.processes = Processes(
            setup,
            self.events,
            self.config,
            self.observation,
            self.gpu_readings,
            self.forecaster,
            self.servers,
            tmux=tmux,
        )
        self.placer = Placer(setup, self.config, self.gpu_readings, self.forecaster)
        self.part_servers = PartServers(
            setup, self.config, self.placer, self.processes.runners, self.servers.further
        )
        self.events.on_lifecycle(self.part_servers.lifecycle_changed)
        self.gpu_account = GpuAccount(
            record.name,
            self.processes.runners,
            self.processes.forecast,
            self.processes.reservations.others,
        )

    def _is_expected(self, component: str) -> bool:
        runner = self.processes.runners.get(component)
        return runner is not None and runner.lifecycle.expected

    def knobs(self) -> KnobTable:
        """The knob table, from the files as they are now. May raise ConfigError."""
        return self.config.knobs(self.processes.attempts())
