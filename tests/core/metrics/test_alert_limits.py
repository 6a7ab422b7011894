from __future__ import annotations

import pytest

from rltui.core.experiment.api import Alert, AlertKind
from rltui.core.metrics.alert_limits import AlertLimits, severe_enough


def crash(component: str = "trainer", severity: str = "warning", kind: AlertKind = "crash") -> Alert:
    return Alert.from_plain(
        {"kind": kind, "severity": severity, "title": "it failed", "text": "exited 1", "component": component}
    )


def texts(limits: AlertLimits, *times: float, alert: Alert | None = None) -> list[str | None]:
    answers = [limits.admit(alert or crash(), at) for at in times]
    return [answer[0].text if answer else None for answer in answers]


def test_the_first_passes_and_repeats_are_counted_for_the_next() -> None:
    limits = AlertLimits(60.0)
    assert texts(limits, 0, 10, 20, 40, 59.9) == ["exited 1", None, None, None, None]
    assert limits.admit(crash(), 60.0) == (
        crash().replace(text="exited 1 (4 more like this within 59s)"),
        4,
    )
    assert texts(limits, 119, 120) == [None, "exited 1 (1 more like this within 59s)"]
    assert texts(limits, 300) == ["exited 1"], "nothing was held back since"


def test_components_and_kinds_have_counts_of_their_own() -> None:
    limits = AlertLimits(60.0)
    assert limits.admit(crash(), 0)
    assert limits.admit(crash("inference"), 1)
    assert limits.admit(crash(kind="stall"), 2)
    assert limits.admit(crash(), 3) is None


def test_notices_with_other_titles_are_other_notices() -> None:
    limits = AlertLimits(60.0)
    first = crash(kind="notice")
    assert limits.admit(first, 0)
    assert limits.admit(first.replace(title="another"), 1)
    assert limits.admit(first, 2) is None
    assert limits.admit(crash(), 3)
    assert limits.admit(crash().replace(title="it failed, starts in 4s"), 4) is None


def test_a_worse_one_passes_at_once_with_the_count() -> None:
    limits = AlertLimits(60.0)
    assert texts(limits, 0, 5) == ["exited 1", None]
    assert texts(limits, 6, 7, alert=crash(severity="error")) == [
        "exited 1 (1 more like this within 5s)",
        None,
    ]
    assert texts(limits, 8) == [None], "a milder one is no news"


@pytest.mark.parametrize("kind", ["recovered", "finished"])
def test_good_news_always_passes_and_ends_the_count(kind: AlertKind) -> None:
    limits = AlertLimits(60.0)
    texts(limits, 0, 1, 2)
    limits.admit(crash("inference"), 2)
    good = crash(severity="information", kind=kind)
    assert texts(limits, 3, 4, alert=good) == ["exited 1", "exited 1"]
    assert texts(limits, 5) == ["exited 1"], "a new trouble, without the old count"
    assert limits.admit(crash("inference"), 6) is None, "another component's trouble goes on"


def test_the_end_of_the_run_ends_every_count() -> None:
    limits = AlertLimits(60.0)
    texts(limits, 0, 1)
    assert limits.admit(
        Alert(kind="finished", severity="information", title="the run is done", text="step 20/20"), 2
    )
    assert texts(limits, 3) == ["exited 1"]


def test_zero_holds_nothing_back() -> None:
    assert texts(AlertLimits(0.0), 0, 0, 0) == ["exited 1"] * 3


@pytest.mark.parametrize(
    ("least", "titles"),
    [
        ("error", ["error"]),
        ("warning", ["error", "warning"]),
        ("information", ["error", "warning", "information"]),
    ],
)
def test_severity_decides_except_for_good_news(least: str, titles: list[str]) -> None:
    passes = severe_enough(least)
    assert [name for name in ("error", "warning", "information") if passes(crash(severity=name))] == titles
    assert passes(crash(severity="information", kind="finished"))
