"""`rltui demo` from its first step to what it says of itself at its end."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]


@pytest.mark.timeout(300)
def test_the_demo_ends_with_what_each_part_of_the_training_was_worth(box: Box) -> None:
    assert box.run("demo", "--quick", "--no-tui", "-o", "out", timeout_s=200).returncode == 0
    waiting = box.json("eval")
    assert [entry["request"]["target"]["kind"] for entry in waiting["queue"]] == ["base", "sft", "now"]
    assert {entry["why"] for entry in waiting["queue"]} <= {"the end of the run", ""}
    retry_until(lambda: not box.json("eval")["queue"], timeout_s=200)
    report = box.json("eval")
    base, sft, now = report["evaluations"]
    assert [entry["verdict"] for entry in (base, sft, now)] == ["ok"] * 3, report
    assert (base["mean"] < 0.2, 0.4 < sft["mean"] < 0.8, now["mean"] > 0.9) == (True, True, True)
    assert now["label"] == "now (step 200)"
    gaps = {gap["id"]: gap for gap in report["differences"]}
    assert gaps[now["id"]]["to"] == base["id"]
    assert gaps[now["id"]]["examples"] == 20
    assert gaps[now["id"]]["value"] > 10 * gaps[now["id"]]["stderr"]
    text = box.run("events").stdout
    assert text.count("the run is done") == 1
    assert box.run("down").returncode == 0
