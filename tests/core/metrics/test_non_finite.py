from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rltui.core.metrics.non_finite import NonFiniteWatch, non_finite_alerts

NAN, INF = math.nan, math.inf


def writer(row: Mapping[str, Any]) -> str | None:
    return "trainer" if "loss/mean" in row else None


def alerts(watch: NonFiniteWatch, *rows: dict[str, object]) -> list[str]:
    for row in rows:
        watch.add(row)
    return [str(item) for item in watch.take()]


def test_a_metric_is_told_once_until_it_is_finite_again() -> None:
    watch = NonFiniteWatch(writer)
    assert alerts(watch, {"step": 11, "loss/mean": 0.5}) == []
    assert alerts(watch, {"step": 12, "loss/mean": NAN}) == ["loss/mean is nan at step 12 (trainer)"]
    assert alerts(watch, {"step": 13, "loss/mean": INF}) == []
    assert alerts(watch, {"step": 14, "loss/mean": 0.4}) == []
    assert alerts(watch, {"step": 15, "loss/mean": -INF}) == ["loss/mean is -inf at step 15 (trainer)"]


def test_one_that_is_well_again_within_a_look_is_told() -> None:
    watch = NonFiniteWatch(writer)
    rows: list[dict[str, object]] = [{"step": 1, "grad": NAN}, {"step": 2, "grad": 1.0}]
    assert alerts(watch, *rows) == ["grad is nan at step 1"]
    assert watch.now == {}


def test_what_is_no_metric_is_passed_over() -> None:
    watch = NonFiniteWatch(writer)
    assert alerts(watch, {"step": 1, "time": NAN, "note": "nan", "flag": True}) == []
    assert alerts(watch, {"step": NAN, "loss/mean": NAN}) == ["loss/mean is nan (trainer)"]


def test_many_at_once_are_one_alert_per_component() -> None:
    watch = NonFiniteWatch(writer)
    watch.add({"step": 3, "reward": NAN})
    watch.add({"step": 3, "loss/mean": NAN, **{f"loss/{name}": INF for name in "abcd"}})
    first, second = non_finite_alerts(watch.take())
    assert (first.component, first.title) == (None, "a metric is not finite")
    assert (second.component, second.title) == ("trainer", "5 metrics are not finite")
    assert second.text.startswith("loss/mean is nan at step 3 (trainer), loss/a is inf at step 3 (trainer),")
    assert " and 2 more. Further training" in second.text
    assert {(alert.kind, alert.severity) for alert in (first, second)} == {("metric", "error")}
