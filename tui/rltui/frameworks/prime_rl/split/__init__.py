"""One file for each of the three programs."""

from __future__ import annotations

from rltui.frameworks.base import Framework, OwnValidation
from rltui.frameworks.prime_rl import facts, restart
from rltui.frameworks.prime_rl.checkout import CHECKOUT, PACKAGES, SOURCES
from rltui.frameworks.prime_rl.config_values import max_steps
from rltui.frameworks.prime_rl.configs import SPLIT, configs
from rltui.frameworks.prime_rl.detection import fit_in, role_in
from rltui.frameworks.prime_rl.failures import FAILURES
from rltui.frameworks.prime_rl.log_lines import MARK, log_row
from rltui.frameworks.prime_rl.main_knobs import MAIN_OF_SPLIT_FILES
from rltui.frameworks.prime_rl.own_files import SPLIT_RL
from rltui.frameworks.prime_rl.split import run
from rltui.frameworks.prime_rl.split.check import check
from rltui.frameworks.prime_rl.split.derive import derive
from rltui.frameworks.prime_rl.split.keys import LATER
from rltui.frameworks.prime_rl.split.knobs import KNOBS, defaults

CONFIGS = configs(SPLIT)
PRIME_RL_SPLIT = Framework(
    id=SPLIT,
    title="prime-rl, three files (2025)",
    layouts={"orchestrator": "prime-rl-split", "sft": "prime-rl-sft"},
    roles=role_in(SPLIT),
    fit=fit_in(SPLIT),
    template_values=run.template_values,
    run_roles=restart.RUN_ROLES,
    resume_keys=("ckpt.resume_step",),
    knobs=CONFIGS.knobs,
    renamed=CONFIGS.renamed,
    defaults=CONFIGS.defaults,
    required=(frozenset({"trainer", "orchestrator", "inference"}), frozenset({"sft"})),
    check=CONFIGS.check,
    restart_rules=run.restart_rules,
    ports=run.ports,
    output_dir=run.output_dir,
    max_steps=max_steps,
    resolutions=run.resolutions,
    environment=run.environment,
    log_row=log_row,
    log_mark=MARK,
    checkout=CHECKOUT,
    own_validation=OwnValidation(
        models={
            "trainer": ("prime_rl.trainer.rl.config:RLTrainerConfig",),
            "orchestrator": ("prime_rl.orchestrator.config:OrchestratorConfig",),
            "inference": ("prime_rl.inference.config:InferenceConfig",),
            "sft": ("prime_rl.trainer.sft.config:SFTTrainerConfig",),
        },
        sources=SOURCES,
        packages=PACKAGES,
    ),
    engine_memory=run.engine_memory,
    files=SPLIT_RL,
    run_files=run.run_files,
    facts=facts.FACTS,
    failures=FAILURES,
)
