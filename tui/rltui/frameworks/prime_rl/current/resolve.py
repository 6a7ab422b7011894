"""Configs of today's programs: written by the launcher's dry run, or for the launcher itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rltui.core.config_report import KnobValue
from rltui.frameworks.base import ConfigFiles, Resolution, RunContext
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import shared_values
from rltui.frameworks.prime_rl.config_values import text
from rltui.frameworks.prime_rl.current.env_servers import SPLITS, instances
from rltui.frameworks.prime_rl.current.environment import run_name
from rltui.frameworks.prime_rl.current.run import (
    BASE_URL,
    ENGINE_PORT,
    PORT,
    broadcast,
    effective_ports,
    has_inference,
    has_router,
    split_gpus,
)
from rltui.frameworks.prime_rl.ports import port_edits

_OUT = "{scratch}/out"
_RUN = "run"
_PARTS = ("trainer", "orchestrator", "inference")
_RESUME = ("resume", "trainer.resume", "orchestrator.resume")
RESUME_STEPS = tuple(f"{table}.step" for table in _RESUME)
_DERIVED = ("trainer.output_dir", "orchestrator.output_dir", "run.dir")
"""The launcher works these out from the run's folder, and refuses other values."""


def resolutions(files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
    """`launcher`: the file for the launcher; `trainer`, `env.train.<source>` …: what its dry run makes of it.

    The dry run may delete things in the run's folder, so it gets an empty one.
    """
    role = "rl" if "rl" in files else "sft"
    data = files[role].data
    common: dict[str, KnobValue] = {"clean": None, "dry_run": None, **dict.fromkeys(_DERIVED)}
    common |= {**_resume_edits(data, context), "run.name": run_name(files, context)}
    if role == "rl":
        common |= _port_edits(data, context)
    folder = PurePath(context.run_folder)
    own = {"output_dir": str(folder.parent), "run.dir": folder.name}
    launcher = Resolution(edits={role: {**common, **own}}, outputs={"launcher": f"{role}.toml"})
    if role == "sft" or shared_values.not_by_parts(data) is not None:
        return (launcher,)
    through_files = split_gpus(data, context.devices).is_shared and broadcast(data) == "nccl"
    edits = {**common, "output_dir": _OUT, "run.dir": _RUN, "slurm": None, "inference.slurm": None}
    if through_files:
        edits = shared_values.through_files(edits)
    configs = f"out/{_RUN}/configs"
    servers = instances(files)
    parts = Resolution(
        edits={"rl": edits},
        outputs={
            **{part: f"{configs}/{part}.json" for part in _PARTS},
            **{f"env.{split}": f"{configs}/envs/{split}/*.json" for split in SPLITS},
        },
        commands=(("rl", "@", "{input.rl}", "--dry-run"),),
        optional=frozenset(
            (
                *(() if has_inference(data) else ("inference",)),
                *(f"env.{split}" for split in SPLITS if not servers[f"env_servers.{split}"]),
            )
        ),
        replaced={f"{_OUT}/{_RUN}": context.run_folder, _OUT: context.output_dir},
        notes=(shared_values.BROADCAST_NOTE,) if through_files else (),
        unsupported=f"is this checkout older or newer than what rltui knows? {shared_values.SINGLE}",
    )
    return (launcher, parts)


def _resume_edits(data: Mapping[str, Any], context: RunContext) -> dict[str, KnobValue]:
    """The step that rltui chose. What the person wrote counts where checkpoints lie elsewhere, and for a run
    that begins with the checkpoint of another.
    """
    if value_at(data, "ckpt.output_dir") is not None:
        return {}
    if context.resume_step is not None:
        return {**dict.fromkeys(_RESUME), "resume.step": context.resume_step}
    return {} if text(data, "resume.dir") is not None else dict.fromkeys(_RESUME)


def _port_edits(data: Mapping[str, Any], context: RunContext) -> dict[str, KnobValue]:
    """The ports that rltui chose, on both sides."""
    edits = port_edits(context)
    if {PORT, ENGINE_PORT} & context.overrides.keys():
        port, engine_port = effective_ports(data, context.overrides)
        edits |= {PORT: port, BASE_URL: f"http://localhost:{port}/v1"}
        edits |= {ENGINE_PORT: engine_port} if has_router(data) else {}
    return edits
