"""The checkout of the tests, made once and used again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.prime_rl_real.make_checkout import VARIABLE, checkout_of


@pytest.fixture(scope="session")
def checkout() -> Path:
    source = os.environ.get(VARIABLE)
    if source is None:
        pytest.skip(f"{VARIABLE} names no prime-rl: see tests/prime_rl_real/make_checkout.py")
    return checkout_of(source)


@pytest.fixture
def real(box: Box, checkout: Path) -> Box:
    """A box beside the checkout, whose programs are allowed to run."""
    use_checkout(box, checkout)
    return box


def use_checkout(box: Box, checkout: Path) -> None:
    box.env.update(
        RLTUI_PRIME_RL=str(checkout),
        UV_NO_SYNC="1",
        HF_HUB_OFFLINE="1",
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
    )
    assert box.run("trust", str(checkout)).returncode == 0
