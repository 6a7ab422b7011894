"""Rules of the SFT trainer's `[data]`; names of knobs begin with `sft.`."""

from __future__ import annotations

from math import gcd

from rltui.frameworks.batch_rules import micro_batches
from rltui.frameworks.rule_makers import Values, divisible_by, nearest_multiples, same_length
from rltui.frameworks.schemas import Rule

_DATA = "sft.data"
BATCH, MICRO, SEQ_LEN = f"{_DATA}.batch_size", f"{_DATA}.micro_batch_size", f"{_DATA}.seq_len"
PACK, CP = f"{_DATA}.pack_function", "sft.model.cp"
_STACKED_TOKENS = 256

_PARTS = "name one for each"
DATA_RULES = (
    micro_batches(BATCH, MICRO),
    same_length(f"{_DATA}.subsets", f"{_DATA}.splits", what=_PARTS),
    same_length(f"{_DATA}.probabilities", f"{_DATA}.subsets", what=_PARTS),
    same_length(f"{_DATA}.probabilities", f"{_DATA}.splits", what=_PARTS),
)


def packing_rules(with_cp: str) -> tuple[Rule, ...]:
    """How rows are filled. `with_cp`: the only way where several GPUs share a row."""

    def fault(v: Values) -> str | None:
        if v[CP] <= 1 or v[PACK] == with_cp:
            return None
        return f'{PACK} ("{v[PACK]}") must be "{with_cp}" while {CP} ({v[CP]}) is above 1'

    return (Rule(PACK, (PACK, CP), fault), divisible_by(SEQ_LEN, _STACKED_TOKENS, where=(PACK, "stack")))


def shared_row_rules() -> tuple[Rule, ...]:
    """Rows that several GPUs share, from winter 2026 on."""

    def whole(v: Values) -> str | None:
        if v[CP] <= 1 or v[SEQ_LEN] % v[CP] == 0:
            return None
        return f"{SEQ_LEN} ({v[SEQ_LEN]}) must be divisible by {CP} ({v[CP]})"

    def alone(v: Values) -> str | None:
        if v[CP] <= 1 or v[MICRO] == 1:
            return None
        return f"{MICRO} ({v[MICRO]}) must be 1 while {CP} ({v[CP]}) is above 1"

    return (Rule(SEQ_LEN, (SEQ_LEN, CP), whole), Rule(MICRO, (MICRO, CP), alone))


def gpu_rounds(gpus: str, kind: str) -> Rule:
    """Rows of a step in whole rounds of what all GPUs compute at once: found out only when training starts.

    `gpus`: knob with the GPUs of one node; `kind`: whether there is one node.
    """
    tp = "sft.model.tp"

    def fault(v: Values) -> str | None:
        once = v[gpus] * v[MICRO]
        rows = v[BATCH] * v[CP] * v[tp]
        if v[kind] != "single_node" or v[BATCH] % v[MICRO] or rows % once == 0:
            return None
        least = once // gcd(once, v[CP] * v[tp])
        return (
            f"{BATCH} ({v[BATCH]}) must be divisible by {least}, what {gpus} ({v[gpus]}) compute at once "
            f"with {MICRO} ({v[MICRO]}): nearest valid batch_size is {nearest_multiples(v[BATCH], least)}"
        )

    return Rule(BATCH, (BATCH, MICRO, gpus, kind, CP, tp), fault)
