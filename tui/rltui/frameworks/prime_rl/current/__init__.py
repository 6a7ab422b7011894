"""One merged `rl.toml` with `group_size`, run folders, env servers."""

from __future__ import annotations

from rltui.frameworks.base import Framework, OwnValidation
from rltui.frameworks.prime_rl import generation, run_files
from rltui.frameworks.prime_rl.checkout import CHECKOUT
from rltui.frameworks.prime_rl.config_values import max_steps
from rltui.frameworks.prime_rl.current import renamed
from rltui.frameworks.prime_rl.current.check import check
from rltui.frameworks.prime_rl.current.derive import derive
from rltui.frameworks.prime_rl.current.knobs import KNOBS, defaults, more_knobs
from rltui.frameworks.prime_rl.current.knobs_orchestrator import BATCH
from rltui.frameworks.prime_rl.detection import CURRENT, role_in
from rltui.frameworks.prime_rl.env_servers import instances
from rltui.frameworks.prime_rl.failures import FAILURES
from rltui.frameworks.prime_rl.launch import RUN_ROLES, Running
from rltui.frameworks.prime_rl.log_lines import FACTS, MARK, log_row
from rltui.frameworks.prime_rl.main_knobs import MAIN

RUNNING = Running(generation.CURRENT, run_files.CURRENT_RL, run_files.CURRENT_SFT)

PRIME_RL = Framework(
    id=CURRENT,
    title="prime-rl (August 2026 on)",
    layouts={"rl": "prime-rl", "sft": "prime-rl-sft"},
    roles=role_in(CURRENT),
    template_values=RUNNING.template_values,
    run_roles=RUN_ROLES,
    resume_keys=tuple(f"{table}.step" for table in generation.CURRENT.resume_cleared),
    resume_elsewhere=("ckpt.output_dir", "resume.dir"),
    knobs=KNOBS,
    main_knobs=MAIN,
    renamed=renamed.RL,
    more_knobs=more_knobs,
    defaults=defaults,
    required=(frozenset({"rl"}), frozenset({"sft"})),
    check=check,
    derive=derive,
    restart_rules=RUNNING.restart_rules,
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
        models={"rl": ("prime_rl.configs.rl:RLConfig",), "sft": ("prime_rl.configs.sft:SFTConfig",)}
    ),
    engine_memory=RUNNING.engine_memory,
    files=run_files.CURRENT_RL,
    run_files=RUNNING.run_files,
    facts=FACTS,
    failures=FAILURES,
)
