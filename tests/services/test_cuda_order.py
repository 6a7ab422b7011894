"""CUDA's order of devices, asked of a C double of the driver's library."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.fakes.cuda.double import environment, environment_without_driver

from rltui.services.cuda_order import fastest_first

UUIDS = ("GPU-f932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-00112233-4455-6677-8899-aabbccddeeff")


def wear(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("old", [False, True], ids=["today", "before-11.4"])
def test_uuids_come_in_cudas_own_order(monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
    wear(monkeypatch, environment(UUIDS, old=old))
    assert fastest_first() == UUIDS


def test_own_environment_does_not_narrow_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    wear(monkeypatch, environment(UUIDS) | {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert fastest_first() == UUIDS


def test_no_device_is_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    wear(monkeypatch, environment(()))
    assert fastest_first() == ()


def test_driver_that_refuses_is_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    wear(monkeypatch, environment(UUIDS, init="999"))
    assert fastest_first() == ()


def test_machine_without_driver_is_no_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wear(monkeypatch, environment_without_driver(tmp_path))
    assert fastest_first() == ()


def test_driver_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    wear(monkeypatch, environment(UUIDS, init="hang"))
    before = time.monotonic()
    assert fastest_first(timeout_s=0.3) == ()
    assert time.monotonic() - before < 5
