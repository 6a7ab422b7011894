from __future__ import annotations

from rltui.core.api import JournalEntry
from rltui.core.layout import ComponentSpec, Layout
from rltui.core.plan import Times, estimate, times_from

LAYOUT = Layout(
    component=(
        ComponentSpec(id="inference", command=("serve",), kind="service"),
        ComponentSpec(id="orchestrator", command=("orch",), after=("inference",)),
        ComponentSpec(id="trainer", command=("train",), after=("inference",)),
    )
)
TIMES = {
    "inference": Times(start_s=40, stop_s=3),
    "orchestrator": Times(start_s=2, stop_s=1),
    "trainer": Times(start_s=9, stop_s=4),
}


def entry(kind: str, component: str, **data: object) -> JournalEntry:
    return JournalEntry(at=0, kind=kind, text="", component=component, data=data)


def test_stops_add_up_and_starts_overlap() -> None:
    everything = ("trainer", "orchestrator", "inference")
    assert estimate(everything, tuple(reversed(everything)), LAYOUT, TIMES) == 8 + 40 + 9
    assert estimate(("trainer",), ("trainer",), LAYOUT, TIMES) == 4 + 9


def test_what_was_never_timed_has_no_estimate() -> None:
    assert estimate((), ("trainer",), LAYOUT, {}) is None
    assert estimate(("trainer",), ("inference",), LAYOUT, {**TIMES, "trainer": Times(start_s=1)}) is None
    assert estimate((), (), LAYOUT, TIMES) is None


def test_medians_come_from_the_newest_starts_and_stops() -> None:
    journal = [entry("ready", "trainer", took_s=took) for took in (100.0, 5.0, 6.0, 7.0, 8.0, 60.0)]
    journal += [entry("exit", "trainer", took_s=2.0, stopped=True), entry("ready", "inference")]
    journal += [
        entry("start", "trainer", pid=1),
        JournalEntry(at=0, kind="plan", text="", data={"took_s": 1}),
    ]
    assert times_from(journal) == {"trainer": Times(start_s=7.0, stop_s=2.0)}
