"""What a supervisor has in hand, as the next one finds it."""

from __future__ import annotations

import time

import pytest

from rltui.core.lifecycle import Lifecycle
from rltui.services.runs.intent import intent_of


def test_failures_are_kept_by_the_clock_that_outlives_a_supervisor() -> None:
    life = Lifecycle(kind="job", failures=(time.monotonic() - 60.0, time.monotonic()))
    intent = intent_of({"trainer": life, "other": Lifecycle(kind="job")}, None, None, None)
    assert intent.failed_at == {"trainer": pytest.approx((time.time() - 60.0, time.time()), abs=1.5)}
