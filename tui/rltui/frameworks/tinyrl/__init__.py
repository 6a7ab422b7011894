"""The embedded engine: three processes on one merged `rl.toml`, and `sft.toml` for the warm-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from rltui.core.batch import BatchKnobs, accumulation, batch_values
from rltui.core.bottleneck import BottleneckKnobs
from rltui.core.config_data import value_at
from rltui.core.config_report import DerivedValue
from rltui.core.config_schema import ConfigSchema
from rltui.core.failure_cause import Confidence, FailurePattern
from rltui.core.knobs import KnobValue
from rltui.core.plan import RestartRule
from rltui.core.rules import Rule, Values, scaled
from rltui.core.servers import ServerAddress, port_of, reachable_host
from rltui.core.template import Missing, TemplateValue
from rltui.core.toml.values import TomlValue
from rltui.errors import UsageError
from rltui.frameworks.base import PortKnob, ServiceCall
from rltui.frameworks.failures import COMMON
from rltui.frameworks.generic import common_values
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, Parsed, RunContext
from rltui.frameworks.progress import Fact, Progress
from rltui.frameworks.run_settings import RunFiles
from rltui.frameworks.schemas import Names, Overlay, SchemaFramework
from rltui.frameworks.tinyrl.evaluation import TinyRlEvaluation, model_path
from rltui.frameworks.tinyrl.gpu_needs import UTILIZATION, TinyRlGpuNeeds
from rltui.frameworks.tinyrl.run_settings import TinyRlRunSettings
from rltui.tinyrl.rules import BATCH, SHARED, following, rl_rules, sft_rules

if TYPE_CHECKING:
    from pydantic import BaseModel

_PARTS = ("orchestrator", "trainer", "inference")
_PAIR = frozenset({"orchestrator", "trainer"})
_SFT_DATA = frozenset({"seq_len", "batch_size", "micro_batch_size"})
_SIGNS = ("seed", "inference.max_num_seqs", "data.min_chars", "data.max_chars", "data.give_up_frac")
_PORT = "inference.server.port"
_ANSWER = "orchestrator.sampling.max_tokens"
_USED_KNOBS = ("ckpt.resume_step", "model.name", _PORT, "inference.server.host", UTILIZATION)
_CONCEPTS = (resources.files(__package__) / "data" / "concepts.toml").read_text(encoding="utf-8")

_REFUSALS = (
    r"^(?:[^\n:]*/)?(?P<what>(?:[\w.-]+\.toml|command line)(?::\d+:\d+)?: [^\n]+)$",
    r"^(?P<what>(?:unexpected argument `|`@|unknown program `)[^\n]+)$",
    r"^(?P<what>model\.name = [^\n]+ is not a model folder[^\n]*)$",
    r"^(?P<what>inference\.model\.max_model_len = [^\n]+)$",
    r"^(?P<what>ckpt\.resume_step = \d+: no complete checkpoint[^\n]*)$",
    r"^(?P<what>\S+: only Qwen3 models with tied embeddings[^\n]*)$",
    r"^(?P<what>the embedded engine needs [^\n]+)$",
    r"^(?P<what>the inference server on \S+ serves [^\n]*not model\.name[^\n]*)$",
)
"""Messages of one line on stderr, with exit code 1, and 2 for its usage."""
_LAST_WORDS = FailurePattern(
    "F_TINYRL",
    r"^(?!\d\d:\d\d:\d\d |usage: |\(\w+ pid=|(?:DEBUG|INFO|WARNING|ERROR)\b)(?P<what>\S[^\n]*)\Z",
    "{what}",
    weight=Confidence.GENERIC,
    last_words=True,
)
"""The last line, unless it is one of the log's: the message of `TinyrlError`."""


@cache
def _schemas() -> Mapping[str, ConfigSchema]:
    """Role → schema. The models are imported on first use: that takes a while."""
    from rltui.tinyrl.config import RlConfig, SftConfig

    models: Mapping[str, type[BaseModel]] = {"rl": RlConfig, "sft": SftConfig}
    return {role: ConfigSchema(model.model_json_schema(), none=None) for role, model in models.items()}


