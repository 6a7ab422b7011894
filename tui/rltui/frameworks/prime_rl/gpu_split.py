"""Which devices inference and trainer get: contiguous as prime-rl's launcher has it, shared if one is all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.template import Missing, TemplateValue


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """Devices of the two, named as in `CUDA_VISIBLE_DEVICES`; both empty where no GPU is known."""

    inference: tuple[str, ...] = ()
    trainer: tuple[str, ...] = ()
    fault: Missing | None = None
    """Why the devices of this box do not do."""

    @property
    def is_shared(self) -> bool:
        """They have a device in common."""
        return not set(self.inference).isdisjoint(self.trainer)

    def value(self, component: str) -> TemplateValue:
        """What a layout's `{gpus.<component>}` stands for."""
        if self.fault is not None:
            return self.fault
        return ",".join(self.trainer if component == "trainer" else self.inference)


def contiguous(devices: Sequence[str], *, inference: int, trainer: int) -> GpuSplit:
    """The first devices for inference, the next for the trainer.

    On a box with one, both get it: what prime-rl's own launcher refuses from 2026 on.
    """
    wanted = inference + trainer
    if not devices:
        return GpuSplit()
    if wanted <= len(devices):
        return GpuSplit(tuple(devices[:inference]), tuple(devices[inference:wanted]))
    if len(devices) == 1 and inference <= 1 and trainer == 1:
        return GpuSplit(tuple(devices[:inference]), tuple(devices))
    have = f"{len(devices)} GPU{'' if len(devices) == 1 else 's'}"
    return GpuSplit(
        fault=Missing(
            f"the config asks for {wanted} GPUs ({inference} for inference, {trainer} for the trainer), "
            f"and {have} can be used here",
            hint="lower the numbers of GPUs in the config, or make more visible with CUDA_VISIBLE_DEVICES",
        )
    )


def by_number(devices: Sequence[str], inference: Sequence[int], trainer: Sequence[int]) -> GpuSplit:
    """The devices that the config numbers itself; the lists may overlap."""
    if not devices:
        return GpuSplit()
    return GpuSplit(tuple(map(str, inference)), tuple(map(str, trainer)))
