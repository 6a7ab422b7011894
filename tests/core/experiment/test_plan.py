from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest

from rltui.core.experiment.api import Action, Lost, Orphan, Plan, Request
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.layout import ComponentSpec, Layout
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.plan import Situation, Times, estimate, make_plan, times_from
from rltui.core.experiment.states import ComponentState as S

LAYOUT = Layout(
    component=(
        ComponentSpec(id="sft", command=("sft",), creates="model"),
        ComponentSpec(id="inference", command=("serve",), kind="service", after=("sft",)),
        ComponentSpec(id="orchestrator", command=("orch",), after=("inference",)),
        ComponentSpec(id="trainer", command=("train",), after=("inference",)),
    )
)
RULES = (
    (frozenset({"orchestrator"}), frozenset({"trainer"}), "their step counters must agree"),
    (frozenset({"trainer"}), frozenset({"orchestrator"}), "their step counters must agree"),
    (frozenset({"inference"}), frozenset({"orchestrator", "trainer"}), "a new server has base weights"),
)
RUNNING = {"inference": S.READY, "orchestrator": S.READY, "trainer": S.READY}


def situation(states: Mapping[str, S], **changes: Any) -> Situation:
    lives = {
        spec.id: Lifecycle(kind=spec.kind, state=states.get(spec.id, S.STOPPED)) for spec in LAYOUT.component
    }
    defaults = {
        "completed_steps": 17,
        "resume_step": 10,
        "is_made": lambda name: name == "sft",
        "run_jobs": LAYOUT.run_jobs(()),
    }
    return Situation(layout=LAYOUT, lives=lives, rules=RULES, **{**defaults, **changes})


def plan(
    action: Action,
    states: Mapping[str, S],
    *components: str,
    readers: dict[str, tuple[str, ...]] | None = None,
) -> Plan:
    request = Request(action=action, components=components)
    return make_plan(request, situation(states), readers=readers or {})


def test_who_failed_with_the_one_that_is_mended_starts_with_it() -> None:
    """R9: the server's knob was mended, and the jobs that had failed for want of it stayed down."""
    down = {"inference": S.FAILED, "orchestrator": S.FAILED, "trainer": S.FAILED}
    result = plan("set", down, readers={"inference.max_model_len": ("inference",)})
    assert result.start == ("inference", "orchestrator", "trainer")
    assert "orchestrator and trainer failed after a dependency, and restart" in result.reasons
    down["inference"] = S.READY
    assert plan("set", down, readers={"x": ("trainer",)}).start == ("orchestrator", "trainer"), "one pair"


def test_knob_of_the_orchestrator_keeps_inference_warm() -> None:
    result = plan("set", RUNNING, readers={"orchestrator.batch_size": ("orchestrator",)})
    assert result.stop == ("trainer", "orchestrator")
    assert result.start == ("orchestrator", "trainer")
    assert result.keep == ("inference",)
    assert result.lost.steps == 7
    assert result.lost.resume_step == 10
    assert "orchestrator.batch_size is read by orchestrator at start" in result.reasons


def test_an_edit_may_be_meant_for_a_component_that_does_not_read_it() -> None:
    states = {"inference": S.READY, "orchestrator": S.READY, "trainer": S.FAILED}
    readers: dict[str, tuple[str, ...]] = {"inference.gpu_memory_utilization": ("inference",)}
    assert "trainer" not in plan("set", {"inference": S.READY, "trainer": S.FAILED}, readers=readers).start
    result = plan("set", states, "inference", "trainer", readers=readers)
    assert result.stop == ("orchestrator", "inference")
    assert result.start == ("inference", "orchestrator", "trainer")
    assert "trainer restarts too, as requested" in result.reasons


def test_a_failed_reader_starts_again_after_an_edit() -> None:
    states = {"inference": S.READY, "orchestrator": S.READY, "trainer": S.FAILED}
    result = plan("set", states, readers={"trainer.model.seq_len": ("trainer",)})
    assert (result.stop, result.start) == (("orchestrator",), ("orchestrator", "trainer"))
    assert result.keep == ("inference",)


def test_inference_restart_takes_the_living_rest_along() -> None:
    assert set(plan("restart", RUNNING, "inference").start) == {"inference", "orchestrator", "trainer"}
    alone = plan("restart", {"inference": S.READY}, "inference")
    assert alone.start == ("inference",)


STEPS = "because their step counters must agree"
SENTENCES: dict[str, tuple[Action, Mapping[str, S], str, tuple[str, ...]]] = {
    "restart": (
        "restart",
        RUNNING,
        "trainer",
        (f"trainer cannot restart alone: orchestrator restarts with it, {STEPS}",),
    ),
    "several": (
        "restart",
        RUNNING,
        "inference",
        (f"inference cannot restart alone: orchestrator and trainer restart with it, because {RULES[2][2]}",),
    ),
    "start": (
        "start",
        {"inference": S.READY},
        "trainer",
        (f"trainer cannot start alone: orchestrator starts with it, {STEPS}",),
    ),
    "alone": ("start", {}, "inference", ()),
    "stop": (
        "stop",
        RUNNING,
        "inference",
        ("orchestrator stops too: it needs inference", "trainer stops too: it needs inference"),
    ),
}


