"""Knobs of `sft.toml`; names begin with `sft.`."""

from __future__ import annotations

from dataclasses import replace

from rltui.core.knobs import Knob
from rltui.frameworks.prime_rl import rl_knobs, sft_knobs, trainer_knobs
from rltui.frameworks.prime_rl.detection import SFT
from rltui.frameworks.prime_rl.knob_tables import Place
from rltui.frameworks.prime_rl.merged.trainer_tables import any_trainer

_PLACE = Place((SFT,), file=SFT, namespace=SFT)

SFT_KNOBS = (
    *_PLACE.put(
        (
            trainer_knobs.MAX_STEPS,
            rl_knobs.OUTPUT_DIR,
            *sft_knobs.DATA,
            sft_knobs.PACK_FUNCTION,
            replace(sft_knobs.LOSS_IMPL, choices=("liger", "torch", "liger_fused", "quack_fused")),
            Knob("deployment.num_gpus", "int", (), "GPUs that train.", 1, minimum=1, unit="GPUs"),
            Knob("deployment.gpus_per_node", "int", (), "GPUs that a node has.", 8, minimum=1, unit="GPUs"),
            Knob(
                "deployment.type", "enum", (),
                "One node, or several by way of SLURM.",
                "single_node", choices=("single_node", "multi_node"),
            ),
            Knob(
                "val.interval", "int", (),
                "Measure the loss on other data every so many steps; without the table [val], never.",
                nullable=True, minimum=1, unit="steps",
            ),
        )
    ),
    *any_trainer(_PLACE),
)  # fmt: skip
