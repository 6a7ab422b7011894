"""The launch of vf-rl: vf-vllm and vf-train from one file, which cannot share a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from rltui.base.template import Missing, TemplateValue
from rltui.base.toml.values import TomlValue
from rltui.core import hints
from rltui.core.config.data import value_at
from rltui.core.config.knobs import KnobValue
from rltui.core.experiment.plan import RestartRule
from rltui.core.gpu.budget import EngineMemory
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import LaunchSide, PortKnob, Resolution, common_values
from rltui.frameworks.schemas import SchemaConfig
from rltui.frameworks.verifiers import rules
from rltui.frameworks.verifiers.files import ARGS

DATA = resources.files(__package__) / "data"
PAIR = frozenset({"inference", "trainer"})
INSTEAD = f"{hints.CONVERT_FILE} writes an equivalent prime-rl config"
_SYNC = (
    "they share a weight connection that is opened once, and the server keeps the previous run's weights:"
    " restarting only one hangs or continues the old training"
)


@dataclass(frozen=True, slots=True)
class VfRlLaunch:
    config: SchemaConfig

    @property
    def side(self) -> LaunchSide:
        return LaunchSide(
            template_values=self._template_values,
            resolutions=self._resolutions,
            environment=_environment,
            ports=self._ports,
            restart_rules=_restart_rules,
        )

    def engine(self, files: ConfigFiles) -> EngineMemory | None:
        """Memory that vLLM takes; `None` while a value is faulty."""
        v = self.config.sound_values(files)
        if v is None:
            return None
        args = {
            key.rpartition(".")[2]: value for key, value in v.items() if key.startswith("inference.args.")
        }
        return EngineMemory(
            "inference",
            float(args["gpu_memory_utilization"]),
            rules=VLLM.memory,
            model=v["model"],
            dtype=args["dtype"],
            kv_cache_dtype=args["kv_cache_dtype"],
            tensor_parallel=args["tensor_parallel_size"],
            max_model_len=args["max_model_len"],
            max_num_seqs=args["max_num_seqs"],
            max_num_batched_tokens=args["max_num_batched_tokens"],
            enforce_eager=args["enforce_eager"],
            version=(0, 10),
        )

    def _template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """`model`, `env_id`, `install_environment`, `vllm_arguments`, `config.trainer`, `gpus.<id>` …"""
        data = files["rl"].data
        memory, split = self.engine(files), self._split(files, context.devices)
        port = str(self._port(files, context))
        # as vf-rl spells them, but each value is one word, and a list several
        arguments: list[str] = []
        for key, value in {**self._vllm(files), "port": port}.items():
            option = f"--{key.replace('_', '-')}"
            match value:
                case bool():
                    arguments += [option] if value else []
                case list():
                    arguments += [option, *map(str, value)]
                case dict():
                    arguments += [option, json.dumps(value)]
                case _:
                    arguments += [option, str(value)]
        return {
            **common_values(files, context),
            "model": str(data.get("model", "")),
            "env_id": str(value_at(data, "env.id") or ""),
            "install_environment": str(DATA / "install_environment.py"),
            "vllm_arguments": tuple(arguments),
            "config.trainer": context.resolved.get("trainer", files["rl"].path),
            "port.inference": port,
            "host.inference": "127.0.0.1",
            "gpu_memory.inference": str(memory.utilization) if memory and split["inference"] else "",
            **{f"gpus.{component}": devices for component, devices in split.items()},
            "gpus.environment": "",
        }

    def _resolutions(self, files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
        """vf-train's copy, with the run's folder, and the port of vf-vllm."""
        edits: dict[str, KnobValue] = {
            f"{ARGS}.output_dir": context.run_folder,
            rules.CLIENT_PORT: self._port(files, context),
        }
        return (Resolution(edits={"rl": edits}, outputs={"trainer": ("rl.toml",)}),)

    def _ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        """The port of vf-vllm, passed to both: to one as an option, to the other in its copy of the
        config.
        """
        port = self.config.sound_value(files, rules.SERVER_PORT)
        both = tuple(sorted(PAIR))
        return (PortKnob("inference", rules.SERVER_PORT, port, both),) if isinstance(port, int) else ()

    def _port(self, files: ConfigFiles, context: RunContext) -> int:
        port = context.overrides.get(rules.SERVER_PORT, self.config.sound_value(files, rules.SERVER_PORT))
        return port if isinstance(port, int) else 8000

    def _vllm(self, files: ConfigFiles) -> Mapping[str, TomlValue]:
        """Arguments of vLLM, as vf-rl passes them on: GPUs that no tensor parallelism takes are copies."""
        table = value_at(files["rl"].data, "inference.args")
        arguments = dict(table) if isinstance(table, Mapping) else {}
        gpus, tensor = self.config.sound_value(files, "inference.gpus"), arguments.get("tensor_parallel_size")
        if isinstance(gpus, int) and gpus > 1:
            shards = tensor if isinstance(tensor, int) and tensor > 0 else 1
            arguments["data_parallel_size"] = max(1, gpus // shards)
        return arguments

    def _split(self, files: ConfigFiles, devices: Sequence[str]) -> Mapping[str, TemplateValue]:
        """The first devices for vf-vllm, the next for vf-train: they cannot share one."""
        requested = [
            self.config.sound_value(files, f"{component}.gpus") for component in ("inference", "trainer")
        ]
        first, second = (number if isinstance(number, int) else 1 for number in requested)
        if not devices:
            return {"inference": "", "trainer": ""}
        if first + second > len(devices):
            fault = Missing(
                f"the config asks for {first + second} GPUs ({first} for vf-vllm, {second} for vf-train);"
                f" available: {len(devices)}",
                hint="weights go from one GPU to the other, so both need their own; prime-rl can share one: "
                + INSTEAD,
            )
            return {"inference": fault, "trainer": fault}
        return {
            "inference": ",".join(devices[:first]),
            "trainer": ",".join(devices[first : first + second]),
        }


def _environment(*_: object) -> Mapping[str, str]:
    """Unbuffered output: the numbers of a step belong to the progress bar before them."""
    return {"PYTHONUNBUFFERED": "1"}


def _restart_rules(_: ConfigFiles) -> Sequence[RestartRule]:
    return ((PAIR, PAIR, _SYNC),)