@pytest.mark.parametrize("case", list(SENTENCES))
def test_reasons_are_sentences(case: str) -> None:
    action, states, component, reasons = SENTENCES[case]
    assert plan(action, states, component).reasons == reasons


@pytest.mark.parametrize("one", ["orchestrator", "trainer"])
def test_partners_come_together_even_when_one_is_dead(one: str) -> None:
    result = plan("restart", {**RUNNING, "trainer": S.FAILED}, one)
    assert result.stop == ("orchestrator",)
    assert result.start == ("orchestrator", "trainer")


def test_start_pulls_in_what_is_needed_and_leaves_living_ones_alone() -> None:
    result = plan("start", {}, "trainer")
    assert result.start == ("inference", "orchestrator", "trainer")
    assert "inference starts first: trainer needs it" in result.reasons
    assert plan("start", RUNNING, "trainer").start == ()


def test_start_all_skips_the_job_whose_work_is_there() -> None:
    result = plan("start", {})
    assert "sft" not in result.start
    assert any("its output already exists" in reason for reason in result.reasons)
    fresh = make_plan(Request(action="start"), situation({}, is_made=lambda name: False), readers={})
    assert fresh.start[0] == "sft"
    assert "sft" in plan("restart", {}, "sft").start, "an explicit restart runs it again"


def test_a_dependant_that_no_rule_knows_is_told_of_a_restart() -> None:  # G10
    request = Request(action="restart", components=("inference",))
    result = make_plan(request, replace(situation(RUNNING), rules=()), readers={})
    assert result.stop == ("inference",)
    reasons = [reason for reason in result.reasons if "may fail;" in reason]
    assert [reason.partition(" ")[0] for reason in reasons] == ["orchestrator", "trainer"]
    both = Request(action="restart", components=("inference", "orchestrator", "trainer"))
    assert "may fail" not in str(make_plan(both, replace(situation(RUNNING), rules=()), readers={}).reasons)


def test_stop_takes_dependents_along_in_reverse_order() -> None:
    result = plan("stop", RUNNING, "inference")
    assert result.stop == ("trainer", "orchestrator", "inference")
    assert result.start == ()
    assert plan("stop", RUNNING, "trainer").stop == ("trainer",)


def test_edit_that_nothing_running_reads_restarts_nothing() -> None:
    states = {"inference": S.READY, "orchestrator": S.EXITED, "trainer": S.EXITED}
    result = plan("set", states, readers={"orchestrator.batch_size": ("orchestrator",)})
    assert result.stop == result.start == ()
    assert "next start" in result.reasons[0]


def test_more_steps_start_a_finished_run_again() -> None:
    """Finding P11."""
    states = {"inference": S.READY, "orchestrator": S.EXITED, "trainer": S.EXITED}
    readers: dict[str, tuple[str, ...]] = {"max_steps": ("orchestrator", "trainer")}
    request = Request(action="set")
    more = make_plan(request, situation(states, max_steps=18), readers=readers)
    assert (more.stop, more.start) == ((), ("orchestrator", "trainer"))
    assert make_plan(request, situation(states, max_steps=17), readers=readers).start == ()


def test_from_scratch_loses_everything() -> None:
    request = Request(action="restart", components=("trainer",), resume="scratch")
    result = make_plan(request, situation(RUNNING, resume_step=None), readers={})
    assert result.lost.steps == 17
    assert result.lost.resume_step is None


SIDE_JOBS = Layout(
    component=(
        *LAYOUT.component,
        ComponentSpec(id="eval", command=("eval",), after=("inference",)),
        ComponentSpec(id="notes", command=("sleep", "600")),
    )
)


def test_jobs_beside_the_run_are_not_part_of_it() -> None:
    """Finding A2: the framework's roles tell, unless required by the layout itself."""
    assert SIDE_JOBS.run_jobs({"orchestrator", "trainer"}) == {"orchestrator", "trainer"}
    assert SIDE_JOBS.run_jobs(()) == {"orchestrator", "trainer", "eval", "notes"}, "who could tell"
    spoken = (ComponentSpec(id="a", command=("a",), part_of_run=False), ComponentSpec(id="b", command=("b",)))
    assert Layout(component=spoken).run_jobs(()) == {"b"}
    launcher = ComponentSpec(id="rl", command=("rl",), launches=("inference", "trainer"))
    assert Layout(component=(launcher, *spoken)).run_jobs({"trainer"}) == {"rl"}
    second_trainer = ComponentSpec(id="train-2", command=("t",), part_of_run=True)
    assert Layout(component=(launcher, second_trainer)).run_jobs({"trainer"}) == {"rl", "train-2"}


