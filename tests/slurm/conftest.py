"""One SLURM for all tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.conftest import Box, temporary_box
from tests.slurm.rig import Rig, made_rig, missing


@pytest.fixture(scope="session")
def cluster() -> Iterator[Rig]:
    if lacking := missing():
        pytest.skip(f"no SLURM here (apt-get install slurm-wlm): there is no {', '.join(lacking)}")
    with made_rig() as rig:
        yield rig


@pytest.fixture
def rig(cluster: Rig) -> Iterator[Rig]:
    """Without jobs, and with its controller up."""
    yield cluster
    cluster.clear()


@pytest.fixture
def cluster_box(rig: Rig) -> Iterator[Box]:
    """From which jobs are submitted there."""
    with temporary_box() as box:
        yield replace(box, env={**box.env, **rig.env})
