"""Agents in a supervisor: what they do at once, what waits for a person, and what is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rltui import paths
from rltui.base.questions import questions_of
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import AgentProposal, Request
from rltui.core.experiment.questions import SupervisorApi
from rltui.core.gpu.report import GpuReport
from rltui.errors import ConflictError, UsageError
from rltui.services.actor import acting_as
from rltui.services.experiment.journal import read_journal
from rltui.services.experiment.proposals import read_proposals
from rltui.services.experiment.rights import set_pause
from rltui.services.runs.metadata import change_metadata
from rltui.supervisor.answers import SupervisorAnswers
from rltui.supervisor.supervisor import Supervisor

AGENT = Actor(kind="agent", user="ada", name="night-1", pid=1, reason="it is noisy")
PERSON = Actor(kind="cli", user="ada", pid=2)
FEWER = Request(action="set", edits={"max_steps": 10})


@pytest.fixture(autouse=True)
def without_gpus(supervisor: Supervisor) -> None:
    supervisor.runtime.gpu_readings.take(GpuReport(available=False))


def write_settings(text: str) -> None:
    paths.settings_file().parent.mkdir(parents=True, exist_ok=True)
    paths.settings_file().write_text(text)


def config(supervisor: Supervisor) -> str:
    return Path(supervisor.runtime.setup.record.config_files[0]).read_text()


async def ask(supervisor: Supervisor, who: Actor, method: str, **params: Any) -> Any:
    with acting_as(who):
        question = questions_of(SupervisorApi)[method]
        return await SupervisorAnswers(supervisor).respond(question, params)


async def propose(supervisor: Supervisor, request: Request = FEWER) -> AgentProposal:
    with pytest.raises(UsageError) as refused:
        await ask(supervisor, AGENT, "execute", **request.to_plain())
    assert refused.value.code == "needs_person"
    proposal = supervisor.status().proposals[-1]
    assert f"proposal {proposal.id}" in refused.value.title
    assert f"--until proposal:{proposal.id}" in refused.value.hint
    return proposal


async def test_a_proposal_is_kept_and_done_as_the_agents_once_a_person_accepts(
    supervisor: Supervisor,
) -> None:
    proposal = await propose(supervisor)
    assert (proposal.by, proposal.reason, proposal.params) == (AGENT, "it is noisy", {})
    assert "max_steps 20 → 10" in proposal.text
    assert proposal.plan is not None
    assert (proposal.plan.start, proposal.plan.keep) == ((), ()), "an edit alone touches no component"
    assert (await propose(supervisor)).id == proposal.id, "who asks again gets the same one"
    assert "20" in config(supervisor)
    for who, accepted in ((AGENT, True), (AGENT, False)):
        with pytest.raises(UsageError, match="for persons"):
            await ask(supervisor, who, "answer_proposal", id=proposal.id, accepted=accepted)
    await ask(supervisor, PERSON, "answer_proposal", id=proposal.id, accepted=True, word="fine")
    assert "max_steps = 10" in config(supervisor)
    control = supervisor.runtime.setup.control
    entries = read_journal(control.journal_file)
    assert [(entry.kind, entry.by) for entry in entries if entry.kind in ("proposal", "edit")] == [
        ("proposal", AGENT), ("proposal", PERSON), ("edit", AGENT),
    ]  # fmt: skip
    kept = read_proposals(control.path).proposals[0]
    assert (kept.state, kept.word, kept.answered_by) == ("accepted", "fine", PERSON)
    with pytest.raises(ConflictError, match="is accepted: fine"):
        await ask(supervisor, PERSON, "answer_proposal", id=proposal.id, accepted=False)


async def test_a_proposal_is_declined_with_a_word_or_expires_with_what_it_was_made_of(
    supervisor: Supervisor,
) -> None:
    declined = await propose(supervisor)
    await ask(supervisor, PERSON, "answer_proposal", id=declined.id, accepted=False, word="too few")
    expired = await propose(supervisor)
    assert expired.id != declined.id
    await ask(supervisor, PERSON, "execute", **FEWER.replace(edits={"max_steps": 15}).to_plain())
    with pytest.raises(ConflictError, match="the config files have changed") as stale:
        await ask(supervisor, PERSON, "answer_proposal", id=expired.id, accepted=True)
    assert stale.value.code == "stale_plan"
    assert "max_steps = 15" in config(supervisor)
    kept = read_proposals(supervisor.runtime.setup.control.path).proposals
    assert [(entry.state, entry.word) for entry in kept] == [
        ("declined", "too few"), ("expired", "the config files have changed"),
    ]  # fmt: skip


ACT = "[agents]\nrights = 'act'\n"


@pytest.mark.parametrize(
    ("settings", "own", "paused", "text"),
    [
        (ACT, "", False, ""),
        ("", "act", False, ""),
        (ACT, "look", False, "agents may only look (rights of this run)"),
        (ACT, "nonsense", False, "agents may only look (rights of this run)"),
        (ACT, "act", True, "agents may only look (agents were paused by ada at"),
        (ACT + "keys = ['seed']\n", "", False, "agents may not change max_steps ([agents] keys)"),
        (ACT + "bounds = {max_steps = [20, 30]}\n", "act", False, "max_steps=10 is outside 20 to 30"),
        (ACT + "runs = ['two']\n", "", False, "agents may not change one ([agents] runs)"),
        (ACT + "verbs = ['undo']\n", "", False, "agents may not set ([agents] verbs)"),
        (ACT + "bunds = 1\n", "act", False, "agents may only look"),
        ("[agent]\nrights = 'look'\n", "act", False, "agents may only look"),
        ("[agents\n", "act", False, "agents may only look"),
    ],
)
async def test_the_rights_of_settings_run_and_pause_decide_and_what_is_wrong_gives_none(
    supervisor: Supervisor, settings: str, own: str, paused: bool, text: str
) -> None:
    write_settings(settings)
    control = supervisor.runtime.setup.control.path
    if own:
        change_metadata(control, lambda metadata: replace(metadata, rights=own))
    with acting_as(PERSON):
        set_pause(is_paused=paused)
    if text:
        with pytest.raises(UsageError) as refused:
            await ask(supervisor, AGENT, "execute", **FEWER.to_plain())
        assert refused.value.title.startswith(text)
        code = "paused" if paused else "not_allowed"
        assert (refused.value.code, refused.value.exit_code) == (code, 2)
        assert "20" in config(supervisor)
        await ask(supervisor, PERSON, "execute", **FEWER.to_plain())
    else:
        await ask(supervisor, AGENT, "execute", **FEWER.to_plain())
    assert "max_steps = 10" in config(supervisor)


async def test_every_other_change_is_an_act_too(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("prune", {"retention": {"keep_last": 1}, "only": []}), ("evaluate", {}),
        ("cancel_eval", {"id": "1"}), ("order_evals", {"every": 1}), ("shutdown", {}),
    ]  # fmt: skip
    for method, params in calls:
        with pytest.raises(UsageError) as refused:
            await ask(supervisor, AGENT, method, **params)
        assert refused.value.code == "needs_person", method
    assert [proposal.method for proposal in supervisor.status().proposals] == [method for method, _ in calls]
    monkeypatch.delenv("HF_TOKEN", raising=False)
    await ask(supervisor, AGENT, "tokens", values={"HF_TOKEN": "of the agent"})
    assert "HF_TOKEN" not in os.environ, "before a person has accepted what it is for"
    entry = await ask(supervisor, AGENT, "note", text="hello")
    assert entry.by == AGENT
    with acting_as(AGENT), pytest.raises(UsageError, match="for persons"):
        set_pause(is_paused=False)


async def test_a_proposal_to_start_from_step_0_says_so(supervisor: Supervisor) -> None:
    proposal = await propose(supervisor, Request(action="start", components=("trainer",), resume="scratch"))
    assert "trainer from the beginning" in proposal.text
