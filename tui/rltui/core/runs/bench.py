"""A bench: trials of one change each, compared with the best config so far by more than its noise. Pure.

A trial runs once; if that beats the mean of the best by more than the noise of one run, it is repeated with
the other seeds, and if still unclear, both are repeated as often again. It is kept if the 95 % interval of
the difference, widened for the number of trials of the bench, is above 0: so all trials together keep nothing
by chance in 95 % of benches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rltui.base.text import count_text, duration, format_number, join_words
from rltui.base.times import parse_span
from rltui.base.values import Value
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.request import ExperimentRequest
from rltui.core.runs.queue import LaunchEnvironment, QueueOptions
from rltui.core.runs.scores import ScoreVerdict, compare_scores
from rltui.errors import UsageError

EVAL = "eval.reward"
"""The metric of an evaluation that the bench makes at the end of each run."""
LEAST_SEEDS = 3
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}\Z"
"""Its runs are named after it."""
_LOOKS = 2
"""A trial is judged after so many times the seeds at most."""
_OPEN_TRIALS = 20
"""Trials that share one half of the chance of a false keep, where the budget names no number; the next ones
share a quarter, and so on."""
_BUDGET = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>trials?|gpu-hours?|gpu-h)")

TrialState = Literal["waiting", "running", "baseline", "kept", "set aside", "crashed", "stopped", "void"]
"""`stopped`: somebody, a rule or a limit ended it, or it was taken out of the queue."""


class Budget(Value):
    """When a bench ends at the latest; `None`: no such limit."""

    trials: int | None = None
    gpu_s: float | None = None
    wall_s: float | None = None

    @property
    def text(self) -> str:
        return join_words(
            [
                *([count_text(self.trials, "trial")] if self.trials is not None else []),
                *([f"{self.gpu_s / 3600:g} GPU hours"] if self.gpu_s is not None else []),
                *([duration(self.wall_s)] if self.wall_s is not None else []),
            ]
        )


def parse_budget(text: str) -> Budget:
    """Read `20 trials`, `8 gpu-hours`, `3 h`, or several with commas between them.

    Raises:
        UsageError: if it is none, or names nothing above 0.
    """
    budget = Budget()
    for part in text.split(","):
        match = _BUDGET.fullmatch(part.strip())
        span = parse_span(part.replace(" ", "")) if match is None else None
        amount = float(match["amount"]) if match is not None else span or 0.0
        is_number = match is not None and match["unit"].startswith("trial")
        if not 0 < amount < math.inf or (is_number and not amount.is_integer()):
            raise UsageError(f"not a budget: {text}", hint="'20 trials', '8 gpu-hours', '3 h'; or several")
        if is_number:
            budget = budget.replace(trials=int(amount))
        elif match is not None:
            budget = budget.replace(gpu_s=amount * 3600)
        else:
            budget = budget.replace(wall_s=amount)
    return budget


class BenchRun(Value):
    """One run of a trial."""

    entry: str
    """Id of its entry in the queue."""
    seed: int
    """Number of its seed: 0 is that of the config, 1 the next …"""
    state: Literal["planned", "queued", "ended"] = "planned"
    """`planned`: it may not be in the queue yet."""
    run: str = ""
    """Id of the run, once it is known."""
    name: str = ""
    score: float | None = None
    is_stopped: bool = False
    """It has no score, and that is no crash."""
    why: str = ""
    """Reason why it has no score, or cannot be queued now, in words."""
    wall_s: float = 0.0
    gpu_s: float = 0.0


def change_text(edits: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in edits.items())


class BenchTrial(Value):
    """A change, its runs and what came of it. The first one is the baseline, which changes nothing."""

    number: int
    edits: dict[str, str] = msgspec.field(default_factory=dict)
    """Knob name → value, on top of the trial that it is built on."""
    by: Actor
    """The actor that added it, with the reason."""
    base: int = 0
    """Number of the trial that was the best when it began, which it is built on and compared with."""
    state: TrialState = "waiting"
    why: str = ""
    """The verdict in words, or what it waits for."""
    runs: tuple[BenchRun, ...] = ()
    verdict: ScoreVerdict | None = None
    """Against its base; the interval is widened for the number of trials."""
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """Protected file → its fingerprint when the trial began."""

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(run.score for run in self.runs if run.score is not None)

    @property
    def score(self) -> float | None:
        return fmean(self.scores) if self.scores else None

    @property
    def wall_s(self) -> float:
        return math.fsum(run.wall_s for run in self.runs)

    @property
    def gpu_s(self) -> float:
        return math.fsum(run.gpu_s for run in self.runs)

    @property
    def is_over(self) -> bool:
        return self.state not in ("waiting", "running")

    @property
    def change(self) -> str:
        return change_text(self.edits) or "baseline"


class BenchTerms(Value):
    """Terms of a bench: what counts in it, and when it ends."""

    metric: str
    examples: int = 0
    """Examples of the evaluation at the end of each run; 0: none is made."""
    seeds: int = LEAST_SEEDS
    budget: Budget
    target: float | None = None
    patience: int = 0
    """It ends after so many trials in a row that taught nothing; 0: it does not."""


class Bench(BenchTerms):
    """A bench and its ledger: `rltui bench show --json`."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9]{8}\Z")]
    name: Annotated[str, Meta(pattern=NAME)]
    at: float
    by: Actor
    request: ExperimentRequest
    """Statistics of the baseline."""
    folder: str
    """Folder that the runs' output folders lie in."""
    surroundings: LaunchEnvironment
    options: QueueOptions = QueueOptions()
    better: Literal["higher", "lower"] = "higher"
    seed_key: str = ""
    """The knob that holds the seed; empty: the config has none, and runs are just repeated."""
    first_seed: int = 0
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """Protected file (grader, data, evaluation) → its fingerprint before the baseline."""
    trials: tuple[BenchTrial, ...]
    best: int = 0
    """Number of the trial that is the best so far."""
    ended: str = ""
    """Reason why it has ended, in words; empty: it has not."""
    ended_at: float | None = None

    @property
    def current(self) -> BenchTrial | None:
        """The trial that runs."""
        return next((trial for trial in self.trials if trial.state == "running"), None)

    @property
    def waiting(self) -> tuple[BenchTrial, ...]:
        return tuple(trial for trial in self.trials if trial.state == "waiting")

    @property
    def tried(self) -> tuple[BenchTrial, ...]:
        """Trials that are over and ran, without the baseline."""
        return tuple(trial for trial in self.trials[1:] if trial.is_over and trial.runs)

    @property
    def runs(self) -> Iterator[BenchRun]:
        return (run for trial in self.trials for run in trial.runs)

    @property
    def planned(self) -> tuple[BenchRun, ...]:
        """The runs that are to be put into the queue."""
        return () if self.ended else tuple(run for run in self.runs if run.state == "planned")

    @property
    def gpu_s(self) -> float:
        return math.fsum(trial.gpu_s for trial in self.trials)

    @property
    def winning_edits(self) -> dict[str, str]:
        """Everything that the best config changes of the baseline's."""
        edits: dict[str, str] = {}
        trial = self.trials[self.best]
        while trial.number:
            edits = {**trial.edits, **edits}
            trial = self.trials[trial.base]
        return edits

    @property
    def winning_change(self) -> str:
        return change_text(self.winning_edits)

    @property
    def state(self) -> Literal["planned", "running", "blocked", "idle", "ended"]:
        """`planned`: it has not begun; `blocked`: a changed file, or a limit, holds runs back; `idle`: it
        waits for trials.
        """
        if self.ended:
            return "ended"
        following = self.current or next(iter(self.waiting), None)
        if following is None:
            return "idle"
        is_under_way = any(run.state == "queued" for run in self.runs)
        if following.why and not is_under_way:
            return "blocked"
        return "running" if self.trials[0].runs else "planned"

    def with_trial(self, trial: BenchTrial) -> Bench:
        """The bench with this trial in place of the one of its number, or behind the others."""
        return self.replace(trials=(*self.trials[: trial.number], trial, *self.trials[trial.number + 1 :]))

    def with_run(self, run: BenchRun) -> Bench:
        """The bench with this run in place of the one of its entry."""
        trial = self.trial_of(run)
        runs = tuple(run if old.entry == run.entry else old for old in trial.runs)
        return self.with_trial(trial.replace(runs=runs))

    def trial_of(self, run: BenchRun) -> BenchTrial:
        return next(trial for trial in self.trials if any(old.entry == run.entry for old in trial.runs))

    def with_end(self, reason: str, why: str, now: float) -> Bench:
        """The bench after its end. `why`: what becomes of trials that are not over."""
        trials = (trial if trial.is_over else trial.replace(state="void", why=why) for trial in self.trials)
        return self.replace(trials=tuple(trials), ended=reason, ended_at=now)

    def comparisons(self, trial: BenchTrial) -> float:
        """The number of trials that share the chance of a false keep, from where this one stands."""
        if self.budget.trials is not None:
            return max(self.budget.trials, 1)
        return _OPEN_TRIALS * 2.0 ** ((trial.number - 1) // _OPEN_TRIALS + 1)


@dataclass(frozen=True, slots=True)
class BenchFacts:
    """Facts from outside the ledger."""

    now: float
    ended: Mapping[str, BenchRun] = field(default_factory=dict)
    """Entry → its run with its score or the reason why there is none, for those that have ended."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Protected file → its fingerprint now; needed once all runs have ended."""


def advance(bench: Bench, facts: BenchFacts) -> Bench:
    """The bench after what has happened.

    The same facts a second time change nothing.
    """
    if bench.ended:
        return bench
    for run in bench.runs:
        if run.state == "queued" and (ended := facts.ended.get(run.entry)) is not None:
            bench = bench.with_run(ended)
    current = bench.current
    if current is not None and all(run.state == "ended" for run in bench.runs):
        bench = _judge(bench, current, facts)
    reason = _end(bench, facts.now)
    if reason:
        return bench.with_end(reason, f"not run: {reason}", facts.now)
    if bench.current is not None or not bench.waiting:
        return bench
    following = bench.waiting[0]
    if change := changed_files(bench.files, facts.files):
        return bench.with_trial(following.replace(why=f"waits: {change} since the baseline; put it back"))
    return _start_trial(bench, following, facts)


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Describe changes of the protected files; empty: none. Only the content counts where one of the two
    has no more than that.
    """
    changes = []
    for path, fingerprint in before.items():
        content, _, moment = fingerprint.partition("@")
        content_now, _, moment_now = now.get(path, "").partition("@")
        if content != content_now:
            changes.append(f"{path} {'was changed' if content_now else 'is gone'}")
        elif moment and moment_now and moment != moment_now:
            changes.append(f"{path} was written to")
    return join_words(changes)


def _start_trial(bench: Bench, trial: BenchTrial, facts: BenchFacts) -> Bench:
    """The baseline runs with all seeds at once, a trial with the first."""
    seeds = range(1 if trial.number else bench.seeds)
    started = trial.replace(state="running", why="", base=bench.best, files=dict(facts.files))
    return _with_runs(bench.with_trial(started), trial.number, seeds)


def _with_runs(bench: Bench, number: int, seeds: range) -> Bench:
    trial = bench.trials[number]
    planned = tuple(BenchRun(entry=f"{bench.id}-{number}-{seed}", seed=seed) for seed in seeds)
    return bench.with_trial(trial.replace(runs=(*trial.runs, *planned)))


def _judge(bench: Bench, trial: BenchTrial, facts: BenchFacts) -> Bench:
    """The verdict on a trial whose runs have ended, or more runs, where they do not suffice for one."""
    if change := changed_files(trial.files, facts.files):
        return _finish(bench, trial, "void", f"{change} while it ran: its scores do not count")
    failed = next((run for run in trial.runs if run.score is None), None)
    base = bench.trials[trial.base]
    if failed is not None:
        state: TrialState = "stopped" if failed.is_stopped else "crashed"
        return _finish(bench, trial, state, f"no score: {failed.why}")
    if not trial.number:
        return _finish(bench, trial, "baseline", f"noise ± {format_number(stdev(trial.scores))}")
    # an error is on either side, and only one is a false keep: that is half a share for each of two looks
    verdict = compare_scores(
        trial.scores, base.scores, better=bench.better, comparisons=bench.comparisons(trial)
    )
    trial = trial.replace(verdict=verdict)
    gain = (verdict.diff or 0.0) * (1 if bench.better == "higher" else -1)
    count = len(trial.runs)
    if count == 1:
        noise = stdev(base.scores)
        if gain <= noise:
            sign = "better" if gain > 0 else "no better"
            reason = f"{sign} than the best, within its noise ± {format_number(noise)}"
            return _finish(bench, trial, "set aside", reason if gain > -noise else "worse than the best")
        return _with_runs(bench.with_trial(trial), trial.number, range(1, bench.seeds))
    is_flat = 0 in (stdev(trial.scores), stdev(base.scores))  # no noise is seen: by chance, of rounded scores
    may_repeat = count < _LOOKS * bench.seeds
    if verdict.verdict == "better" and not (is_flat and may_repeat):
        return _finish(
            bench.replace(best=trial.number), trial, "kept", "beats the best by more than the noise"
        )
    is_promising = compare_scores(trial.scores, base.scores, better=bench.better).verdict == "better"
    if may_repeat and is_promising:
        bench = _with_runs(bench.with_trial(trial), trial.number, range(count, _LOOKS * bench.seeds))
        return _with_runs(bench, base.number, range(len(base.runs), _LOOKS * bench.seeds))
    is_worse = verdict.verdict == "worse"
    return _finish(bench, trial, "set aside", "worse than the best" if is_worse else "no proven difference")


def _finish(bench: Bench, trial: BenchTrial, state: TrialState, why: str) -> Bench:
    return bench.with_trial(trial.replace(state=state, why=why))


def _end(bench: Bench, now: float) -> str:
    """Reason why it ends now; empty: it goes on. A trial that runs comes to its end first."""
    if bench.current is not None:
        return ""
    baseline, best, budget = bench.trials[0], bench.trials[bench.best], bench.budget
    if baseline.is_over and baseline.state != "baseline":
        return f"the baseline has no noise to compare with: {baseline.why}"
    sign = 1 if bench.better == "higher" else -1
    if bench.target is not None and best.score is not None and sign * (best.score - bench.target) >= 0:
        return f"the target is reached: {format_number(best.score)}"
    learnt = [trial.state == "kept" for trial in bench.tried]
    if bench.patience and len(learnt) >= bench.patience and not any(learnt[-bench.patience :]):
        return f"the last {count_text(bench.patience, 'trial')} taught nothing"
    is_spent = (
        (budget.trials is not None and len(learnt) >= budget.trials)
        or (budget.gpu_s is not None and bench.gpu_s >= budget.gpu_s)
        or (budget.wall_s is not None and now - bench.at >= budget.wall_s)
    )
    return f"its budget of {budget.text} is spent" if is_spent else ""
