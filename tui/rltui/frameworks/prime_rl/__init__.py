"""PRIME-RL: one framework, in three generations that are run differently.

The possible content of a file is defined by the checkout's own models, or by the schema that it fits;
`generation.py` has the differences in how the programs are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from rltui.core.batch import BatchKnobs
from rltui.core.bottleneck import BottleneckKnobs
from rltui.core.config_report import DerivedValue, Problem
from rltui.core.config_schema import ConfigSchema
from rltui.core.rules import Rule, Values
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import ConfigModels
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, Parsed
from rltui.frameworks.prime_rl import (
    configs,
    derived_values,
    detection,
    generation,
    log_lines,
    values,
)
from rltui.frameworks.prime_rl.evaluation import PrimeRlEvaluation
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.launch import PrimeRlLaunch
from rltui.frameworks.prime_rl.rules import rules
from rltui.frameworks.prime_rl.run_settings import PrimeRlRunSettings
from rltui.frameworks.prime_rl.tables import table_problems
from rltui.frameworks.progress import Progress
from rltui.frameworks.schemas import Names

_SFT = "prime_rl.trainer.sft.config:SFTTrainerConfig"
MODELS = {
    "rl": ("prime_rl.configs.rl:RLConfig", "prime_rl.rl:RLConfig"),
    "sft": ("prime_rl.configs.sft:SFTConfig", _SFT),
}
"""Locations of the models of files for launchers."""
_MODELS_OF_PROGRAMS = {
    "trainer": ("prime_rl.trainer.rl.config:RLTrainerConfig", "prime_rl.configs.trainer:TrainerConfig"),
    "orchestrator": (
        "prime_rl.orchestrator.config:OrchestratorConfig",
        "prime_rl.configs.orchestrator:OrchestratorConfig",
    ),
    "inference": (
        "prime_rl.inference.config:InferenceConfig",
        "prime_rl.configs.inference:InferenceConfig",
    ),
    "sft": (_SFT,),
}


class PrimeRl(PrimeRlLaunch):
    """One generation; `schemas`, by role, are those of the checkout that will read the files."""

    overlay, reader = configs.OVERLAY, "prime-rl"
    free, foreign, switches = configs.FREE, configs.FOREIGN, configs.SWITCHES
    checkout = detection.CHECKOUT
    failures = log_lines.FAILURES
    progress = Progress(facts=log_lines.FACTS, log_row=log_lines.log_row, log_marks=log_lines.MARKS)
    """The same in every generation: only the latest writes a metrics file, too."""

    def __init__(self, g: Generation, schemas: Mapping[str, ConfigSchema] = MappingProxyType({})) -> None:
        super().__init__(g)
        self.id, self.title, self.layouts, self.signs = g.id, g.title, g.layouts, g.signs
        self.cluster_layouts, self.generation_title = g.cluster_layouts, g.title
        self._schemas = schemas
        if g.has_launchers:
            self.namespaces = {"rl": "", "sft": "sft"}
            self.required = (frozenset({"rl"}), frozenset({"sft"}))
            self.resume_elsewhere = ("ckpt.output_dir", "resume.dir")
        else:
            self.namespaces = {role: role for role in (*configs.PARTS, "sft")}
            self.required = tuple(frozenset({role}) for role in (*configs.PARTS, "sft"))
        cleared = g.resume_cleared
        self.resume_keys = tuple(f"{table}.step" for table in cleared) if g.run_folders else cleared
        models = MODELS if g.has_launchers else _MODELS_OF_PROGRAMS
        self.config_models = ConfigModels(
            models, detection.SOURCES, detection.PACKAGES, stand_ins=detection.STAND_INS
        )

    def role(self, path: str, data: Mapping[str, Any]) -> str | None:
        """`rl` and `sft`; in the first generation one of the three programs, or `sft`."""
        return detection.role_in(self.id, path, data)

    def fit(self, parsed: Parsed) -> int | None:
        """Number of unknown keys, by the schemas that the files fit best."""
        return detection.fit_in(self.id, parsed)

    def with_schemas(self, schemas: Mapping[str, ConfigSchema]) -> PrimeRl:
        """The schemas precede ours."""
        framework = PrimeRl(self.generation, schemas)
        framework.servers, framework.is_lent = self.servers, self.is_lent
        return framework

    def schema(self, file: ConfigFile) -> ConfigSchema:
        """The checkout's, else the one that the file fits best."""
        if schema_ := self._schemas.get(file.role):
            return schema_
        if file.role in configs.PARTS:
            return configs.best_alone(file.role, file.data)[0]
        return configs.best(self.id, file.role, file.data)[0]

    def merges_deeply(self, data: Mapping[str, Any]) -> bool:
        """True for files since March 2026."""
        if self.id == configs.CURRENT:
            return True
        shallow_schemas = configs.snapshots(configs.MERGED, "rl", until="2026-03-02")
        return self.id == configs.MERGED and configs.best(self.id, "rl", data)[0] not in shallow_schemas

    def rules(self, names: Names) -> tuple[Rule, ...]:
        return rules(names)

    def readers(self, files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
        return values.servers_of(files)

    def following(self, files: ConfigFiles, values: Values, names: Names) -> Mapping[str, TomlValue]:
        del files
        return configs.defaults(values, names)

    def further(self, files: ConfigFiles, values: Values, names: Names) -> Iterator[Problem]:
        return table_problems(files, values, names)

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        sound_values = self.sound_values(files)
        return () if sound_values is None else tuple(derived_values.derived(sound_values, self.names(files)))

    def batch_knobs(self, files: ConfigFiles) -> BatchKnobs | None:
        return derived_values.batch_knobs(self.names(files))

    def bottleneck_knobs(self, files: ConfigFiles) -> BottleneckKnobs:
        return derived_values.bottleneck_knobs(self.names(files))

    @property
    def run(self) -> PrimeRlRunSettings:
        return PrimeRlRunSettings(self.files, self.generation, self._config)

    def names_model(self, key: str) -> bool:
        return super().names_model(key) or key.endswith(".vllm.model")

    @property
    def evaluation(self) -> PrimeRlEvaluation:
        return PrimeRlEvaluation(self.title, self.generation, self._config)


CURRENT, MERGED, SPLIT = map(PrimeRl, (generation.CURRENT, generation.MERGED, generation.SPLIT))
