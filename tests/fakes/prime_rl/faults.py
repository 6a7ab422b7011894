"""Failures of stand-ins that tests ask for."""

from __future__ import annotations

from tests.fakes.prime_rl.generation import Generation
from tests.fakes.prime_rl.lines import Printer, raise_uncaught
from tests.fakes.prime_rl.switches import switches

_MAIN = {"orchestrator": "orchestrate", "trainer": "train", "sft": "train"}


def fail_where_asked(generation: Generation, program: str, step: int, out: Printer) -> None:
    """End the process at this step, if a switch says so."""
    requested = switches()
    place = f"{program}:{step}"
    if requested.oom_at == place:
        error = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total "
            "capacity of 79.11 GiB of which 1.50 GiB is free. Including non-PyTorch memory, this process has "
            "77.60 GiB memory in use. Of the allocated memory 74.02 GiB is allocated by PyTorch, and 2.31 "
            "GiB is reserved by PyTorch but unallocated."
        )
    elif requested.die_at == place:
        error = "RuntimeError: the test asked for this"
    else:
        return
    if generation.name != "A1":
        out.error(f"Fatal error in {_MAIN[program]}")
    raise_uncaught(error)
