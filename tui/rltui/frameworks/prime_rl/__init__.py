"""PRIME-RL: one framework, in three generations that are run differently.

What a file may hold is asked of the checkout's own models, or told by the schema that it fits;
`generation.py` has what differs in how the programs are run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from rltui.core.config_schema import ConfigSchema
from rltui.frameworks.base import ConfigModels, Framework
from rltui.frameworks.prime_rl import figures, generation, run_files
from rltui.frameworks.prime_rl.checkout import CHECKOUT, PACKAGES, SOURCES
from rltui.frameworks.prime_rl.config_values import max_steps
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, PARTS, SPLIT, configs
from rltui.frameworks.prime_rl.detection import fit_in, role_in
from rltui.frameworks.prime_rl.env_servers import instances
from rltui.frameworks.prime_rl.failures import FAILURES
from rltui.frameworks.prime_rl.launch import RUN_ROLES, Running
from rltui.frameworks.prime_rl.log_lines import FACTS, MARK, log_row

_TITLES = {
    SPLIT: "prime-rl, three files (2025)",
    MERGED: "prime-rl, one file (until August 2026)",
    CURRENT: "prime-rl (August 2026 on)",
}
_LAYOUTS = {
    SPLIT: {"orchestrator": "prime-rl-split", "sft": "prime-rl-sft"},
    MERGED: {"rl": "prime-rl-merged", "sft": "prime-rl-sft"},
    CURRENT: {"rl": "prime-rl", "sft": "prime-rl-sft"},
}
_RUNNING = {
    SPLIT: Running(generation.SPLIT, run_files.SPLIT_RL, run_files.SPLIT_SFT),
    MERGED: Running(generation.MERGED, run_files.MERGED_RL, run_files.MERGED_SFT),
    CURRENT: Running(generation.CURRENT, run_files.CURRENT_RL, run_files.CURRENT_SFT),
}
_RESUMED = {
    SPLIT: generation.SPLIT.resume_cleared,
    MERGED: generation.MERGED.resume_cleared,
    CURRENT: tuple(f"{table}.step" for table in generation.CURRENT.resume_cleared),
}
_SFT = "prime_rl.trainer.sft.config:SFTTrainerConfig"
_MODELS = {
    "rl": ("prime_rl.configs.rl:RLConfig", "prime_rl.rl:RLConfig"),
    "sft": ("prime_rl.configs.sft:SFTConfig", _SFT),
}
_MODELS_OF_2025 = {
    "trainer": ("prime_rl.trainer.rl.config:RLTrainerConfig",),
    "orchestrator": ("prime_rl.orchestrator.config:OrchestratorConfig",),
    "inference": ("prime_rl.inference.config:InferenceConfig",),
    "sft": (_SFT,),
}


@cache
def framework(name: str) -> Framework:
    """A generation by its id."""
    return _with_schemas(name, MappingProxyType({}))


def _with_schemas(name: str, schemas: Mapping[str, ConfigSchema]) -> Framework:
    """A generation; `schemas`, by role, are those of the checkout that will read the files."""
    own, running, is_split = configs(name, schemas), _RUNNING[name], name == SPLIT
    return Framework(
        id=name,
        title=_TITLES[name],
        layouts=_LAYOUTS[name],
        roles=role_in(name),
        fit=fit_in(name),
        with_schemas=lambda asked: _with_schemas(name, asked),
        template_values=running.template_values,
        run_roles=RUN_ROLES,
        resume_keys=_RESUMED[name],
        resume_elsewhere=() if is_split else ("ckpt.output_dir", "resume.dir"),
        knobs=own.knobs,
        renamed=own.renamed,
        defaults=own.defaults,
        required=(frozenset(PARTS) if is_split else frozenset({"rl"}), frozenset({"sft"})),
        check=own.check,
        derive=lambda files: figures.derive(files, own),
        restart_rules=running.restart_rules,
        fresh_rules=running.fresh_rules,
        ports=running.ports,
        output_dir=running.output_dir,
        max_steps=max_steps,
        resolutions=running.resolutions,
        instances=instances,
        service_calls=running.service_calls,
        environment=running.environment,
        log_row=log_row,
        log_mark=MARK,
        batch_knobs=lambda files: figures.batch_knobs(files, own),
        checkout=CHECKOUT,
        config_models=ConfigModels(_MODELS_OF_2025 if is_split else _MODELS, SOURCES, PACKAGES),
        engine_memory=running.engine_memory,
        files=running.run_files({}),
        run_files=running.run_files,
        facts=FACTS,
        failures=FAILURES,
    )
