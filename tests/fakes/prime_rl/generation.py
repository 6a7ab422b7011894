"""The differences between the five generations of prime-rl that the stand-ins play."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

Name = Literal["A1", "B0", "B1", "C", "D"]
NAMES: tuple[Name, ...] = ("A1", "B0", "B1", "C")
"""Oldest first; the letters are those of the reference. Without D, of which no whole tree was ever read: it
is C with another hand-over, and has tests of its own."""

Tree = dict[str, Any]
"""A parsed TOML config."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Conventions of one generation."""

    name: Name
    first_step: int
    """Number of the first training step."""
    deep_merge: bool
    """Whether a later `@ file` is merged into the earlier ones; else it replaces whole top-level tables."""
    usage_exit: int
    """Exit code for an unknown option."""
    dry_run: str | None
    """Option of `rl` that only resolves: `dump_config` takes a folder, `dry_run` is a flag."""
    own_folder: str
    """Folder below the output folder that the orchestrator writes into."""
    log_suffix: str
    """Suffix of the files that the launcher lets its children write."""
    config_suffix: str
    """Suffix of the config files that the launcher hands to its children."""
    role: str
    """Prefix of torchrun's lines, before the local rank."""
    marks_checkpoints: bool
    """Whether a complete checkpoint holds a file STABLE."""
    pauses_engines: bool
    can_reload: bool
    """Whether the server goes back to the base weights on request."""
    adopts_latest: bool
    """Default of the newest weights being taken, rather than those of exactly `max_async_level` steps ago."""
    stale_output: Literal["", "checkpoints", "anything"]
    """Pattern of files in the output folder that make `rl` refuse to start."""
    clean_key: str
    launcher_files: str
    """Folder for the configs of the children; `{output}` is the run's folder, else it is in the cwd."""
    markers: tuple[str, str, str] = ("STABLE", "NCCL_READY", "STABLE")
    """Files of a broadcast: the trainer has something, the server takes it, it is there."""
    batches: str = "rollouts"
    metrics: str = "metrics.jsonl"

    @property
    def is_late(self) -> bool:
        """Steps from 1, run folders, env servers, a router, broadcasts in memory."""
        return self.name in ("C", "D")

    @property
    def has_attempts(self) -> bool:
        """Configs of every launch are kept, and env servers tell their addresses in files beside them."""
        return self.name == "D"


_UNTIL_AUGUST: Mapping[Name, Generation] = {
    "A1": Generation(
        name="A1",
        first_step=0,
        deep_merge=False,
        usage_exit=2,
        dry_run=None,
        own_folder="",
        log_suffix=".stdout",
        config_suffix=".toml",
        role="default",
        marks_checkpoints=False,
        pauses_engines=False,
        can_reload=True,
        adopts_latest=False,
        stale_output="",
        clean_key="clean",
        launcher_files=".pydantic_config",
    ),
    "B0": Generation(
        name="B0",
        first_step=0,
        deep_merge=False,
        usage_exit=2,
        dry_run="dump_config",
        own_folder="run_default",
        log_suffix=".stdout",
        config_suffix=".toml",
        role="default",
        marks_checkpoints=True,
        pauses_engines=False,
        can_reload=False,
        adopts_latest=True,
        stale_output="checkpoints",
        clean_key="clean_output_dir",
        launcher_files=".pydantic_config",
    ),
    "B1": Generation(
        name="B1",
        first_step=0,
        deep_merge=True,
        usage_exit=2,
        dry_run="dry_run",
        own_folder="run_default",
        log_suffix=".log",
        config_suffix=".toml",
        role="trainer",
        marks_checkpoints=True,
        pauses_engines=True,
        can_reload=False,
        adopts_latest=True,
        stale_output="checkpoints",
        clean_key="clean_output_dir",
        launcher_files="{output}/configs",
    ),
    "C": Generation(
        name="C",
        first_step=1,
        deep_merge=True,
        usage_exit=1,
        dry_run="dry_run",
        own_folder="",
        log_suffix=".log",
        config_suffix=".json",
        role="trainer",
        marks_checkpoints=False,
        pauses_engines=True,
        can_reload=False,
        adopts_latest=True,
        stale_output="anything",
        clean_key="clean",
        launcher_files="{output}/configs",
    ),
}
GENERATIONS: Mapping[Name, Generation] = {
    **_UNTIL_AUGUST,
    "D": replace(
        _UNTIL_AUGUST["C"],
        name="D",
        markers=(".sender_ready", ".receiver_ready", ".finished"),
        batches="batches",
        metrics="monitors/file/metrics.jsonl",
    ),
}


@cache
def known_keys(name: Name, role: str) -> Mapping[str, frozenset[str]]:
    """Dotted table (empty: top level) → names of its keys; `*` among them allows any."""
    text = (Path(__file__).parent / "keys" / f"{name}.toml").read_text()
    tables: Mapping[str, str] = tomllib.loads(text)[role]
    return {table: frozenset(names.split()) for table, names in tables.items()}
