"""Words of prime-rl's own, besides vLLM's and torch's, when a start cannot go well."""

from __future__ import annotations

from rltui.core.failure_cause import FailurePattern
from rltui.frameworks.failures import COMMON

FAILURES: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_PRIME_GPU_BUSY",
        r"Existing processes found on GPUs:",
        "prime-rl's launcher needs empty GPUs; end what runs there, or start the parts by themselves",
    ),
    FailurePattern(
        "F_PRIME_GPU_COUNT",
        r"Requested (?P<wanted>\d+) GPUs via deployment settings, but only (?P<there>\d+)",
        "the config asks for {wanted} GPUs and {there} can be used; lower the numbers in [deployment]",
        hopeless=True,
    ),
    FailurePattern(
        "F_PRIME_FOLDER",
        r"(?P<what>(?:Run|Output|Checkpoint) directory [^\n]* already contains [^\n.]*)",
        "{what}; continue it from a checkpoint, or begin anew",
        hopeless=True,
    ),
    FailurePattern(
        "F_PRIME_PORTS",
        r"base_url port \((?P<client>\d+)\) does not match\s+inference\.server\.port \((?P<server>\d+)\)",
        "the orchestrator asks at port {client} and the server listens on {server}; give both the same port",
        hopeless=True,
    ),
    FailurePattern(
        "F_PRIME_TASKSET",
        r"ModuleNotFoundError: (?P<what>taskset '[^']+' not found)",
        "{what}; install the environment's package into prime-rl's virtual environment",
        hopeless=True,
    ),
    FailurePattern(
        "F_PRIME_ADDRESS",
        r"env server never published its address to (?P<path>\S+)",
        "the env server that was to write {path} did not get so far: its own output says why; restart it, "
        "and the orchestrator with it",
    ),
    FailurePattern(
        "F_PRIME_SUBMITTED",
        r"Submitted batch job (?P<job>\d+)",
        "submitted to SLURM as job {job}, and runs there: squeue -j {job}; its logs are in the run's folder",
        ends_well=True,
    ),
    FailurePattern(
        "F_PRIME_DRY",
        r"Dry run complete",
        "a dry run, as dry_run in the config asks: nothing was started",
        ends_well=True,
    ),
    *COMMON,
)
