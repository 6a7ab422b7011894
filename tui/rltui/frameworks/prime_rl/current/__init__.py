"""One merged `rl.toml` with `group_size`, run folders, env servers."""

from __future__ import annotations

from rltui.frameworks.base import Framework, OwnValidation
from rltui.frameworks.prime_rl import facts, restart
from rltui.frameworks.prime_rl.checkout import CHECKOUT, PACKAGES, SOURCES
from rltui.frameworks.prime_rl.config_values import max_steps
from rltui.frameworks.prime_rl.configs import CURRENT, configs
from rltui.frameworks.prime_rl.current import renamed, run
from rltui.frameworks.prime_rl.current.check import check
from rltui.frameworks.prime_rl.current.derive import derive
from rltui.frameworks.prime_rl.current.env_servers import instances
from rltui.frameworks.prime_rl.current.environment import environment
from rltui.frameworks.prime_rl.current.knobs import KNOBS, defaults, more_knobs
from rltui.frameworks.prime_rl.current.knobs_orchestrator import BATCH
from rltui.frameworks.prime_rl.current.resolve import RESUME_STEPS, resolutions
from rltui.frameworks.prime_rl.detection import fit_in, role_in
from rltui.frameworks.prime_rl.failures import FAILURES
from rltui.frameworks.prime_rl.log_lines import MARK, log_row
from rltui.frameworks.prime_rl.main_knobs import MAIN
from rltui.frameworks.prime_rl.own_files import CURRENT_RL

CONFIGS = configs(CURRENT)
PRIME_RL = Framework(
    id=CURRENT,
    title="prime-rl (August 2026 on)",
    layouts={"rl": "prime-rl", "sft": "prime-rl-sft"},
    roles=role_in(CURRENT),
    fit=fit_in(CURRENT),
    template_values=run.template_values,
    run_roles=restart.RUN_ROLES,
    resume_keys=RESUME_STEPS,
    resume_elsewhere=("ckpt.output_dir", "resume.dir"),
    knobs=CONFIGS.knobs,
    renamed=CONFIGS.renamed,
    defaults=CONFIGS.defaults,
    required=(frozenset({"rl"}), frozenset({"sft"})),
    check=CONFIGS.check,
    restart_rules=run.restart_rules,
    ports=run.ports,
    output_dir=run.output_dir,
    max_steps=max_steps,
    resolutions=resolutions,
    instances=instances,
    service_calls=run.service_calls,
    environment=environment,
    log_row=log_row,
    log_mark=MARK,
    checkout=CHECKOUT,
    own_validation=OwnValidation(
        models={"rl": ("prime_rl.configs.rl:RLConfig",), "sft": ("prime_rl.configs.sft:SFTConfig",)},
        sources=SOURCES,
        packages=PACKAGES,
    ),
    engine_memory=run.engine_memory,
    files=CURRENT_RL,
    run_files=run.run_files,
    facts=facts.FACTS,
    failures=FAILURES,
)
