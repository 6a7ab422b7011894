from __future__ import annotations

import time

from rltui.core.hosts.time_limit import CheckpointTime, lost_at_limit

AT = time.mktime((2026, 11, 23, 16, 0, 0, 0, 0, -1))
TWO = (CheckpointTime(10, AT), CheckpointTime(20, AT + 60))


def test_limit_before_the_next_checkpoint_is_told_with_what_it_costs() -> None:
    assert lost_at_limit(TWO, max_steps=200, ends_at=AT + 100) == (
        "its time limit ends at 16:01:40, before checkpoint 30 (expected at 16:02:00): all steps after"
        " checkpoint 20 will be lost"
    )


def test_nothing_is_told_where_nothing_is_lost_or_known() -> None:
    assert lost_at_limit(TWO, max_steps=200, ends_at=AT + 130) is None
    assert lost_at_limit(TWO[:1], max_steps=200, ends_at=AT + 61) is None
    assert lost_at_limit(TWO, max_steps=20, ends_at=AT + 61) is None
    # the last steps of a run are fewer than an interval
    assert lost_at_limit(TWO, max_steps=25, ends_at=AT + 95) is None
    assert lost_at_limit(TWO, max_steps=25, ends_at=AT + 85) is not None


def test_after_the_last_checkpoint_of_a_run_no_other_is_lost() -> None:
    assert lost_at_limit(TWO, max_steps=20, ends_at=AT + 59) is None