@pytest.mark.parametrize("action", ["restart", "stop"])
def test_a_job_beside_the_run_loses_nothing_of_it(action: Action) -> None:
    """Finding A3."""
    states = {**RUNNING, "eval": S.READY}
    lives = {
        spec.id: Lifecycle(kind=spec.kind, state=states.get(spec.id, S.STOPPED))
        for spec in SIDE_JOBS.component
    }
    jobs = SIDE_JOBS.run_jobs({"orchestrator", "trainer"})
    now = replace(situation({}), layout=SIDE_JOBS, lives=lives, run_jobs=jobs, rollouts=12)
    assert make_plan(Request(action=action, components=("eval",)), now, readers={}).lost == Lost()
    result = make_plan(Request(action=action, components=("orchestrator", "trainer")), now, readers={})
    assert result.lost == Lost(steps=7, resume_step=10, rollouts=12)


LEFT = (Orphan(pid=1, start=1, component="trainer"), Orphan(pid=2, start=1, component="inference"))
STRANGERS = (Orphan(pid=3, start=1, evidence="gpu"), Orphan(pid=4, start=1, evidence="gpu"))


@pytest.mark.parametrize(
    ("request_", "pids"),
    [
        (Request(action="free"), [1, 2]),
        (Request(action="free", components=("trainer",)), [1]),
        (Request(action="free", pids=(2,)), [2]),
        (Request(action="free", pids=(4, 2)), [2, 4]),
        (Request(action="free", pids=(99,)), []),
    ],
    ids=["all", "component", "pid", "stranger", "nobody"],
)
def test_only_who_is_named_is_freed_of_those_that_are_no_leftovers(
    request_: Request, pids: list[int]
) -> None:
    result = make_plan(request_, situation(RUNNING, orphans=LEFT, foreign=STRANGERS), readers={})
    assert [orphan.pid for orphan in result.free] == pids
    assert result.keep == ("inference", "orchestrator", "trainer")


def test_a_restart_ends_leftovers_and_no_strangers() -> None:
    request = Request(action="restart", components=("trainer",))
    result = make_plan(request, situation(RUNNING, orphans=LEFT, foreign=STRANGERS), readers={})
    assert [orphan.pid for orphan in result.free] == [1]


@pytest.mark.parametrize(
    ("completed", "resume_step", "joins"),
    [(17, None, True), (17, 10, False), (0, None, False)],
    ids=["begins anew", "resumes", "first start"],
)
def test_rules_for_a_new_beginning_hold_only_then(
    completed: int, resume_step: int | None, joins: bool
) -> None:
    anew = ((frozenset({"orchestrator", "trainer"}), frozenset({"inference"}), "it has trained weights"),)
    facts = {"completed_steps": completed, "resume_step": resume_step, "fresh_rules": anew}
    resume: Literal["latest", "scratch"] = "latest" if resume_step else "scratch"
    request = Request(action="restart", components=("trainer",), resume=resume)
    result = make_plan(request, situation(RUNNING, **facts), readers={})
    assert ("inference" in result.stop) == joins
    assert any("trained weights" in reason for reason in result.reasons) == joins


TIMES = {
    "inference": Times(start_s=40, stop_s=3),
    "orchestrator": Times(start_s=2, stop_s=1),
    "trainer": Times(start_s=9, stop_s=4),
}


def entry(kind: str, component: str, **data: object) -> JournalEntry:
    return JournalEntry(at=0, kind=kind, text="", component=component, data=data)


def test_stops_and_starts_overlap_as_far_as_they_need_each_other() -> None:
    everything = ("trainer", "orchestrator", "inference")
    assert estimate(everything, tuple(reversed(everything)), LAYOUT, TIMES) == 4 + 3 + 40 + 9
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


def test_a_manual_component_is_in_no_restart_set() -> None:
    by_hand = ComponentSpec(id="eval", command=("eval",), after=("inference",), start="manual")
    layout = Layout(component=(*LAYOUT.component, by_hand))
    assert "eval" not in layout.run_jobs(())
    lives = {
        spec.id: Lifecycle(kind=spec.kind, state={**RUNNING, "eval": S.READY}.get(spec.id, S.STOPPED))
        for spec in layout.component
    }
    everywhere = replace(situation(RUNNING), layout=layout, lives=lives)
    readers = {"lr": ["inference", "orchestrator", "trainer", "eval"]}
    edited = make_plan(Request(action="set", edits={"lr": 1}, restart=True), everywhere, readers=readers)
    assert "eval" not in edited.stop
    again = make_plan(Request(action="restart"), everywhere, readers={})
    assert "eval" in again.keep
    assert "eval" not in again.start
    assert "eval" in make_plan(Request(action="stop"), everywhere, readers={}).stop, "down ends it"
    own = make_plan(Request(action="restart", components=("eval",)), everywhere, readers={})
    assert (own.stop, own.start, own.lost.steps) == (("eval",), ("eval",), 0)
