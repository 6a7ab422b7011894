"""Configs of the second generation's programs: written out by its launcher, or for the launcher itself."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.core.config_report import KnobValue
from rltui.frameworks.base import ConfigFiles, Resolution, RunContext
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import shared_values
from rltui.frameworks.prime_rl.config_values import is_table
from rltui.frameworks.prime_rl.current.env_servers import SPLITS, instances
from rltui.frameworks.prime_rl.merged.run import PARTS, broadcast, port_edits, split_gpus

_OUT = "{scratch}/out"
RESUME_STEPS = ("ckpt.resume_step", "trainer.ckpt.resume_step", "orchestrator.ckpt.resume_step")
_UNSUPPORTED = (
    "checkouts from before 2026-02-12 have neither --dry-run nor --dump-config; " + shared_values.SINGLE
)


def resolutions(files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
    """`launcher`: the file for the launcher; `inference`, `orchestrator`, `trainer`: what it makes of it."""
    role = "rl" if "rl" in files else "sft"
    data = files[role].data
    common: dict[str, KnobValue] = {**_resume_edits(files, context), "clean_output_dir": None}
    if role == "rl":
        common |= port_edits(data, context)
    launcher = Resolution(
        edits={role: {**common, "output_dir": context.run_folder}}, outputs={"launcher": f"{role}.toml"}
    )
    if role == "sft" or shared_values.not_by_parts(data) is not None:
        return (launcher,)
    servers = instances(files)
    is_shared = split_gpus(data, context.devices).is_shared
    through_files = is_shared and broadcast(data) == "nccl"
    edits = {**common, "output_dir": _OUT, "slurm": None, "dry_run": None}
    if through_files:
        edits = shared_values.through_files(edits)
    parts = Resolution(
        edits={"rl": edits},
        outputs={
            **{part: f"out/configs/{part}.toml" for part in PARTS},
            **{f"env.{split}": f"out/configs/envs/{split}/*.toml" for split in SPLITS},
        },
        commands=(
            ("rl", "@", "{input.rl}", "--dry-run"),
            ("rl", "@", "{input.rl}", "--dump-config", f"{_OUT}/configs"),
        ),
        optional=frozenset(
            (
                *(() if is_table(data, "inference") else ("inference",)),
                *(f"env.{split}" for split in SPLITS if not servers[f"env_servers.{split}"]),
            )
        ),
        replaced={_OUT: context.run_folder},
        notes=(shared_values.BROADCAST_NOTE,) if through_files else (),
        unsupported=_UNSUPPORTED,
    )
    return (launcher, parts)


def _resume_edits(files: ConfigFiles, context: RunContext) -> dict[str, KnobValue]:
    """The step that rltui chose; where checkpoints lie elsewhere, what the person wrote."""
    if any(value_at(file.data, "ckpt.output_dir") is not None for file in files.values()):
        return {}
    edits: dict[str, KnobValue] = dict.fromkeys(RESUME_STEPS)
    if context.resume_step is not None:
        edits["ckpt.resume_step"] = context.resume_step
    return edits
