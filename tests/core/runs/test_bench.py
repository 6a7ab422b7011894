"""The decisions of a bench, by simulated scores."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rltui.core.experiment.actor import Actor
from rltui.core.experiment.request import ExperimentRequest
from rltui.core.runs.bench import (
    Bench,
    BenchFacts,
    BenchRun,
    BenchTrial,
    Budget,
    advance,
    changed_files,
    parse_budget,
)
from rltui.core.runs.queue import LaunchEnvironment
from rltui.errors import UsageError

ADA = Actor(kind="cli", user="ada", pid=1)
Draw = Callable[[Bench, int], float | None]
"""Score of a run of the trial of that number."""


def bench(trials: int, budget: Budget | None = None, fields: dict[str, Any] | None = None) -> Bench:
    return Bench(
        id="abcdefgh",
        name="b",
        at=0.0,
        by=ADA,
        request=ExperimentRequest(),
        folder="/outputs/b",
        surroundings=LaunchEnvironment(cwd="/"),
        metric="reward",
        budget=budget or Budget(trials=max(trials, 1)),
        trials=tuple(
            BenchTrial(number=n, edits={"k": str(n)} if n else {}, by=ADA) for n in range(trials + 1)
        ),
    ).replace(**(fields or {}))


def facts(ended: dict[str, BenchRun] | None = None, **files: str) -> BenchFacts:
    return BenchFacts(now=1.0, ended=ended or {}, files=files)


def queued(state: Bench) -> Bench:
    for run in state.runs:
        if run.state == "planned":
            state = state.with_run(run.replace(state="queued"))
    return state


def results(state: Bench, draw: Draw) -> dict[str, BenchRun]:
    return {
        run.entry: run.replace(state="ended", score=draw(state, int(run.entry.split("-")[1])), why="it died")
        for run in state.runs
        if run.state == "queued"
    }


def run_out(state: Bench, draw: Draw) -> Bench:
    """The bench once nothing is left to do."""
    while (after := queued(advance(state, facts()))) != state:
        state = advance(after, facts(results(after, draw)))
    return state


def effect_of(state: Bench, number: int, effects: dict[int, float]) -> float:
    """Sum over the trial and those that it is built on."""
    total, trial = 0.0, state.trials[number]
    while trial.number:
        total, trial = total + effects.get(trial.number, 0.0), state.trials[trial.base]
    return total


def steady(**effects: float) -> Draw:
    """Scores around 0.5 with a deviation of 0.01, and what each trial adds."""
    rng = random.Random(0)
    by_number = {int(name[1:]): value for name, value in effects.items()}
    return lambda state, number: 0.5 + effect_of(state, number, by_number) + rng.gauss(0, 0.01)


def test_a_gain_is_kept_and_later_trials_build_on_it() -> None:
    done = run_out(bench(4), steady(t2=0.2, t3=-0.1, t4=0.2))
    assert [trial.state for trial in done.trials] == ["baseline", "set aside", "kept", "set aside", "kept"]
    assert (done.best, done.trials[4].base, done.winning_edits) == (4, 2, {"k": "4"})
    assert "budget of 4 trials" in done.ended


def test_the_same_facts_a_second_time_change_nothing() -> None:
    """Killed at any point, whoever comes next plans the same entries."""
    state = bench(2)
    while (after := advance(state, facts())) != state:
        assert advance(after, facts()) == after
        state = queued(after)
        ended = results(state, steady(t1=0.2))
        assert advance(advance(state, facts(ended)), facts(ended)) == advance(state, facts(ended))
        state = queued(advance(state, facts(ended)))
    entries = [run.entry for run in state.runs]
    assert len(set(entries)) == len(entries)


def test_a_crash_is_no_score_and_no_end() -> None:
    draw = steady(t2=0.2)
    done = run_out(bench(2), lambda state, number: None if number == 1 else draw(state, number))
    assert [trial.state for trial in done.trials] == ["baseline", "crashed", "kept"]
    assert "it died" in done.trials[1].why


def test_a_run_that_somebody_or_a_limit_ends_is_no_crash() -> None:
    state = queued(advance(bench(1), facts()))
    state = queued(advance(state, facts(results(state, steady()))))
    (run,) = state.trials[1].runs
    ended = run.replace(state="ended", is_stopped=True, why="stopped: the GPU hours are used up")
    done = advance(state, facts({run.entry: ended}))
    assert (done.trials[1].state, done.trials[1].score) == ("stopped", None)
    assert "GPU hours" in done.trials[1].why


def test_nothing_is_queued_for_a_bench_that_was_stopped() -> None:
    state = advance(bench(1), facts())
    stopped = state.with_end("stopped by ada", "stopped by ada", 1.0)
    assert (len(state.planned), stopped.planned) == (3, ())
    assert [trial.state for trial in stopped.trials] == ["void", "void"]


def test_a_baseline_that_crashes_ends_the_bench() -> None:
    done = run_out(bench(2), lambda *_: None)
    assert "baseline" in done.ended
    assert [trial.state for trial in done.trials] == ["crashed", "void", "void"]
    assert done.tried == ()


@pytest.mark.parametrize(
    ("files", "word"),
    [({"grader": "b@2"}, "was changed"), ({"grader": "a@2"}, "was written to"), ({"grader": ""}, "is gone")],
)
def test_a_grader_that_changes_voids_the_trial(files: dict[str, str], word: str) -> None:
    state = queued(advance(bench(1, fields={"files": {"grader": "a"}}), facts(grader="a@1")))
    state = advance(state, facts(results(state, steady()), grader="a@1"))
    state = queued(state)
    done = advance(state, facts(results(state, steady(t1=0.2)), **files))
    assert done.trials[1].state == "void"
    assert word in done.trials[1].why


def test_nothing_starts_while_the_grader_differs_from_the_baseline() -> None:
    state = queued(advance(bench(1, fields={"files": {"grader": "a"}}), facts(grader="a@1")))
    state = advance(state, facts(results(state, steady()), grader="b@2"))
    assert state.trials[0].state == "void"  # it ran meanwhile
    state = bench(1, fields={"files": {"grader": "a"}})
    assert advance(state, facts(grader="b@2")).state == "blocked"
    assert advance(advance(state, facts(grader="b@2")), facts(grader="a@3")).state == "running"


def test_only_the_content_counts_where_a_time_is_missing() -> None:
    assert changed_files({"x": "a"}, {"x": "a@2"}) == ""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"target": 0.6}, "the target is reached"),
        ({"patience": 2}, "the last 2 trials taught nothing"),
        ({"budget": Budget(wall_s=0.5)}, "budget"),
    ],
)
def test_it_ends(fields: dict[str, Any], reason: str) -> None:
    effects = {"t1": 0.2} if "target" in fields else {}
    done = run_out(bench(5, fields=fields), steady(**effects))
    assert reason in done.ended
    assert any(trial.why == f"not run: {done.ended}" for trial in done.trials)


def test_without_trials_it_waits_for_some() -> None:
    assert run_out(bench(0, Budget(trials=3)), steady()).state == "idle"


def test_budgets() -> None:
    assert parse_budget("20 trials, 8 gpu-hours,3 h") == Budget(trials=20, gpu_s=28800.0, wall_s=10800.0)
    for text in ("", "0 trials", "many", "1.5 trials", "-3 h"):
        with pytest.raises(UsageError, match="not a budget"):
            parse_budget(text)


DRAWS: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda rng: rng.gauss(0.5, 0.1),
    "skewed": lambda rng: rng.lognormvariate(0, 1),
    "collapsing": lambda rng: rng.gauss(0.9, 0.01) if rng.random() > 0.2 else rng.gauss(0.1, 0.02),
    "rounded": lambda rng: round(rng.gauss(0.9, 0.01), 2),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("budget", [None, Budget(gpu_s=1.0)], ids=["20 trials", "no number of trials"])
@pytest.mark.parametrize("name", DRAWS)
def test_nothing_is_kept_by_chance(name: str, budget: Budget | None) -> None:
    """Of 1,000 benches of 20 trials that change nothing at most 5 % keep one."""
    false_keeps = 0
    for seed in range(1000):
        rng = random.Random(seed)
        done = run_out(bench(20, budget), lambda *_, rng=rng: DRAWS[name](rng))
        false_keeps += any(trial.state == "kept" for trial in done.trials)
    assert false_keeps <= 50, false_keeps


@pytest.mark.slow
def test_a_large_effect_is_found() -> None:
    """Of twelve trials the one that adds six deviations, in 95 of 100 benches."""
    found = 0
    for seed in range(100):
        rng = random.Random(seed)
        best = rng.randrange(1, 13)

        def draw(state: Bench, number: int, rng: random.Random = rng, best: int = best) -> float:
            return 0.5 + effect_of(state, number, {best: 0.6}) + rng.gauss(0, 0.1)

        found += run_out(bench(12), draw).trials[best].state == "kept"
    assert found >= 95, found
