from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rltui.core.gpu.report import GpuDevice, GpuReport, GpuReservation
from rltui.core.gpu.reservations import contention, with_claims
from rltui.services.gpu.reservations import ReservationFiles, release_devices, reserve_devices
from rltui.services.processes import ProcessId, read_process_id

GIB = 1 << 30
CARDS = tuple(
    GpuDevice(index=number, uuid=f"GPU-{number}", total_bytes=80 * GIB, free_bytes=80 * GIB)
    for number in range(2)
)
READ = GpuReport(available=True, devices=CARDS)


def claim(experiment: str, size: int = 30) -> GpuReservation:
    return GpuReservation(experiment=experiment, component="trainer", device="/GPU-0", size_bytes=size * GIB)


def test_of_many_that_claim_at_once_only_those_get_it_that_fit(tmp_path: Path) -> None:
    def take(number: int) -> bool:
        mine = [claim(f"run-{number}")]

        def decide(others: tuple[GpuReservation, ...]) -> Collection[GpuReservation] | None:
            return mine if contention(with_claims(CARDS, others), mine) is None else None

        return ReservationFiles(f"run-{number}", tmp_path / "claims").change(decide) is not None

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(take, range(12))) == 2
    assert len(ReservationFiles("another", tmp_path / "claims").others()) == 2


def test_a_claim_ends_with_all_who_have_it(own_user: Path) -> None:
    ours = ReservationFiles("a")
    ours.change(lambda others: [claim("a")])
    file = own_user / "state/rltui/gpu_claims/a"
    assert file.stat().st_mode & 0o777 == 0o600
    assert ReservationFiles("").others() == (claim("a"),)
    assert ReservationFiles("a").others() == ()
    kept = json.loads(file.read_text())

    def written(**changes: object) -> tuple[GpuReservation, ...]:
        file.write_text(json.dumps(kept | changes))
        return ReservationFiles("").others()

    gone = {"pid": kept["pid"], "start": kept["start"] - 1}
    assert written(**gone) == (), "the pid is another's now"
    assert written(**gone, boot="another boot") == ()
    assert written(boot=kept["boot"].split()[0] + " pid:[1]") == (claim("a"),), "in another container"
    assert written(boot=kept["boot"].split()[0] + " pid:[1]", at=1.0) == ()
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as user:
        identity = read_process_id(user.pid)
        assert identity is not None
        ours.keep([claim("a")], users=[identity])
        kept = json.loads(file.read_text())
        assert written(**gone) == (claim("a"),), "its component lives"
        assert user.stdin is not None
        user.stdin.close()
    assert ReservationFiles("").others() == ()
    assert ours.own() == (claim("a"),)
    ReservationFiles("b").change(lambda others: None)
    assert ours.own() == (), "others may count on it by now"
    file.write_text("{")
    assert (ReservationFiles("").others(), ours.own()) == ((), ())
    ours.keep(())
    assert not file.exists()
    ours.keep([claim("a")], users=[ProcessId(os.getpid(), 0)])
    assert ReservationFiles("").others() == (claim("a"),)


@pytest.mark.usefixtures("own_user")
def test_devices_are_reserved_until_the_experiment_claims_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")

    def reserved(experiment: str, count: int) -> tuple[str, ...]:
        free = reserve_devices(experiment, READ, count, 40 * GIB)
        return tuple(device.as_choice for device in free.devices[:count])

    assert reserved("a", 2) == ("1", "0")
    release_devices("a")
    assert reserved("a", 1) == ("1",)
    assert reserved("b", 1) == ("0",)
    refused = reserve_devices("c", READ, 1, 40 * GIB)
    assert refused.devices == ()
    claimants = [(item.device.as_choice, item.reason, item.experiments) for item in refused.unavailable]
    assert claimants == [("1", "reserved", ("a",)), ("0", "reserved", ("b",))]
    release_devices("a")
    assert reserved("c", 1) == ("1",)
    release_devices("c")
    ReservationFiles("b").change(lambda others: [claim("b")])
    release_devices("b")
    assert reserved("c", 2) == ("1",), "b has claimed by itself"
    assert {reservation.experiment for reservation in ReservationFiles("").others()} == {"b"}
    assert reserve_devices("c", GpuReport(available=False, reason="no"), 1, 0).devices == ()
