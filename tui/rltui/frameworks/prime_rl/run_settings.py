"""Folder, length and checkpoints of a run of prime-rl, as its config says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl import values
from rltui.frameworks.prime_rl.evaluation import MODEL_KEYS
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.run_config import RunConfigReader
from rltui.frameworks.run_settings import RunSettings, WeightsMaker

WRITERS = ("orchestrator", "trainer", "sft")
"""Roles of files whose programs write into the run's folder."""


def run_settings_of(config: RunConfigReader) -> RunSettings:
    """The part of a framework."""
    g = config.generation

    return RunSettings(
        files=lambda files: g.sft_files if "sft" in files else g.rl_files,
        output_dir=partial(_output_dir, g),
        max_steps=values.first_count_of("max_steps", "trainer.max_steps", "orchestrator.max_steps"),
        checkpoint_interval=values.first_count_of("ckpt.interval", "trainer.ckpt.interval"),
        weights_maker=lambda files, *of: _weights_maker(config(files), *of, is_sft="sft" in files),
        resume_keys=g.resume_keys,
        resume_elsewhere=("ckpt.output_dir", "resume.dir") if g.has_launchers else (),
        model_keys=("model", "model.name", "*.model.name", "*.vllm.model"),
        seed_keys=("orchestrator.seed", "seed", "data.seed", "inference.vllm.seed", "inference.seed"),
    )


def _output_dir(g: Generation, files: ConfigFiles) -> str | None:
    for role in ("rl", *WRITERS):
        data = files[role].data if role in files else {}
        group = values.text(data, "output_dir")
        run = values.text(data, "run.dir", "run.name") if g.run_folders else None
        if run is not None or group is not None:
            return str(PurePath(group or "outputs") / (run or "")) if g.run_folders else group
    return None


def _weights_maker(data: Mapping[str, Any], run_dir: str, step: int, *, is_sft: bool) -> WeightsMaker | None:
    """Export of torch's distributed checkpoint, next to its halves, by a script in its environment: its
    releases have none. `None` if the config names no model.
    """
    checkpoint, name = f"{run_dir}/checkpoints/step_{step}", values.text(data, *MODEL_KEYS)
    if name is None:
        return None
    tables = ("tokenizer", "trainer.tokenizer") if not is_sft else ("tokenizer",)
    tokenizer_arguments = [
        values.text(data, *(f"{table}.{key}" for table in tables)) or "" for key in ("name", "chat_template")
    ]
    source, folder = f"{checkpoint}/trainer", f"{checkpoint}/weights"
    script = str(Path(__file__).with_name("make_weights.py"))
    return WeightsMaker(
        ("python", script, source, folder, name, *tokenizer_arguments), f"{source}/.metadata", folder
    )
