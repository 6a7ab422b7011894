"""`rltui wait` on runs that have ended: it answers from their files."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine
from tests.fakes.past_run import write_finished_run

from rltui.cli import main
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import AgentProposal
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.proposals import Proposals, save_proposals


@pytest.fixture
def answer(own_user: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a wait for the run `two` says; it has done 12 steps, `one` has failed."""
    write_finished_run(tmp_path / "out" / "two", steps=12)
    write_finished_run(tmp_path / "out" / "one", steps=12, code=1)

    def ask(*arguments: str, code: int) -> dict[str, Any]:
        assert main(["wait", *arguments]) == code
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert document["reached"] is (code == 0)
        return document

    return ask


def test_what_is_true_already_ends_at_once(answer: Any) -> None:
    assert answer("two", "--until", "settled", code=0)["reason"]["code"] == "reached"
    assert answer("one", "--until", "failed", code=0)["state"] == "failed"
    assert answer("two", "--until", "step>=12 and reward>1", code=0)["reason"]["text"] == (
        "step>=12: 12 and reward>1: 1.2"
    )
    assert answer("two", "--until", "done", "--until", "loss/mean<1", code=0)["step"] == 12


def test_what_can_no_longer_be_ends_at_once(answer: Any) -> None:
    late = answer("two", "--until", "step>=13", code=1)
    assert (late["reason"]["code"], late["step"], late["until"]) == ("run_ended", 12, "step>=13")
    assert "at step 12" in late["reason"]["text"]
    failed = answer("one", "--until", "done", code=5)
    assert (failed["reason"]["code"], failed["run"]) == ("run_failed", "one")
    assert answer("one", "two", "--until", "settled", code=0)["run"] in ("one", "two")


def test_a_proposal_for_a_run_that_has_ended_may_still_be_answered(answer: Any, tmp_path: Path) -> None:
    control = ControlFolder(tmp_path / "out" / "two").path
    by = Actor(kind="agent", user="ada", name="night-1", pid=1)
    proposal = AgentProposal(id="p1", verb="start", text="start", by=by, at=1.8e9)
    save_proposals(control, Proposals(proposals=(proposal,)))
    late = answer("two", "--until", "proposal:p1", "--timeout", "0.4", code=1)
    assert late["reason"]["code"] == "timeout"
    declined = proposal.replace(state="declined", word="not tonight")
    threading.Timer(0.3, save_proposals, (control, Proposals(proposals=(declined,)))).start()
    said = answer("two", "--until", "proposal:p1 or step>=99", "--timeout", "20", code=0)
    assert said["reason"]["text"] == "proposal:p1 declined: not tonight"
    assert answer("two", "--until", "step>=99 and proposal:p1", code=1)["reason"]["code"] == "run_ended"


def test_names_that_nobody_has_are_refused(answer: Any, cli: CommandLine) -> None:
    for arguments, words in (
        ((), "--until is missing"),
        (("--until", "rewrd>0.9"), "did you mean reward?"),
        (("--until", "alert:crsh"), "did you mean crash?"),
        (("--until", "done", "--since", "events@1.2"), "no event at the cursor"),
        (("--until", "proposal:p7"), "unknown proposal: p7"),
        (("three", "--until", "done"), "run not found: three"),
    ):
        assert words in cli("wait", "two", *arguments, code=2)
