"""Which components of a run must restart together, for every generation.

Orchestrator and trainer count steps each for itself, and a server that starts has the weights of the base
model. From the sources of three generations; the broadcast through NCCL adds a handshake of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltui.core.plan import RestartRule

PAIR = frozenset({"orchestrator", "trainer"})
INFERENCE = frozenset({"inference"})
RUN_ROLES = PAIR | {"sft"}
"""Who writes the run, by themselves or started by a launcher."""

STEPS = "each counts the steps for itself, and the counters must agree"
HANDSHAKE = (
    "the trainer says once that it is there, and a new partner would wait for that for ever; "
    "their step counters must agree too"
)
_BASE_WEIGHTS = "a new server has the weights of the base model until the orchestrator sends it newer ones"
_GROUP = "a new server must join the group that broadcasts weights, which those two set up as they start"
_TRAINED = "it still has the trained weights of the run before, and nothing sends it those of the model"


def rules(*, in_memory: bool, pair: str = STEPS) -> Sequence[RestartRule]:
    """`in_memory`: weights go from GPU to GPU (NCCL, NIXL) instead of through files."""
    return (
        (PAIR, PAIR, pair),
        (INFERENCE, PAIR, _GROUP if in_memory else _BASE_WEIGHTS),
    )


def weights_stay(is_resent: bool) -> Sequence[RestartRule]:
    """For a run that begins anew; `is_resent`: the living server is sent the first weights again."""
    return () if is_resent else ((PAIR, INFERENCE, _TRAINED),)
