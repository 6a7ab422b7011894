"""One merged `rl.toml` with `rollouts_per_example`."""

from __future__ import annotations

from rltui.frameworks.base import Framework, OwnValidation
from rltui.frameworks.prime_rl import generation, run_files
from rltui.frameworks.prime_rl.checkout import CHECKOUT
from rltui.frameworks.prime_rl.config_values import max_steps
from rltui.frameworks.prime_rl.detection import MERGED, role_in
from rltui.frameworks.prime_rl.env_servers import instances
from rltui.frameworks.prime_rl.failures import FAILURES
from rltui.frameworks.prime_rl.launch import RUN_ROLES, Running
from rltui.frameworks.prime_rl.log_lines import FACTS, MARK, log_row
from rltui.frameworks.prime_rl.main_knobs import MAIN
from rltui.frameworks.prime_rl.merged.check import check
from rltui.frameworks.prime_rl.merged.derive import derive
from rltui.frameworks.prime_rl.merged.keys import ELSEWHERE
from rltui.frameworks.prime_rl.merged.knobs import KNOBS, defaults
from rltui.frameworks.prime_rl.merged.rules import BATCH

RUNNING = Running(generation.MERGED, run_files.MERGED_RL, run_files.MERGED_SFT)

PRIME_RL_MERGED = Framework(
    id=MERGED,
    title="prime-rl, one file (until August 2026)",
    layouts={"rl": "prime-rl-merged", "sft": "prime-rl-sft"},
    roles=role_in(MERGED),
    template_values=RUNNING.template_values,
    run_roles=RUN_ROLES,
    resume_keys=generation.MERGED.resume_cleared,
    resume_elsewhere=("ckpt.output_dir",),
    knobs=KNOBS,
    main_knobs=MAIN,
    renamed=ELSEWHERE,
    defaults=defaults,
    required=(frozenset({"rl"}), frozenset({"sft"})),
    check=check,
    derive=derive,
    restart_rules=RUNNING.restart_rules,
    fresh_rules=RUNNING.fresh_rules,
    ports=RUNNING.ports,
    output_dir=RUNNING.output_dir,
    max_steps=max_steps,
    resolutions=RUNNING.resolutions,
    instances=instances,
    service_calls=RUNNING.service_calls,
    environment=RUNNING.environment,
    log_row=log_row,
    log_mark=MARK,
    batch_knobs=BATCH,
    checkout=CHECKOUT,
    own_validation=OwnValidation(
        models={
            "rl": ("prime_rl.configs.rl:RLConfig", "prime_rl.rl:RLConfig"),
            "sft": ("prime_rl.configs.sft:SFTConfig", "prime_rl.trainer.sft.config:SFTTrainerConfig"),
        }
    ),
    engine_memory=RUNNING.engine_memory,
    files=run_files.MERGED_RL,
    run_files=RUNNING.run_files,
    facts=FACTS,
    failures=FAILURES,
)
