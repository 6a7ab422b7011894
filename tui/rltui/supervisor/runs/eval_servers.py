"""The server of an evaluation: that of the run, or one of its own with a port and a GPU."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from rltui.core import hints
from rltui.core.experiment.servers import ServerAddress
from rltui.core.experiment.states import ComponentState
from rltui.core.runs.evals import COMPONENT, SERVER, EvalRequest, EvalTarget
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.frameworks.evaluation import EvalModel, Program
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.experiment import checkout
from rltui.services.experiment.leases import trained_by
from rltui.services.runs import weights
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.gpu.placement import UTILIZATION, ModelServer, Placement
from rltui.supervisor.runtime import Runtime

_INFERENCE = "inference"


class EvalServers:
    """The server of the run, and the one for evaluations with its model, port and GPU."""

    def __init__(self, runtime: Runtime) -> None:
        self._setup = runtime.setup
        self._config = runtime.config
        self._runners = runtime.processes.runners
        self._readings = runtime.gpu_readings
        self._placer = runtime.placer
        self.serves = ""
        """Name of the model that the server for evaluations was last started with."""
        self.url = ""

    @property
    def is_up(self) -> bool:
        return SERVER in self._runners and self._runners[SERVER].lifecycle.busy

    def programs(self) -> dict[str, Program]:
        """Console scripts in the framework's environment, evaluators among them. Blocks: call it
        in a thread.
        """
        framework, record = self._setup.framework, self._setup.record
        if framework.checkout is None or not framework.evaluation.packages:
            return {}
        nearby = checkout.NearbyCheckout(
            framework.checkout, workspace=self._setup.workspace, config_files=record.config_paths
        )
        folder = nearby.programs()
        return {} if folder is None else checkout.console_scripts(folder, framework.evaluation.packages)

    async def refuse(self, request: EvalRequest, files: ConfigFiles) -> None:
        """Refuse a request that can never be done. When it returns, it is known which GPUs there are.

        Raises:
            ConfigError: if a component, checkpoint or model is missing.
        """
        await self._readings.first()
        for name in (COMPONENT, *(() if request.target.kind == "now" else (SERVER,))):
            if name not in self._runners:
                raise ConfigError(
                    f"evaluations need a component {name!r}, which the layout lacks",
                    hint="see layouts/README.md",
                )
        if request.target.kind != "now" and not request.when_done:  # by then it may have been made
            self.model(request.target, files)

    def model(self, target: EvalTarget, files: ConfigFiles) -> EvalModel:
        """The model of a target, with the folder that is there; with `places` where it has yet to be made.

        Raises:
            ConfigError: if there is none.
        """
        model = self._setup.framework.evaluation.model(
            files, self._config.launcher.context(files).run_context, target
        )
        places = [place for place in model.places if _has_weights(Path(place), model.marker)]
        if places:
            return EvalModel(model.kind, model.label, places[0], model.step)
        if model.step is not None and weights.weights_conversion(self._setup.record, model.step) is not None:
            return model
        if model.places:
            raise ConfigError(
                f"{model.label} has no weights for a server to load",
                details=[f"looked for: {place}" for place in model.places],
                hint=f"{hints.EVAL_NOW} evaluates the weights in the run's server",
            )
        if model.name.startswith("/") and not _has_weights(Path(model.name), model.marker):
            raise ConfigError(f"{model.name} is not a folder of weights")
        return model

    def run_server(self, files: ConfigFiles) -> ServerAddress:
        """Address of the run's server, be it somebody else's.

        Raises:
            ConflictError: if it does not run, or has the weights of another experiment.
        """
        if _INFERENCE in self._setup.record.external and (
            external_servers := self._setup.framework.servers.addresses(files)
        ):
            return external_servers[0]
        name, runner = self._setup.record.name, self._ready_inference()
        checkpoint = f"evaluate a checkpoint: {hints.EVAL_CHECKPOINT(name=name)}"
        launch = runner.launch if runner is not None else None
        address = launch.ready.http if launch is not None and launch.ready is not None else None
        if launch is None or address is None:
            raise ConflictError(
                "the run's inference server is not running, so no server has the current weights",
                hint=f"{hints.START(component='inference', name=name)}, or {checkpoint}",
            )
        owner = trained_by(self._setup.record)
        if owner not in (None, name):
            raise ConflictError(
                f"the inference server of {name} has the weights of {owner}, which used it last",
                hint=f"{checkpoint}, or reload its own weights: {hints.RESTART_INFERENCE(name=name)}",
            )
        url = urlsplit(address)
        port = launch.port or url.port
        return ServerAddress(f"{url.scheme}://{url.hostname}:{port}/v1")

    def _ready_inference(self) -> ComponentRunner | None:
        runner = self._runners.get(_INFERENCE)
        return runner if runner is not None and runner.lifecycle.state is ComponentState.READY else None

    def is_inference_starting(self) -> bool:
        runner = self._runners.get(_INFERENCE)
        return runner is not None and runner.lifecycle.expected and self._ready_inference() is None

    def wait_reason(self, request: EvalRequest, files: ConfigFiles) -> str | None:
        """The thing that is not there yet; `None` where the evaluation can begin, if only to be refused."""
        if request.target.kind == "now":
            is_there = _INFERENCE in self._setup.record.external or self._ready_inference() is not None
            return None if is_there else "the run's inference server"
        if self.is_up:
            return None
        try:
            placement = self._find_placement(self.model(request.target, files), files)
        except ConfigError:
            return None
        return placement if isinstance(placement, str) else None

    async def start(self, model: EvalModel, files: ConfigFiles) -> None:
        """Begin a start of a server of that model.

        Raises:
            RltuiError: if there is no room for it.
        """
        placement = self._find_placement(model, files)
        if isinstance(placement, str):
            raise RltuiError(f"no server for {model.label}: {placement}")
        with socket.socket() as probe:  # frees the port that it was given
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        self._placer.assign(ModelServer(SERVER, model.name, port, files), placement)
        self.serves, self.url = model.name, f"http://127.0.0.1:{port}/v1"
        self._runners[SERVER].start()

    async def stop(self) -> None:
        """Stop the server for evaluations, if it runs: from then on, no device is assigned to it."""
        if SERVER in self._runners:
            await self._runners[SERVER].stop()
            self._config.launcher.assign(SERVER, {})
        self.serves = ""

    def _find_placement(self, model: EvalModel, files: ConfigFiles) -> Placement | str:
        engine = self._setup.framework.gpu_needs.engine(files)
        share = UTILIZATION if engine is None else engine.utilization
        return self._placer.find(ModelServer(SERVER, model.name, 0, files), share=share)


def _has_weights(folder: Path, marker: str) -> bool:
    if marker and not (folder / marker).exists():
        return False
    return (folder / "config.json").is_file() or any(folder.glob("*.safetensors"))
