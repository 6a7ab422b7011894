from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rltui.core.experiment.gpu_use import GpuUser, OpenAttempt, gpu_seconds

NIGHT = {"kind": "agent", "user": "ada", "name": "night-1", "pid": 7}
ADA = {"kind": "cli", "user": "ada", "name": "", "pid": 8}
AGENT, PERSON = GpuUser("night-1", is_agent=True), GpuUser("ada", is_agent=False)


def entry(at: float, kind: str, component: str = "trainer", gpus: int = 0, by: Any = None) -> dict[str, Any]:
    data = {"gpus": gpus} if gpus else {}
    return {"at": at, "kind": kind, "text": "", "component": component, "attempt": 1, "data": data, "by": by}


def test_an_attempt_counts_for_who_started_it_times_its_devices() -> None:
    entries = [
        entry(10, "start", gpus=2, by=NIGHT),
        entry(12, "start", "inference", gpus=1, by=ADA),
        entry(13, "start", "orchestrator", by=NIGHT),
        entry(14, "ready", gpus=2, by=NIGHT),
        entry(20, "exit", by=ADA),
        entry(30, "start", gpus=2, by=ADA),
        entry(31, "start", gpus=1, by=NIGHT),  # nobody saw the end of the one before
        entry(40, "exit"),
        entry(41, "exit"),
        {"at": 50, "kind": "note", "text": "x", "data": None},
    ]
    ends: list[tuple[OpenAttempt, float]] = []

    def end_of(attempt: OpenAttempt, latest: float) -> float:
        ends.append((attempt, latest))
        return 62.0

    assert gpu_seconds(entries, end_of) == {AGENT: 2 * 10 + 9, PERSON: 2 * 1 + 50}
    assert ends == [(OpenAttempt("inference", 1, 12), 50)]


entries = st.builds(
    entry, st.floats(0, 1e9), st.sampled_from(["start", "exit", "ready"]), st.sampled_from(["a", "b"]),
    st.integers(-1, 8), st.sampled_from([NIGHT, ADA, None, "ada", {}]),
)  # fmt: skip


@given(st.lists(entries, max_size=12))
def test_no_journal_gives_time_back(journal: list[dict[str, Any]]) -> None:
    assert all(seconds >= 0 for seconds in gpu_seconds(journal, lambda _, latest: latest).values())
