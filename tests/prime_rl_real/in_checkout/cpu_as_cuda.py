"""What prime-rl's trainers ask of CUDA, answered on a CPU. Imported by them: `on_cpu.py` sees to that."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

_GIB = 2**30


class Stream:
    """A stream on which everything is done at once."""

    def synchronize(self) -> None:
        """Nothing is under way."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing is under way."""


def _returns(value: Any) -> Any:
    return lambda *arguments, **named: value


ANSWERS = {
    **dict.fromkeys(("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats")),
    "current_device": 0,
    "current_stream": Stream(),
    "get_device_capability": (8, 0),
    "get_device_name": "CPU",
    "max_memory_allocated": _GIB,
    "max_memory_reserved": _GIB,
    "mem_get_info": (20 * _GIB, 24 * _GIB),
}


def stand_in() -> None:
    """Answer in the place of `torch.cuda`, and connect processes by gloo."""
    connect = dist.init_process_group
    for name, value in ANSWERS.items():
        setattr(torch.cuda, name, _returns(value))
    torch.Tensor.cuda = lambda tensor, *arguments, **named: tensor
    dist.init_process_group = lambda timeout, **named: connect("gloo", timeout=timeout)


if not torch.cuda.is_available():
    stand_in()
