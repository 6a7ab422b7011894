"""One file for each of the three programs."""

from __future__ import annotations

from rltui.frameworks.base import Framework, OwnValidation
from rltui.frameworks.prime_rl import generation, run_files
from rltui.frameworks.prime_rl.checkout import CHECKOUT
from rltui.frameworks.prime_rl.config_values import max_steps
from rltui.frameworks.prime_rl.detection import SPLIT, role_in
from rltui.frameworks.prime_rl.failures import FAILURES
from rltui.frameworks.prime_rl.launch import RUN_ROLES, Running
from rltui.frameworks.prime_rl.log_lines import FACTS, MARK, log_row
from rltui.frameworks.prime_rl.main_knobs import MAIN_OF_SPLIT_FILES
from rltui.frameworks.prime_rl.split.check import check
from rltui.frameworks.prime_rl.split.derive import derive
from rltui.frameworks.prime_rl.split.keys import LATER
from rltui.frameworks.prime_rl.split.knobs import KNOBS, defaults

RUNNING = Running(generation.SPLIT, run_files.SPLIT_RL, run_files.SPLIT_SFT)

PRIME_RL_SPLIT = Framework(
    id=SPLIT,
    title="prime-rl, three files (2025)",
    layouts={"orchestrator": "prime-rl-split", "sft": "prime-rl-sft"},
    roles=role_in(SPLIT),
    template_values=RUNNING.template_values,
    run_roles=RUN_ROLES,
    resume_keys=("ckpt.resume_step",),
    knobs=KNOBS,
    main_knobs=MAIN_OF_SPLIT_FILES,
    renamed=LATER,
    defaults=defaults,
    required=(frozenset({"trainer", "orchestrator", "inference"}), frozenset({"sft"})),
    check=check,
    derive=derive,
    restart_rules=RUNNING.restart_rules,
    ports=RUNNING.ports,
    output_dir=RUNNING.output_dir,
    max_steps=max_steps,
    resolutions=RUNNING.resolutions,
    environment=RUNNING.environment,
    log_row=log_row,
    log_mark=MARK,
    checkout=CHECKOUT,
    own_validation=OwnValidation(
        models={
            "trainer": ("prime_rl.trainer.rl.config:RLTrainerConfig",),
            "orchestrator": ("prime_rl.orchestrator.config:OrchestratorConfig",),
            "inference": ("prime_rl.inference.config:InferenceConfig",),
            "sft": ("prime_rl.trainer.sft.config:SFTTrainerConfig",),
        }
    ),
    engine_memory=RUNNING.engine_memory,
    files=run_files.SPLIT_RL,
    run_files=RUNNING.run_files,
    facts=FACTS,
    failures=FAILURES,
)
