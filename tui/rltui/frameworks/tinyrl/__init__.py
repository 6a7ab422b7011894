"""The embedded engine: three processes on one merged `rl.toml`, and `sft.toml` for the warm-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltui.core.config_data import value_at
from rltui.core.plan import RestartRule
from rltui.frameworks.base import ConfigFiles, Fact, Framework, RunFiles
from rltui.frameworks.tinyrl.commands import engine_memory, passed, ports, template_values
from rltui.frameworks.tinyrl.configs import CONFIGS
from rltui.frameworks.tinyrl.derive import derive
from rltui.frameworks.tinyrl.failures import FAILURES
from rltui.frameworks.tinyrl.rules import BATCH

_MERGED = ("orchestrator", "trainer", "inference")
_SFT_DATA = frozenset({"seq_len", "batch_size", "micro_batch_size"})
_SIGNS = ("seed", "inference.max_num_seqs", "data.min_chars", "data.max_chars", "data.give_up_frac")
_PAIR = frozenset({"orchestrator", "trainer"})


def role(path: str, data: Mapping[str, Any]) -> str | None:
    """`rl` for a merged file, `sft` for the file of the warm-up."""
    del path
    table = data.get("data")
    if isinstance(table, dict) and _SFT_DATA & table.keys():
        return "sft"
    return "rl" if any(key in data for key in _MERGED) else None


def fit(parsed: Sequence[tuple[str, Mapping[str, Any]]]) -> int | None:
    """The grammar is that of prime-rl; knobs that only tinyrl has tell its files from those."""
    roles = [role(path, data) for path, data in parsed]
    is_own = any(value_at(data, key) is not None for _, data in parsed for key in _SIGNS)
    return 0 if is_own and None not in roles and len(set(roles)) == len(roles) else None


def output_dir(files: ConfigFiles) -> str | None:
    """The folder of the run, relative to the workspace."""
    named = CONFIGS.sound_value(files, "output_dir")
    return named if isinstance(named, str) and named else None


def max_steps(files: ConfigFiles) -> int | None:
    """Steps of the run, the default where the file does not say."""
    steps = CONFIGS.sound_value(files, "max_steps")
    return steps if isinstance(steps, int) else None


def restart_rules(files: ConfigFiles) -> Sequence[RestartRule]:
    """The same for every config: weights go through the file system, step counters must agree."""
    del files
    return (
        (_PAIR, _PAIR, "their step counters must agree"),
        (
            frozenset({"inference"}),
            _PAIR,
            "a new server holds the weights of the base model until the orchestrator sends it newer ones",
        ),
    )


TINYRL = Framework(
    id="tinyrl",
    title="tinyrl (embedded)",
    layouts={"rl": "tinyrl"},
    roles=role,
    fit=fit,
    template_values=template_values,
    knobs=CONFIGS.knobs,
    renamed=CONFIGS.renamed,
    defaults=CONFIGS.defaults,
    run_roles=_PAIR,
    resume_keys=("ckpt.resume_step",),
    required=(frozenset({"rl"}),),
    check=CONFIGS.check,
    derive=derive,
    companions={"sft": "sft.toml"},
    restart_rules=restart_rules,
    ports=ports,
    output_dir=output_dir,
    max_steps=max_steps,
    batch_knobs=lambda files: BATCH if "rl" in files else None,
    engine_memory=engine_memory,
    passed=passed,
    files=RunFiles(stale_after_resume=("checkpoints", "rollouts", "broadcasts", "weights")),
    facts=(
        Fact("orchestrator", "time/step", "{:.1f} s/step"),
        Fact("orchestrator", "train/agg/effective/agent/reward/mean", "reward {:.3f}"),
        Fact("trainer", "loss/mean", "loss {:.3f}"),
    ),
    failures=FAILURES,
)
