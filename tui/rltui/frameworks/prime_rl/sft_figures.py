"""What a step of SFT amounts to."""

from __future__ import annotations

from collections.abc import Iterator

from rltui.core.config_report import DerivedValue
from rltui.frameworks.base import figure
from rltui.frameworks.batch_figures import accumulation, sft_tokens
from rltui.frameworks.prime_rl.sft_rules import BATCH, CP, MICRO, SEQ_LEN
from rltui.frameworks.rule_makers import Values

_NAME = "sft micro-batches per optimizer step"


def sft_figures(v: Values, *, gpus: int | None) -> Iterator[DerivedValue]:
    """Tokens and micro-batches of a step. `gpus`: how many train, `None` where the file does not say.

    How many steps an epoch has depends on the dataset, which no file tells.
    """
    yield sft_tokens(v, batch=BATCH, seq_len=SEQ_LEN, packed=True)
    if v["sft.max_steps"] is not None:
        total = v["sft.max_steps"] * v[BATCH] * v[SEQ_LEN]
        yield figure(
            "sft tokens of the run", total, "tokens",
            f"{v['sft.max_steps']} steps * {v[BATCH] * v[SEQ_LEN]} tokens = {total} tokens",
        )  # fmt: skip
    together = v[CP] * v["sft.model.tp"]
    if gpus is None or gpus < together:
        yield accumulation(v, batch=BATCH, micro=MICRO, name=f"{_NAME} on one GPU")
    else:
        yield accumulation(v, batch=BATCH, micro=MICRO, parts=gpus // together, name=_NAME)
