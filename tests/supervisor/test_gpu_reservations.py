"""A supervisor reserves GPU memory for its components, waits for others, and releases it again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.report import GpuDevice, GpuReport, GpuReservation, GpuShare
from rltui.services.gpu.reservations import ReservationFiles
from rltui.supervisor.gpu.reservations import ReservationManager

GIB = 1 << 30
SIZES = {"inference": 50, "trainer": 20, "other": 0}


class Reservations(ReservationManager):
    """The reservations of an experiment on one device of 80 GiB; `inference` is an engine."""

    def __init__(self, name: str) -> None:
        self.lives = dict.fromkeys(SIZES, "waiting")
        self.runners = {
            item: SimpleNamespace(record=None, lifecycle=Lifecycle(kind="job", restart=cast(Any, None)))
            for item in SIZES
        }
        self.readings = SimpleNamespace(newest=GpuReport(available=True, devices=(device(),)))
        self.steps = 0
        memory = SimpleNamespace(needs=self._needs, is_engine=lambda item, _: item == "inference")
        store = SimpleNamespace(files={})
        super().__init__(
            name,
            cast(Any, self.runners),
            cast(Any, store),
            cast(Any, memory),
            cast(Any, self.readings),
            lambda: self.steps,
        )
        self.are(ComponentState.WAITING, *SIZES)

    def are(self, state: ComponentState, *names: str, epoch: int = 1) -> None:
        for name in names:
            lifecycle = Lifecycle(kind="job", restart=cast(Any, None), state=state, epoch=epoch)
            self.runners[name].lifecycle = lifecycle

    def _needs(
        self, devices: Sequence[GpuDevice], files: object, *, starts: Collection[str]
    ) -> list[GpuReservation]:
        return [
            GpuReservation(experiment="", component=name, device=devices[0].key, size_bytes=SIZES[name] * GIB)
            for name in starts
        ]

    async def asks(self, component: str) -> str:
        """The obstacle to its start; empty: there is none."""
        unmet = await self.reserve(component, ())
        return "" if unmet is None else f"{unmet.text}{'' if unmet.passes else ' for long'}"


def device(**used_bytes: int) -> GpuDevice:
    shares = tuple(
        GpuShare(owner="experiment", experiment=name, component="inference", used_bytes=size * GIB)
        for name, size in used_bytes.items()
    )
    used = sum(used_bytes.values())
    return GpuDevice(index=0, uuid="GPU-0", total_bytes=80 * GIB, free_bytes=(80 - used) * GIB, shares=shares)


def claimed(name: str) -> set[str]:
    return {claim.component for claim in ReservationFiles(name).own()}


@pytest.mark.usefixtures("own_user")
async def test_all_that_a_plan_starts_is_claimed_at_once_and_given_back_piece_by_piece() -> None:
    a, b = Reservations("a"), Reservations("b")
    assert await a.asks("inference") == ""
    assert claimed("a") == set(SIZES), "the trainer's is kept for it"
    assert await a.asks("trainer") == ""
    text = "GPU 0: needs 70.0 GiB, 80.0 GiB free; 70.0 GiB reserved for a, which is starting"
    assert [await b.asks("inference"), await b.asks("trainer")] == [text] * 2
    assert claimed("b") == set()

    a.are(ComponentState.READY, "inference")
    a.are(ComponentState.STARTING, "trainer")
    a.are(ComponentState.FAILED, "other")
    a.release_finished()
    assert claimed("a") == {"trainer"}
    b.readings.newest = GpuReport(available=True, devices=(device(a=50),))
    assert "20.0 GiB reserved for a" in await b.asks("inference")
    a.are(ComponentState.READY, "trainer")
    for completed, remaining in ((1, {"trainer"}), (2, {"trainer"}), (3, set())):
        a.steps = completed
        a.release_finished()
        assert claimed("a") == remaining, "in two steps it has its peak"

    # It waits on while the other holds what it took; who only begins now has been told, and starts.
    assert await b.asks("inference") == ("GPU 0: needs 70.0 GiB, 30.0 GiB free, 50.0 GiB held by a for long")
    b.are(ComponentState.WAITING, *SIZES, epoch=2)
    assert await b.asks("inference") == ""


@pytest.mark.usefixtures("own_user")
async def test_the_next_supervisor_goes_on_with_claims_of_what_still_starts() -> None:
    killed = Reservations("a")
    assert await killed.asks("inference") == ""
    after = Reservations("a")
    after.are(ComponentState.STARTING, "inference")
    after.are(ComponentState.STOPPED, "other")
    after.adopt()
    assert claimed("a") == {"inference", "trainer"}
    assert await after.asks("trainer") == "", "it keeps its turn"


async def test_without_a_place_for_claims_it_starts_all_the_same(
    own_user: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Reservations("a")
    (own_user / "state/rltui").mkdir()
    (own_user / "state/rltui/gpu_claims").write_text("")
    assert await desk.asks("inference") == ""
    assert "starts without a claim on GPU memory" in caplog.text
    desk.readings.newest = GpuReport(available=False)
    assert await desk.asks("trainer") == ""
