"""One merged `rl.toml` with `rollouts_per_example`."""

from __future__ import annotations

from rltui.frameworks.base import Framework, OwnValidation
from rltui.frameworks.prime_rl import facts, restart
from rltui.frameworks.prime_rl.checkout import CHECKOUT, PACKAGES, SOURCES
from rltui.frameworks.prime_rl.config_values import max_steps
from rltui.frameworks.prime_rl.configs import MERGED, configs
from rltui.frameworks.prime_rl.current.env_servers import instances
from rltui.frameworks.prime_rl.detection import fit_in, role_in
from rltui.frameworks.prime_rl.failures import FAILURES
from rltui.frameworks.prime_rl.log_lines import MARK, log_row
from rltui.frameworks.prime_rl.main_knobs import MAIN
from rltui.frameworks.prime_rl.merged import run
from rltui.frameworks.prime_rl.merged.check import check
from rltui.frameworks.prime_rl.merged.derive import derive
from rltui.frameworks.prime_rl.merged.keys import ELSEWHERE
from rltui.frameworks.prime_rl.merged.knobs import KNOBS, defaults
from rltui.frameworks.prime_rl.merged.resolve import RESUME_STEPS, resolutions
from rltui.frameworks.prime_rl.merged.rules import BATCH
from rltui.frameworks.prime_rl.own_files import MERGED_RL

CONFIGS = configs(MERGED)
PRIME_RL_MERGED = Framework(
    id=MERGED,
    title="prime-rl, one file (until August 2026)",
    layouts={"rl": "prime-rl-merged", "sft": "prime-rl-sft"},
    roles=role_in(MERGED),
    fit=fit_in(MERGED),
    template_values=run.template_values,
    run_roles=restart.RUN_ROLES,
    resume_keys=RESUME_STEPS,
    resume_elsewhere=("ckpt.output_dir",),
    knobs=CONFIGS.knobs,
    renamed=CONFIGS.renamed,
    defaults=CONFIGS.defaults,
    required=(frozenset({"rl"}), frozenset({"sft"})),
    check=CONFIGS.check,
    restart_rules=run.restart_rules,
    fresh_rules=run.fresh_rules,
    ports=run.ports,
    output_dir=run.output_dir,
    max_steps=max_steps,
    resolutions=resolutions,
    instances=instances,
    service_calls=run.service_calls,
    environment=run.environment,
    log_row=log_row,
    log_mark=MARK,
    checkout=CHECKOUT,
    own_validation=OwnValidation(
        models={
            "rl": ("prime_rl.configs.rl:RLConfig", "prime_rl.rl:RLConfig"),
            "sft": ("prime_rl.configs.sft:SFTConfig", "prime_rl.trainer.sft.config:SFTTrainerConfig"),
        },
        sources=SOURCES,
        packages=PACKAGES,
    ),
    engine_memory=run.engine_memory,
    files=MERGED_RL,
    run_files=run.run_files,
    facts=facts.FACTS,
    failures=FAILURES,
)
