"""A machine that is looked at, and one connection to it for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fakes.machine import Machine, machine_with_runs, opened

from rltui.client.transports.ssh import HostLink


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return machine_with_runs(tmp_path_factory.mktemp("box"))


@pytest.fixture(scope="session")
def link(machine: Machine) -> Iterator[HostLink]:
    with opened(machine) as up:
        yield up
