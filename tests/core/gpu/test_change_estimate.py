"""Memory of components, guessed from a device's changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.shares import RELEASE_UPDATES, ChangeEstimate, Tenant

TOTAL = 80
BEGIN = 1000.0
ENGINE = Tenant("inference", 1, started_at=BEGIN + 10, utilization=0.5)
TRAINER = Tenant("trainer", 1, started_at=BEGIN + 20)

tenants = st.builds(
    Tenant,
    st.sampled_from(["inference", "trainer", "judge"]),
    st.integers(1, 3),
    is_starting=st.booleans(),
    started_at=st.none() | st.floats(BEGIN - 100, BEGIN + 100),
    utilization=st.none() | st.floats(0, 1),
)
living = st.lists(tenants, max_size=3, unique_by=lambda tenant: tenant.component)
updates = st.lists(st.tuples(st.integers(0, TOTAL), living), max_size=40)


def watch(*steps: tuple[int, list[Tenant]], estimate: ChangeEstimate | None = None) -> dict[str, int]:
    """What is estimated after the last step."""
    watched = estimate or ChangeEstimate(since=BEGIN)
    held: dict[str, int] = {}
    for used_bytes, present in steps:
        held = watched.update(used_bytes, present, usable_bytes=TOTAL)
    return held


@given(updates)
def test_estimates_are_possible(steps: list[tuple[int, list[Tenant]]]) -> None:
    estimate = ChangeEstimate(since=BEGIN)
    for used_bytes, present in steps:
        held = watch((used_bytes, present), estimate=estimate)
        assert set(held) == {tenant.component for tenant in present}
        assert all(size >= 0 for size in held.values())
        assert sum(held.values()) <= used_bytes


@given(st.integers(0, 30), st.lists(st.integers(0, TOTAL), min_size=1))
def test_one_tenant_has_what_was_not_there_before_it(before: int, readings: list[int]) -> None:
    """As long as the rest of the device stays as it is."""
    held = watch((before, []), *[(before + reading, [TRAINER]) for reading in readings])
    assert held == {"trainer": readings[-1]}


def test_growth_is_the_youngest_tenants() -> None:
    assert watch((5, []), (6, [ENGINE]), (45, [ENGINE]), (57, [ENGINE, TRAINER])) == {
        "inference": 40,
        "trainer": 12,
    }


def test_growth_is_the_starting_tenants_before_a_younger_ready_one() -> None:
    starting = Tenant("inference", 1, is_starting=True, started_at=BEGIN + 10)
    assert watch((0, []), (10, [starting, TRAINER])) == {"inference": 10, "trainer": 0}


def test_of_equal_age_the_last_one_grows() -> None:
    first, second = Tenant("a", 1), Tenant("b", 1)
    assert watch((0, []), (10, [first, second])) == {"a": 0, "b": 10}


def test_fall_is_the_ended_tenants_also_some_updates_later() -> None:
    steps = [(5, []), (45, [ENGINE]), (60, [ENGINE, TRAINER])]
    assert watch(*steps, (60, [TRAINER]), (59, [TRAINER]), (20, [TRAINER])) == {"trainer": 15}
    assert watch(*steps, (18, [TRAINER])) == {"trainer": 13}


def test_fall_is_the_youngest_tenants_as_far_as_it_has_something() -> None:
    steps = [(5, []), (45, [ENGINE]), (60, [ENGINE, TRAINER])]
    assert watch(*steps, (50, [ENGINE, TRAINER])) == {"inference": 40, "trainer": 5}
    assert watch(*steps, (40, [ENGINE, TRAINER])) == {"inference": 35, "trainer": 0}
    assert watch(*steps, (2, [ENGINE, TRAINER])) == {"inference": 0, "trainer": 0}


def test_memory_that_an_ended_tenant_keeps_is_nobodys_in_the_end() -> None:
    steps = [(5, []), (45, [ENGINE]), (60, [ENGINE, TRAINER])]
    waiting = [(60, [TRAINER])] * RELEASE_UPDATES
    assert watch(*steps, *waiting, (50, [TRAINER])) == {"trainer": 15}
    assert watch(*steps, *waiting, (60, [TRAINER]), (50, [TRAINER])) == {"trainer": 5}


def test_successor_starts_with_nothing_while_the_ended_gives_back() -> None:
    again = Tenant("inference", 2, is_starting=True, started_at=BEGIN + 60)
    steps = [(5, []), (45, [ENGINE]), (45, [])]
    assert watch(*steps, (46, [again])) == {"inference": 1}
    assert watch(*steps, (46, [again]), (6, [again]), (30, [again])) == {"inference": 25}


def test_restart_between_two_updates_hands_over() -> None:
    again = Tenant("inference", 2, is_starting=True, started_at=BEGIN + 60)
    assert watch((5, []), (45, [ENGINE]), (45, [again])) == {"inference": 40}
    assert watch((5, []), (45, [ENGINE]), (25, [again])) == {"inference": 20}


def test_adopted_engine_holds_its_share_and_others_the_rest() -> None:
    engine = Tenant("inference", 1, started_at=BEGIN - 10, utilization=0.5)
    trainer, judge = Tenant("trainer", 1, started_at=BEGIN - 5), Tenant("judge", 1, started_at=BEGIN - 5)
    assert watch((70, [engine, trainer])) == {"inference": 40, "trainer": 30}
    assert watch((70, [engine, trainer, judge])) == {"inference": 40, "trainer": 15, "judge": 15}
    assert watch((30, [engine, trainer])) == {"inference": 30, "trainer": 0}
    assert watch((70, [engine])) == {"inference": 40}
    assert watch((70, [engine]), (72, [engine])) == {"inference": 42}


def test_tenant_adopted_after_the_first_update_gets_nobodys_memory() -> None:
    engine = Tenant("inference", 1, started_at=BEGIN - 10, utilization=0.5)
    assert watch((70, []), (71, [engine])) == {"inference": 41}


def test_tenant_started_under_the_watch_gets_nothing_that_was_there() -> None:
    assert watch((50, [TRAINER])) == {"trainer": 0}
    assert watch((50, [Tenant("trainer", 1)])) == {"trainer": 0}
