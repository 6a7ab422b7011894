"""vf-rl of verifiers: vLLM with an endpoint for weights, and `vf.RLTrainer`, from one file. Until July 2026.

vf-rl itself only types the two commands into tmux: here they are components. Facts: `facts/verifiers.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from types import MappingProxyType
from typing import Any

from rltui.core import hints
from rltui.core.batch import BatchKnobs, accumulation, batch_values, derived_value
from rltui.core.bottleneck import BottleneckKnobs
from rltui.core.config_data import value_at
from rltui.core.config_report import DerivedValue
from rltui.core.config_schema import ConfigSchema
from rltui.core.json_schema import Json
from rltui.core.knobs import KnobValue
from rltui.core.metrics import MetricNames
from rltui.core.plan import RestartRule
from rltui.core.rules import Rule, Values
from rltui.core.template import Missing, TemplateValue
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import Checkout, ConfigModels, Converted, Framework, PortKnob, Resolution
from rltui.frameworks.generic import common_values
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, Parsed, RunContext
from rltui.frameworks.progress import Progress
from rltui.frameworks.run_settings import RunFiles
from rltui.frameworks.schemas import Names, Overlay, SchemaFramework
from rltui.frameworks.verifiers import files as vf_files
from rltui.frameworks.verifiers import log_lines, rules
from rltui.frameworks.verifiers.evaluation import VfRlEvaluation
from rltui.frameworks.verifiers.files import ARGS, is_vf_rl
from rltui.frameworks.verifiers.gpu_needs import VfRlGpuNeeds
from rltui.frameworks.verifiers.run_settings import VfRlRunSettings

_DATA = resources.files(__package__) / "data"
_PAIR = frozenset({"inference", "trainer"})
_SYNC = (
    "they share a weight connection that is opened once, and the server keeps the previous run's weights:"
    " restarting only one hangs or continues the old training"
)
_NO_RESUME = "vf-train cannot resume from a checkpoint, which holds only weights"
_UTILIZATION = "inference.args.gpu_memory_utilization"
_BATCH = BatchKnobs(
    batch_size=rules.BATCH, token_batch_size="", group_size=rules.GROUP, seq_len=rules.LENGTH
)  # fmt: skip
_LAST_WITH_VF_RL, _FIRST_WITHOUT = (0, 1, 9), (0, 2)
INSTEAD = f"{hints.CONVERT_FILE} writes an equivalent prime-rl config"


def lacking(installed: Mapping[str, str]) -> str:
    """Reason why vf-rl cannot run with the installed versions; empty if it can."""
    version = installed.get("verifiers")
    if version is None or "verifiers-rl" in installed:
        return ""
    release = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    fix = "uv add 'verifiers[rl]==0.1.9.post3' installs the last version that has it"
    if release >= _FIRST_WITHOUT:
        return f"verifiers {version} has no vf-rl: it was removed in July 2026; {fix}"
    if release > _LAST_WITH_VF_RL:
        return (
            f"verifiers {version} has vf-rl in a separate package, verifiers-rl, which is not installed;"
            f" {fix}"
        )
    if "vllm" not in installed:
        return f"verifiers {version} is installed without the extra rl: uv add 'verifiers[rl]=={version}'"
    return ""


class VfRl(SchemaFramework):
    """The framework; `schema` is that of the `RLConfig` which will read the file."""

    id, title = "verifiers", "vf-rl (verifiers until July 2026)"
    layouts: Mapping[str, str] = {"rl": "verifiers"}
    overlay = Overlay.parse((_DATA / "concepts.toml").read_text(encoding="utf-8"))
    namespaces: Mapping[str, str] = {"rl": ""}
    reader = "vf-rl"
    free = frozenset({"env.args"})
    run_roles = frozenset({"trainer"})
    required = (frozenset({"rl"}),)
    signs = ("checkpoint-*",)
    failures = log_lines.FAILURES
    checkout = Checkout(
        project="verifiers",
        variable="RLTUI_VERIFIERS",
        programs=("vf-vllm", "vf-train"),
        dependents=("verifiers", "verifiers-rl"),
        lacking=lacking,
        instead=INSTEAD,
    )
    config_models = ConfigModels(
        {"rl": ("verifiers/rl/trainer/config.py:RLConfig", "verifiers_rl/rl/trainer/config.py:RLConfig")},
        sources=("verifiers/rl/trainer/config.py",),
        packages=("verifiers", "verifiers-rl", "transformers", "vllm"),
        tables={"rl": ARGS},
    )
    files = RunFiles(
        metrics=(),
        checkpoints="",
        checkpoint_prefix="checkpoint-",
        checkpoint_marker="trainer_state.json",
        no_resume=_NO_RESUME,
        artifacts=("checkpoint-*", "runs"),
        stale_after_resume=(),
    )

    def __init__(self, schemas: Mapping[str, ConfigSchema] = MappingProxyType({})) -> None:
        super().__init__()
        self._schemas = schemas
        self.progress = Progress(
            MetricNames(reward="reward", trainer_step="loss", tokens_per_s="", step_time="time/step"),
            log_lines.FACTS,
            log_lines.StepLines().row,
            log_marks=(log_lines.MARK,),
            log_redraws=True,
        )

    def role(self, path: str, data: Mapping[str, Any]) -> str | None:
        del path
        return "rl" if is_vf_rl(data) else None

    def fit(self, parsed: Parsed) -> int | None:
        """0 for its files: no other framework has them."""
        return 0 if [self.role(path, data) for path, data in parsed] == ["rl"] else None

    def file_schema(self, role: str, document: Json) -> Json:
        """`RLConfig` is one table of the file."""
        del role
        return vf_files.file_schema_of(document)

    def with_schemas(self, schemas: Mapping[str, ConfigSchema]) -> VfRl:
        """The schemas precede ours."""
        return VfRl(schemas)

    # --- what the config files say ---

    def schema(self, file: ConfigFile) -> ConfigSchema:
        """The installed one, else that of the last release."""
        return self._schemas.get(file.role) or vf_files.snapshot()

    def rules(self, names: Names) -> Sequence[Rule]:
        del names
        return rules.rules()

    def following(self, files: ConfigFiles, values: Values, names: Names) -> Mapping[str, TomlValue]:
        """Defaults as vf-rl and `RLConfig` compute them."""
        del files, names
        gpus, tensor = values.get("inference.gpus"), values.get(rules.TENSOR) or 1
        defaults: dict[str, TomlValue] = {}
        if isinstance(gpus, int) and gpus > 1:
            defaults["inference.args.data_parallel_size"] = max(1, gpus // tensor)
        if isinstance(name := values.get(f"{ARGS}.run_name"), str):
            defaults[f"{ARGS}.output_dir"] = f"outputs/{name}"
        return defaults

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        v = self.sound_values(files)
        if v is None:
            return ()
        answer = v[rules.ANSWER] or v[rules.LENGTH]
        longest = derived_value(
            "longest answer", answer, "tokens",
            "" if v[rules.ANSWER] else f"{rules.ANSWER} is not set, so it equals {rules.LENGTH}",
        )  # fmt: skip
        return (
            *batch_values(v, _BATCH, max_tokens=rules.ANSWER),
            accumulation(v, batch=rules.BATCH, micro=rules.MICRO, name="micro-batches per optimizer step"),
            longest,
        )

    def batch_knobs(self, files: ConfigFiles) -> BatchKnobs | None:
        """A batch is always a number of rollouts."""
        del files
        return _BATCH

    def bottleneck_knobs(self, files: ConfigFiles) -> BottleneckKnobs:
        """Rollouts are always one batch ahead of the training."""
        del files
        return BottleneckKnobs(
            in_flight=f"{ARGS}.max_concurrent",
            kv_memory=_UTILIZATION,
            sequences="inference.args.max_num_seqs",
        )

    def advice(self, files: ConfigFiles) -> Mapping[str, str]:
        """Advice from the tutorial of `vf.RLTrainer`, with the values of this config."""
        v = self.sound_values(files)
        return {} if v is None else rules.advice(v)

    @property
    def run(self) -> VfRlRunSettings:
        return VfRlRunSettings(self.files, self)

    # --- how it is run ---

    def template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """`model`, `env_id`, `install_environment`, `vllm_arguments`, `config.trainer`, `gpus.<id>` …"""
        data = files["rl"].data
        memory, split = self.gpu_needs.engine(files), self._split(files, context.devices)
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
            "run": context.run,
            "model": str(data.get("model", "")),
            "env_id": str(value_at(data, "env.id") or ""),
            "install_environment": str(_DATA / "install_environment.py"),
            "vllm_arguments": tuple(arguments),
            "config.trainer": context.resolved.get("trainer", files["rl"].path),
            "port.inference": port,
            "host.inference": "127.0.0.1",
            "gpu_memory.inference": str(memory.utilization) if memory and split["inference"] else "",
            **{f"gpus.{component}": devices for component, devices in split.items()},
            "gpus.environment": "",
        }

    def resolutions(self, files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
        """vf-train's copy, with the run's folder, and the port of vf-vllm."""
        edits: dict[str, KnobValue] = {
            f"{ARGS}.output_dir": context.run_folder,
            rules.CLIENT_PORT: self._port(files, context),
        }
        return (Resolution(edits={"rl": edits}, outputs={"trainer": ("rl.toml",)}),)

    def environment(self, component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
        """Unbuffered output: the numbers of a step belong to the progress bar before them."""
        del component, files, context
        return {"PYTHONUNBUFFERED": "1"}

    def ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        """The port of vf-vllm, passed to both: to one as an option, to the other in its copy of the
        config.
        """
        port = self.sound_value(files, rules.SERVER_PORT)
        both = tuple(sorted(_PAIR))
        return (PortKnob("inference", rules.SERVER_PORT, port, both),) if isinstance(port, int) else ()

    @property
    def gpu_needs(self) -> VfRlGpuNeeds:
        return VfRlGpuNeeds(self)

    @property
    def evaluation(self) -> VfRlEvaluation:
        return VfRlEvaluation(self.title, self)

    def restart_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        del files
        return ((_PAIR, _PAIR, _SYNC),)

    def converted(self, files: ConfigFiles, to: Framework) -> Converted | None:
        """For prime-rl, if it has the same knobs."""
        from rltui.frameworks.verifiers.conversion import to_prime_rl  # only who converts needs it

        values = self.sound_values(files)
        return None if values is None else to_prime_rl(files["rl"], values, to)

    def _port(self, files: ConfigFiles, context: RunContext) -> int:
        port = context.overrides.get(rules.SERVER_PORT, self.sound_value(files, rules.SERVER_PORT))
        return port if isinstance(port, int) else 8000

    def _vllm(self, files: ConfigFiles) -> Mapping[str, TomlValue]:
        """Arguments of vLLM, as vf-rl passes them on: GPUs that no tensor parallelism takes are copies."""
        table = value_at(files["rl"].data, "inference.args")
        arguments = dict(table) if isinstance(table, Mapping) else {}
        gpus, tensor = self.sound_value(files, "inference.gpus"), arguments.get("tensor_parallel_size")
        if isinstance(gpus, int) and gpus > 1:
            shards = tensor if isinstance(tensor, int) and tensor > 0 else 1
            arguments["data_parallel_size"] = max(1, gpus // shards)
        return arguments

    def _split(self, files: ConfigFiles, devices: Sequence[str]) -> Mapping[str, TemplateValue]:
        """The first devices for vf-vllm, the next for vf-train: they cannot share one."""
        requested = [self.sound_value(files, f"{component_}.gpus") for component_ in ("inference", "trainer")]
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


VF_RL = VfRl()
