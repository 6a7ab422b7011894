"""Memory that a supervised trainer will need of a device before it ever ran, and what to lower. Pure.

A rough estimate: weights, gradients and the optimizer's state, and what grows with the tokens of a micro-
batch (`facts/prime-rl.md`, Memory of the trainer).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rltui.base.text import gib

_BYTES_PER_PARAMETER = 16
"""Weights, gradients and two moments of Adam, each in 32 bits."""
_LOGITS_BYTES = 10
"""Bytes per token and vocabulary entry: in 16 bits, in 32, and their gradient or logarithm."""
_LEAST_LENGTH = 512
"""Shorter examples are hardly worth training on."""
_FAR_OFF = 1.5
"""Multiple of the free memory beyond which no refinement of the estimate makes it fit."""


@dataclass(frozen=True, slots=True)
class Training:
    """The values of a config that decide about the memory of a supervised trainer."""

    component: str
    model: str | None
    """Folder, relative to the workspace, or name on the hub."""
    micro_batch: int
    """Examples at once, on each device."""
    seq_len: int
    """Tokens of each example."""
    batch: int
    """Examples of one device per step: `micro_batch` divides it."""
    micro_batch_knob: str
    seq_len_knob: str
    processes: int = 1
    """Devices that share weights, gradients and the optimizer's state."""
    recomputes: bool = False
    """Activations of a layer are computed again instead of stored."""
    is_full: bool = True
    """All weights are trained, and all is stored on the device: no LoRA, no offload to the machine's memory.
    """

    @property
    def tokens(self) -> int:
        return self.micro_batch * self.seq_len


@dataclass(frozen=True, slots=True)
class TrainingShape:
    """Sizes in a model's files that decide about the memory of its training."""

    parameters: int
    layers: int
    layer_bytes_per_token: int
    """Activations stored of one layer, in 16 bits."""
    hidden: int
    vocabulary: int

    def bytes_per_token(self, *, recomputes: bool) -> int:
        """Memory that each token of a micro-batch adds."""
        recomputed_bytes = self.layers * 2 * self.hidden + self.layer_bytes_per_token
        layers = recomputed_bytes if recomputes else self.layers * self.layer_bytes_per_token
        return layers + _LOGITS_BYTES * self.vocabulary


@dataclass(frozen=True, slots=True)
class TrainingNeed:
    """A config and, if its model is at hand, the sizes of that model."""

    training: Training
    shape: TrainingShape | None = None

    def estimate_bytes(self, training: Training | None = None) -> int | None:
        """Need of this config, or of another one of the same model; `None` if unknown."""
        config, shape, fixed = training or self.training, self.shape, self._fixed_bytes()
        if shape is None or fixed is None:
            return None
        return fixed + shape.bytes_per_token(recomputes=config.recomputes) * config.tokens

    def scaled_bytes(self, training: Training, peak_bytes: int) -> int | None:
        """Need with another micro-batch, if with this one it took `peak_bytes`."""
        fixed = self._fixed_bytes()
        if fixed is None:
            return None
        return fixed + max(0, peak_bytes - fixed) * training.tokens // self.training.tokens

    def _fixed_bytes(self) -> int | None:
        if self.shape is None or not self.training.is_full:
            return None
        return _BYTES_PER_PARAMETER * self.shape.parameters // max(1, self.training.processes)

    def is_far_too_much(self, free_bytes: int) -> bool:
        needed = self.estimate_bytes()
        return needed is not None and needed > _FAR_OFF * free_bytes

    def sizes(self) -> str:
        """`4 × 4096 tokens at once`."""
        return f"{self.training.micro_batch} × {self.training.seq_len} tokens at once"

    def ladder(self) -> tuple[Training, ...]:
        """This config made smaller step by step: the micro-batch first, which leaves the batch as large."""
        return tuple(_smaller(self.training))

    def advice(self, free_bytes: int, peak_bytes: int | None = None) -> str:
        """Edits that make it fit into `free_bytes`, else the whole ladder; empty if nothing can be lowered.

        `peak_bytes`: memory it took with this config, if that was seen.
        """
        rungs = self.ladder()
        for rung in rungs:
            needed = self.estimate_bytes(rung) if peak_bytes is None else self.scaled_bytes(rung, peak_bytes)
            if needed is not None and needed <= free_bytes:
                return f"{self._edits(rung)} (about {gib(needed)} GiB)"
        # `data.micro_batch_size 4 → 2 → 1, then data.seq_len 4096 → 2048 → 1024`
        clauses = []
        for knob, values in (
            (self.training.micro_batch_knob, [training.micro_batch for training in (self.training, *rungs)]),
            (self.training.seq_len_knob, [training.seq_len for training in (self.training, *rungs)]),
        ):
            different = list(dict.fromkeys(values))
            if len(different) > 1:
                clauses.append(f"{knob} {' → '.join(map(str, different))}")
        return f"lower {', then '.join(clauses)}" if clauses else ""

    def _edits(self, rung: Training) -> str:
        edits = [
            f"{knob} = {new}"
            for knob, old, new in (
                (self.training.micro_batch_knob, self.training.micro_batch, rung.micro_batch),
                (self.training.seq_len_knob, self.training.seq_len, rung.seq_len),
            )
            if old != new
        ]
        return f"write {' and '.join(edits)}"


def _smaller(training: Training) -> Iterator[Training]:
    """Each micro-batch divides the batch; examples are halved last, since longer ones are cut."""
    while training.micro_batch > 1:
        below = range(training.micro_batch // 2, 0, -1)
        training = replace(training, micro_batch=next(n for n in below if training.batch % n == 0))
        yield training
    while training.seq_len // 2 >= _LEAST_LENGTH:
        training = replace(training, seq_len=training.seq_len // 2)
        yield training
