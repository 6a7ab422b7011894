"""A server of a model that starts beside the run: its device, its share of that, and its arguments."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rltui.core.gpu.budget import utilization_within
from rltui.core.gpu.forecast import MARGIN_BYTES
from rltui.core.gpu.report import GpuDevice
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.gpu.forecast import Forecaster
from rltui.services.gpu.sampling import GpuReadings
from rltui.supervisor.config import Config, Setup
from rltui.views.gpu.forecast import memory_verdict

UTILIZATION = 0.9
"""vLLM's default, where the config has no server."""


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A component that is given its model."""

    component: str
    model: str
    """Folder of weights, or a name on the hub."""
    port: int
    files: ConfigFiles


@dataclass(frozen=True, slots=True)
class Placement:
    """A place for a server on the GPUs; both are empty without one."""

    gpus: str = ""
    gpu_memory: str = ""


@dataclass(frozen=True, slots=True)
class Placer:
    setup: Setup
    config: Config
    readings: GpuReadings
    forecaster: Forecaster

    def assign(self, server: ModelServer, placement: Placement) -> None:
        """Give the component all that it needs for its start."""
        launcher, files = self.config.launcher, server.files
        command = self.setup.framework.evaluation.server(
            files, launcher.context(files).run_context, server.model, server.port, placement.gpu_memory
        )
        arguments = {
            "model": server.model,
            "port": str(server.port),
            "gpus": placement.gpus,
            "gpu_memory": placement.gpu_memory,
        }
        launcher.assign(server.component, {**arguments, "options": command.argv if command else ()})

    def find(
        self, server: ModelServer, *, share: float = UTILIZATION, beside: Collection[str] = ()
    ) -> Placement | str:
        """The device with the most room, and how much of it; a reason in words where there is none. Nothing
        is assigned to the component afterwards.

        `share`: as much as it should have. `beside`: components that will start later: their devices come
        last, and their memory is left to them.
        """
        component, files = server.component, server.files
        launcher = self.config.launcher
        context = launcher.context(files)
        names = context.run_context.devices
        devices = [(name, chosen[0]) for name in names if (chosen := self.readings.chosen(name))]
        # where nothing of the run has devices, such a server needs none, either
        automatic = (spec.id for spec in self.setup.layout.automatic)
        if not devices or not any(context.gpus(name) for name in automatic):
            return Placement()
        later = {device.key for name in beside for device in context.choose(context.gpus(name))}
        devices.sort(key=lambda entry: (entry[1].key in later, -(entry[1].unclaimed_bytes or 0)))
        try:
            reasons = []
            for name, device in devices:
                tried: float | None = share
                if device.key in later:
                    tried = self._left(device, files, share, beside)
                for _ in range(3):  # as wanted, then as much as fits, or half
                    if tried is None:
                        break
                    self.assign(server, placement := Placement(name, f"{tried:.2f}"))
                    starts = (component, *beside)
                    forecasts = self.forecaster.forecast(self.readings.newest.devices, files, starts=starts)
                    verdicts = [memory_verdict(one) for one in forecasts if one.plan.device.key == device.key]
                    bad_verdict = next((verdict for verdict in verdicts if verdict.is_bad), None)
                    if bad_verdict is None:
                        return placement
                    reasons.append(bad_verdict.text)
                    is_own = bad_verdict.component == component
                    tried = bad_verdict.suggested_utilization if is_own else tried / 2
            return (
                f"GPU memory: {reasons[0]}"
                if reasons
                else "GPU memory: the run needs the whole of every device"
            )
        finally:
            launcher.assign(component, {})

    def _left(
        self, device: GpuDevice, files: ConfigFiles, share: float, beside: Collection[str]
    ) -> float | None:
        """The share that the others will leave; `None` if there is none."""
        needs = self.forecaster.needs((device,), files, starts=beside)
        free, usable = device.unclaimed_bytes, device.usable_bytes
        if free is None or not usable:
            return None
        left = utilization_within(usable, free - sum(need.size_bytes for need in needs) - 2 * MARGIN_BYTES)
        return None if left is None else min(share, left)