class _TinyRl(SchemaFramework):
    """The grammar is that of prime-rl; keys, rules and defaults come from the engine itself."""

    id, title = "tinyrl", "tinyrl (embedded)"
    layouts: Mapping[str, str] = {"rl": "tinyrl"}
    cluster_layouts: Mapping[str, str] = {"rl": "tinyrl-slurm"}
    overlay = replace(Overlay.parse(_CONCEPTS), shared=SHARED)
    namespaces: Mapping[str, str] = {"rl": "", "sft": "sft"}
    reader = "the embedded engine"
    run_roles = _PAIR
    own_packages = ("torch", "transformers", "uvicorn")
    resume_keys = ("ckpt.resume_step",)
    required = (frozenset({"rl"}),)
    companions: Mapping[str, str] = {"sft": "sft.toml"}
    files = RunFiles(
        checkpoint_parts=tuple(f"checkpoints/step_{{step}}/{half}" for half in sorted(_PAIR)),
        stale_after_resume=("checkpoints", "rollouts", "broadcasts", "weights"),
    )
    progress = Progress(
        facts=(
            Fact("orchestrator", "time/step", "{:.1f} s/step"),
            Fact("orchestrator", "train/agg/effective/agent/reward/mean", "reward {:.3f}"),
            Fact("trainer", "loss/mean", "loss {:.3f}"),
        )
    )
    failures = (
        *(
            FailurePattern("F_TINYRL_CONFIG", refusal, "config error: {what}", hopeless=True)
            for refusal in _REFUSALS
        ),
        *COMMON,
        _LAST_WORDS,
    )
    server: str = ""
    """Address of the inference server that a person chose; empty: its own."""
    signs = ("control/trainer.json", "control/orchestrator.json")

    def role(self, path: str, data: Mapping[str, Any]) -> str | None:
        """`rl` for a merged file, `sft` for the file of the warm-up."""
        del path
        table = data.get("data")
        if isinstance(table, dict) and _SFT_DATA & table.keys():
            return "sft"
        return "rl" if any(key in data for key in _PARTS) else None

    def fit(self, parsed: Parsed) -> int | None:
        """Knobs that only tinyrl has distinguish its files from those of prime-rl."""
        roles = [self.role(path, data) for path, data in parsed]
        is_own = any(value_at(data, key) is not None for _, data in parsed for key in _SIGNS)
        return 0 if is_own and None not in roles and len(set(roles)) == len(roles) else None

    # --- what the config files say ---

    def schema(self, file: ConfigFile) -> ConfigSchema:
        return _schemas()[file.role]

    def rules(self, names: Names) -> Sequence[Rule]:
        """The engine's own, of both files: the names of its keys are constant."""
        del names
        return (*rl_rules(), *sft_rules("sft."))

    def following(self, files: ConfigFiles, values: Values, names: Names) -> Mapping[str, TomlValue]:
        del names
        return following(values) if "rl" in files else {}

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        values = self.sound_values(files)
        derived: list[DerivedValue] = []
        if values is not None and "rl" in files:
            derived += batch_values(values, BATCH, max_tokens=_ANSWER)
        if values is not None and "sft" in files:
            batch, micro = "sft.data.batch_size", "sft.data.micro_batch_size"
            name = "sft micro-batches per optimizer step"
            derived.append(accumulation(values, batch=batch, micro=micro, name=name))
        return tuple(derived)

    def batch_knobs(self, files: ConfigFiles) -> BatchKnobs | None:
        """`None` for the warm-up, which has no rollouts."""
        return BATCH if "rl" in files else None

    def bottleneck_knobs(self, files: ConfigFiles) -> BottleneckKnobs:
        """It has no KV cache that could be full."""
        if "rl" not in files:
            return BottleneckKnobs()
        return BottleneckKnobs(
            in_flight="orchestrator.max_inflight_rollouts",
            sequences="inference.max_num_seqs",
            lead="max_async_level",
        )

    def advice(self, files: ConfigFiles) -> Mapping[str, str]:
        values = self.sound_values(files)
        if values is None or "rl" not in files:
            return {}
        slower = f"in this config: {scaled('trainer.optim.lr', values, 0.5)}"
        return {
            **dict.fromkeys(("reward-collapse", "kl", "importance-ratio", "grad-norm"), slower),
            "truncation": f"in this config: {scaled(_ANSWER, values, 2)}",
        }

    @property
    def run(self) -> TinyRlRunSettings:
        return TinyRlRunSettings(self.files, self)

    # --- inference that somebody else runs ---

    def sent_to(self, urls: Sequence[str], *, is_lent: bool = False) -> _TinyRl:
        """By options of the orchestrator; it takes one server.

        Raises:
            UsageError: if there are several.
        """
        if len(urls) > 1:
            raise UsageError(f"{self.title} uses one inference server, not {len(urls)}")
        del is_lent
        framework = copy(self)
        framework.server = urls[0]
        return framework

    def inference_servers(self, files: ConfigFiles) -> tuple[ServerAddress, ...]:
        """Only the server that a person chose: its config always has one of its own."""
        if not self.server:
            return ()
        return (ServerAddress(self.server, model=self.sound_text(files, "model.name")),)

    def weights_reset(self, files: ConfigFiles, context: RunContext, root: str) -> ServiceCall:
        """The orchestrator would see to it as well; done before, nobody meets the other run's weights."""
        folder = str(model_path(self.sound_value(files, "model.name"), context.workspace))
        body = {"weight_dir": folder}
        return ServiceCall(
            "inference", f"{root}/update_weights", "reset the weights to the model's", body, required=True
        )

    def _options(self, context: RunContext) -> Mapping[str, int | str]:
        """Values that precede those of the config, on the command lines that have `{overrides}`."""
        if not self.server:
            return context.overrides
        return {**context.overrides, "orchestrator.client.base_url": self.server, _PORT: port_of(self.server)}

    # --- how it is run ---

    def template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """`config.rl`, `config.sft`, `model_path`, `port.inference`, `gpus.<id>`, `gpu_memory.<id>` …

        Every program computes on the first device that torch sees, and the orchestrator on none.
        """
        options = self._options(context)
        values = {name: self.sound_value(files, name) for name in _USED_KNOBS} | dict(options)
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
            "host.inference": reachable_host(values["inference.server.host"] or ""),
            "gpus.orchestrator": "",
            **dict.fromkeys(("gpus.inference", "gpus.trainer", "gpus.sft"), device),
            "gpu_memory.inference": str(values[UTILIZATION]) if context.cuda_devices else "",
            "config.sft": _sft_config(files),
        }

    def environment(self, component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
        """Its programs take the first device that torch sees: which one that is, is said here."""
        del files
        if not context.cuda_devices:
            return {}
        return {"CUDA_VISIBLE_DEVICES": "" if component == "orchestrator" else context.cuda_devices[0]}

    def passed(
        self, placeholder: str, files: ConfigFiles, context: RunContext
    ) -> Mapping[str, Mapping[str, KnobValue]]:
        """The values in `rl.toml` that the options behind a placeholder set."""
        config_step = self.sound_value(files, "ckpt.resume_step")
        values: Mapping[str, Mapping[str, KnobValue]] = {
            "output_dir": {"output_dir": context.output_dir},
            "overrides": self._options(context),
            "resume": {"ckpt.resume_step": _resume(config_step, context)},
        }
        return {"rl": values[placeholder]} if placeholder in values and "rl" in files else {}

    def ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        """The port of the inference server, unless the config gives its address a second time."""
        port = self.sound_value(files, _PORT)
        if self.server or port is None or self.values(files).get("orchestrator.client.base_url") is not None:
            return ()
        return (PortKnob("inference", _PORT, port, self.overlay.readers_of(_PORT), by_option=True),)

    @property
    def gpu_needs(self) -> TinyRlGpuNeeds:
        return TinyRlGpuNeeds(self, is_served=bool(self.server))

    @property
    def evaluation(self) -> TinyRlEvaluation:
        return TinyRlEvaluation(self.title, self)

    def restart_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        """The same for every config: weights go through the file system, step counters must agree."""
        del files
        has_base = "a new server has the base weights until the orchestrator sends newer ones"
        return (
            (_PAIR, _PAIR, "their step counters must agree"),
            (frozenset({"inference"}), _PAIR, has_base),
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


TINYRL = _TinyRl()
