"""Components that serve, on request, what the config expects at an address of this machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.servers import ServerAddress, port_of
from rltui.core.experiment.states import ComponentState
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.inputs import ConfigFiles
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.config import Config, Setup
from rltui.supervisor.gpu.placement import ModelServer, Placer

_NO_ROOM = "serve it on another machine, or lower gpu_memory_utilization of the run's own server"


@dataclass(frozen=True, slots=True)
class PartServers:
    """Gives each its model, its port, and a device with room beside the run."""

    setup: Setup
    config: Config
    placer: Placer
    runners: Mapping[str, ComponentRunner]
    further: Callable[[ConfigFiles], tuple[ServerAddress, ...]]
    """Same as in `ServersSide`."""

    @contextmanager
    def planned(self, starts: Collection[str], files: ConfigFiles) -> Iterator[None]:
        """Within it those of `starts` have what they would get, for a forecast.

        Raises:
            ConflictError: if there is no room for one.
        """
        placed = [name for name in starts if self.place(name, files)]
        try:
            yield
        finally:
            for name in placed:
                self.config.launcher.assign(name, {})

    def place(self, component: str, files: ConfigFiles) -> bool:
        """Assign all that `component` needs for its start; false if it is none of these, or lives.

        Raises:
            ConflictError: if there is no room for it.
        """
        address = self._address(component, files)
        if address is None or self.runners[component].lifecycle.alive:
            return False
        server = ModelServer(component, address.model or "", port_of(address.url), files)
        later = [
            spec.id
            for spec in self.setup.layout.automatic
            if self.runners[spec.id].lifecycle.state is not ComponentState.READY
        ]
        placement = self.placer.find(server, beside=later)
        if isinstance(placement, str):
            raise ConflictError(f"no room for {component}: {placement}", hint=_NO_ROOM)
        self.placer.assign(server, placement)
        return True

    def _address(self, component: str, files: ConfigFiles) -> ServerAddress | None:
        return next((server for server in self.further(files) if server.component == component), None)

    def lifecycle_changed(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        """Give up the device of one that has ended."""
        if runner.spec.is_manual and previous.busy and not runner.lifecycle.busy:
            with suppress(ConfigError):  # others report that
                if self._address(runner.spec.id, self.config.document.files) is not None:
                    self.config.launcher.assign(runner.spec.id, {})
