"""Which device is meant, also while it cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rltui.core.gpu.report import GpuDevice
from rltui.services.nvml_errors import NOT_LISTED


@dataclass(frozen=True, slots=True)
class Identity:
    """Names a GPU or a MIG slice. Texts are empty where the driver does not give them."""

    index: int
    mig: int | None = None
    """Number of the slice within its GPU; `None` for a whole GPU."""
    uuid: str = ""
    name: str = ""


def problem_row(identity: Identity, problem: str) -> GpuDevice:
    """A device of which there are no figures."""
    return GpuDevice(
        index=identity.index, mig=identity.mig, uuid=identity.uuid, name=identity.name, problem=problem
    )


class Roll:
    """Every GPU that was ever listed, so that none vanishes without a word.

    Outlives NVML sessions: a new one counts anew, and may leave out a GPU that fell off the bus.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Identity] = {}

    def expected(self, count: int) -> tuple[Identity, ...]:
        """Who the `count` listed GPUs probably are: as before, unless their number is another."""
        seen = {identity.index: identity for identity in self._seen.values()}
        known = seen if len(seen) == count else {}
        return tuple(known.get(index, Identity(index)) for index in range(count))

    def missing_rows(self, listed: Iterable[Identity]) -> tuple[GpuDevice, ...]:
        """One for each GPU that was listed earlier and is not any more. Remembers those that are."""
        present = {identity.uuid: identity for identity in listed if identity.uuid}
        gone = [identity for uuid, identity in self._seen.items() if uuid not in present]
        self._seen |= present
        return tuple(problem_row(identity, NOT_LISTED) for identity in gone)
