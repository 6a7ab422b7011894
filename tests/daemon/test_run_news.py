from __future__ import annotations

import pytest

from rltui.core.api import Progress
from rltui.daemon.events import done_alert, keeper_alert, stall_alert


def test_a_stall_warns_with_its_evidence_and_its_end_informs() -> None:
    stalled, recovered = stall_alert("trainer", "no output for 5m"), stall_alert("trainer", None)
    assert (stalled.kind, stalled.severity, stalled.text) == ("stall", "warning", "no output for 5m")
    assert (recovered.kind, recovered.severity) == ("recovered", "information")
    assert recovered.component == "trainer"


def test_a_killed_shim_is_told_with_the_pid_that_goes_on() -> None:
    alert = keeper_alert("trainer", 4711)
    assert alert.component == "trainer"
    assert "pid 4711" in alert.text


@pytest.mark.parametrize(
    ("reward", "text"), [(None, "step 20/20"), (0.5, "step 20/20, reward 0.500")], ids=["none", "reward"]
)
def test_the_end_of_a_run_names_its_reward_if_there_is_one(reward: float | None, text: str) -> None:
    assert done_alert(Progress(step=20, max_steps=20, reward=reward)).text == text
