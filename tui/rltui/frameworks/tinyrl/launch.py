"""The launch of the embedded engine, and the inference server of its runs: options of its programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.base.template import Missing, TemplateValue
from rltui.base.toml.values import TomlValue
from rltui.core.config.knobs import KnobValue
from rltui.core.experiment.plan import RestartRule
from rltui.core.experiment.servers import ServerAddress, port_of, reachable_host
from rltui.core.gpu.budget import EngineMemory
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import LaunchSide, PortKnob, ServiceCall, common_values
from rltui.frameworks.schemas import SchemaConfig
from rltui.frameworks.servers import ServersSide
from rltui.frameworks.tinyrl.evaluation import model_path

PAIR = frozenset({"orchestrator", "trainer"})
_PORT, _HOST = "inference.server.port", "inference.server.host"
_UTILIZATION = "inference.gpu_memory_utilization"
_USED_KNOBS = ("ckpt.resume_step", "model.name", _PORT, _HOST, _UTILIZATION)


@dataclass(frozen=True, slots=True)
class TinyRlLaunch:
    config: SchemaConfig
    server: str
    """Address of the inference server that a person chose; empty: its own."""

    @property
    def side(self) -> LaunchSide:
        return LaunchSide(
            template_values=self._template_values,
            environment=_environment,
            passed=self._passed,
            ports=self._ports,
            restart_rules=_restart_rules,
        )

    @property
    def servers(self) -> ServersSide:
        return ServersSide(most=1, addresses=self._addresses, weights_reset=self._weights_reset)

    def engine(self, files: ConfigFiles) -> EngineMemory | None:
        """Memory that the inference server takes on a CUDA device, as vLLM does; `None` for faulty values."""
        if self.server:
            return None
        names = (_UTILIZATION, "inference.model.max_model_len", "inference.max_num_seqs")
        utilization, max_model_len, max_num_seqs = (self.config.sound_value(files, name) for name in names)
        if utilization is None or max_model_len is None or max_num_seqs is None:
            return None
        return EngineMemory(
            "inference",
            utilization,
            rules=VLLM.memory,
            model=self.config.sound_value(files, "model.name"),
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            dtype="float32",
            enforce_eager=True,
        )

    def _template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """`config.rl`, `config.sft`, `model_path`, `port.inference`, `gpus.<id>`, `gpu_memory.<id>` …

        Every program computes on the first device that torch sees, and the orchestrator on none.
        """
        options = self._options(context)
        values: dict[str, Any] = {name: self.config.sound_value(files, name) for name in _USED_KNOBS}
        values |= options
        device = "".join(context.cuda_devices[:1])
        resume = _resume(values["ckpt.resume_step"], context)
        return {
            **common_values(files, context),
            "resume": () if resume is None else ("--ckpt.resume-step", str(resume)),
            "overrides": tuple(
                argument for name, value in options.items() for argument in (f"--{name}", str(value))
            ),
            "model_path": model_path(values["model.name"], context.workspace),
            "port.inference": str(values[_PORT]),
            "host.inference": reachable_host(values[_HOST] or ""),
            "gpus.orchestrator": "",
            **dict.fromkeys(("gpus.inference", "gpus.trainer", "gpus.sft"), device),
            "gpu_memory.inference": str(values[_UTILIZATION]) if context.cuda_devices else "",
            "config.sft": _sft_config(files),
        }

    def _passed(
        self, placeholder: str, files: ConfigFiles, context: RunContext
    ) -> Mapping[str, Mapping[str, KnobValue]]:
        """The values in `rl.toml` that the options behind a placeholder set."""
        config_step = self.config.sound_value(files, "ckpt.resume_step")
        values: Mapping[str, Mapping[str, KnobValue]] = {
            "output_dir": {"output_dir": context.output_dir},
            "overrides": self._options(context),
            "resume": {"ckpt.resume_step": _resume(config_step, context)},
        }
        return {"rl": values[placeholder]} if placeholder in values and "rl" in files else {}

    def _options(self, context: RunContext) -> Mapping[str, int | str]:
        """Values that precede those of the config, on the command lines that have `{overrides}`."""
        if not self.server:
            return context.overrides
        return {**context.overrides, "orchestrator.client.base_url": self.server, _PORT: port_of(self.server)}

    def _ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        """The port of the inference server, unless the config gives its address a second time."""
        port = self.config.sound_value(files, _PORT)
        has_address = self.config.values(files).get("orchestrator.client.base_url") is not None
        if self.server or port is None or has_address:
            return ()
        return (PortKnob("inference", _PORT, port, self.config.readers_of(_PORT), by_option=True),)

    def _addresses(self, files: ConfigFiles) -> tuple[ServerAddress, ...]:
        """Only the server that a person chose: its config always has one of its own."""
        if not self.server:
            return ()
        return (ServerAddress(self.server, model=self.config.sound_text(files, "model.name")),)

    def _weights_reset(self, files: ConfigFiles, context: RunContext, root: str) -> ServiceCall:
        """The orchestrator would see to it as well; done before, nobody meets the other run's weights."""
        folder = str(model_path(self.config.sound_value(files, "model.name"), context.workspace))
        body = {"weight_dir": folder}
        return ServiceCall(
            "inference", f"{root}/update_weights", "reset the weights to the model's", body, required=True
        )


def _environment(component: str, _: ConfigFiles, context: RunContext) -> Mapping[str, str]:
    """Return the one GPU for a program, since torch would take the first that it sees."""
    if not context.cuda_devices:
        return {}
    return {"CUDA_VISIBLE_DEVICES": "" if component == "orchestrator" else context.cuda_devices[0]}


def _restart_rules(_: ConfigFiles) -> Sequence[RestartRule]:
    """The same for every config: weights go through the file system, step counters must agree."""
    has_base = "a new server has the base weights until the orchestrator sends newer ones"
    return (
        (PAIR, PAIR, "their step counters must agree"),
        (frozenset({"inference"}), PAIR, has_base),
    )


def _resume(config_step: TomlValue, context: RunContext) -> int | None:
    """The checkpoint to continue from; a step that the config names is only overruled by another, or by 0."""
    if context.resume_step is None and config_step is not None:
        return 0
    return context.resume_step


def _sft_config(files: ConfigFiles) -> TemplateValue:
    if "sft" in files:
        return files["sft"].path
    return Missing(
        "no sft.toml to train the model with",
        hint="add sft.toml next to the config, or set model.name to an existing model",
    )
