"""Evaluations: requests, results, and the difference of two of them. Pure.

An evaluation asks a model `num_examples` prompts, each `rollouts_per_example` times. Its rewards are not
independent: those of one prompt are alike. So errors are computed from prompt to prompt, and two evaluations
of the same prompts are compared prompt by prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from rltui.base.values import Value
from rltui.core.experiment.actor import Actor
from rltui.core.metrics.names import cancelled_evals, find_all
from rltui.core.metrics.series import SeriesKey
from rltui.core.runs.scores import half_width

COMPONENT, SERVER = "eval", "eval-server"
"""Ids of the manual components that run the evaluator and, where need be, a server for it."""

TargetKind = Literal["now", "checkpoint", "model", "base", "sft"]
EvalVerdict = Literal["ok", "failed", "truncated", "empty"]


class EvalTarget(Value):
    kind: TargetKind = "now"
    """`now`: the newest weights, by the server of the run. `base`: the model that the training began from.
    `sft`: the result of SFT in this experiment. The others by a server of their own.
    """
    step: int | None = None
    model: str = ""
    """A folder of weights, or a name on the hub."""

    @property
    def label(self) -> str:
        """`now`, `checkpoint 20`, `base`, `sft`, or the model's name."""
        match self.kind:
            case "checkpoint":
                return f"checkpoint {self.step}"
            case "model":
                return self.model
            case _:
                return self.kind


class EvalRequest(Value):
    """The evaluation that `rltui eval run` or the dialog of the TUI requests."""

    target: EvalTarget = EvalTarget()
    env: str = ""
    """Empty: the one that the config trains on."""
    num_examples: Annotated[int, Meta(ge=1)] = 20
    rollouts_per_example: Annotated[int, Meta(ge=1)] = 3
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Limit of an answer; `None`: the config's sampling limit, else the evaluator's default."""
    arguments: tuple[str, ...] = ()
    when_done: bool = False
    """Wait until the run is done, so that the training loses nothing."""

    @property
    def rollouts(self) -> int:
        return self.num_examples * self.rollouts_per_example


class Evaluation(Value):
    """A finished evaluation: a line of `rltui eval`."""

    id: str
    """Number in its experiment: `1`, `2` …"""
    at: float
    """Time of its end."""
    experiment: str
    run: str = ""
    """Id of the run that made these weights; empty if no run of the experiment did."""
    kind: TargetKind
    label: str
    """The evaluated weights: `base`, `checkpoint 20`, `now (step 12 to 14)`, a model's name."""
    model: str = ""
    """Name or folder under which it was served."""
    step: int | None = None
    """Step of the run with these weights; for `now` during a training, the last one."""
    first_step: int | None = None
    """First step of the weights, if they changed during the evaluation."""
    env: str
    num_examples: int
    """Number of examples with answers."""
    rollouts: int
    """Number of all answers; the rates refer to it."""
    rollouts_per_example: int
    mean: float | None = None
    """Mean reward; `None` if there is none."""
    std: float | None = None
    """Standard deviation of the reward over all rollouts."""
    stderr: float | None = None
    """Standard error of the mean, by examples; `None` for fewer than two."""
    truncated_frac: float = 0.0
    failed_frac: float = 0.0
    input_tokens: int | None = None
    """Tokens of the longest prompt, or of a whole conversation if it has turns."""
    verdict: EvalVerdict
    words: str = ""
    results: str = ""
    """Folder with its samples."""
    seconds: float = 0.0
    command: tuple[str, ...] = ()
    rewards: dict[str, float] = field(default_factory=dict)
    """Hash of the prompt, the same in every evaluation, → mean reward of the example."""

    @property
    def reward_text(self) -> str:
        """`0.812 ± 0.021`, by the standard error; empty if there is no mean."""
        error = "" if self.stderr is None else f" ± {self.stderr:.3f}"
        return "" if self.mean is None else f"{self.mean:.3f}{error}"

    @property
    def is_sound(self) -> bool:
        """It has a mean that says something about the model."""
        return self.verdict == "ok" and self.mean is not None


class QueuedEval(Value):
    id: str
    request: EvalRequest
    by: str = "you"
    """Requester: `you`, `eval_every`."""
    actor: Actor | None = None
    """Who requested it, or gave the standing order; `None`: an earlier version wrote this."""
    at: float = 0.0
    """Time of the request."""
    state: Literal["waiting", "running"] = "waiting"
    why: str = ""
    """Reason to wait, or present activity, in words: `another evaluation`, `loading the model`."""
    env: str = ""
    started_at: float | None = None
    done: int = 0
    """Number of finished rollouts, as far as visible."""

    @property
    def label(self) -> str:
        """`checkpoint 20 on reverse-text`."""
        env = self.env or self.request.env
        return self.request.target.label + (f" on {env}" if env else "")

    @property
    def words(self) -> str:
        """State in words: `24/60 rollouts`, `waiting for 12 GiB of GPU memory`."""
        if self.state == "waiting":
            return f"waiting for {self.why}" if self.why else "waiting"
        done = f"{self.done}/{self.request.rollouts} rollouts" if self.done else ""
        return done or self.why or "running"


class TrainingEval(Value):
    """An evaluation that the programs of a run made while it trained."""

    env: str
    step: int
    mean: float | None = None
    """Mean reward; `None`: a newer checkpoint cancelled it."""


def training_evals(steps: Mapping[int, Mapping[str, float]]) -> tuple[TrainingEval, ...]:
    """Find those in the metrics of a run, by step and environment. `steps`: step → metric → value."""
    found: dict[tuple[int, str], TrainingEval] = {}
    for step in sorted(steps):
        keys = [SeriesKey("", name) for name in steps[step] if name.startswith("eval/")]
        means: dict[str, float | None] = dict.fromkeys(cancelled_evals(steps[step]))
        means |= {key.name.split("/")[1]: steps[step][key.name] for key in find_all("eval", keys)}
        found |= {(step, env): TrainingEval(env=env, step=step, mean=mean) for env, mean in means.items()}
    return tuple(found.values())


class EvalReport(Value):
    """The document that `rltui eval --json` prints."""

    experiment: str
    evaluations: tuple[Evaluation, ...] = ()
    """Finished ones, oldest first."""
    queue: tuple[QueuedEval, ...] = ()
    """The running one first, then in the order of their start."""
    every: int = 0
    """Every so many checkpoints one is evaluated; 0: none is."""
    training: tuple[TrainingEval, ...] = ()
    """The newest that the run itself made, oldest first."""


Standing = Literal["better", "worse", "undistinguishable", "other examples"]
_LEAST_PAIRS = 5
"""Number of examples from which on an interval is believed."""


class Difference(Value):
    value: float
    stderr: float | None = None
    """`None` if one of the two has none."""
    examples: int = 0
    """Number of examples compared one by one; 0: the two had different ones, so only the means were
    compared.
    """

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval around `value`, by Student's t over the examples; `None` if these are
        too few, or different ones.
        """
        if self.stderr is None or self.examples < _LEAST_PAIRS:
            return None
        return half_width(self.stderr, self.examples - 1)

    @property
    def standing(self) -> Standing:
        """Better or worse only if the same examples say so, and 0 lies outside of the interval."""
        if not self.examples:
            return "other examples"
        if self.half_width is None or abs(self.value) <= self.half_width:
            return "undistinguishable"
        return "better" if self.value > 0 else "worse"

    def document(self) -> dict[str, Any]:
        """The fields for programs, `ci95` as two bounds, and its `standing`."""
        half = self.half_width
        bounds = None if half is None else (self.value - half, self.value + half)
        return {**self.to_plain(), "ci95": bounds, "standing": self.standing}

    @property
    def words(self) -> str:
        """`+0.312 ± 0.041 ▲`, by the standard error; ▼ worse, ≈ neither; else that the examples differ."""
        error = "" if self.stderr is None else f" ± {self.stderr:.3f}"
        return f"{self.value:+.3f}{error} {_STANDINGS[self.standing]}"


_STANDINGS: dict[Standing, str] = {
    "better": "▲",
    "worse": "▼",
    "undistinguishable": "≈",
    "other examples": "(other examples)",
}


def difference(of: Evaluation, to: Evaluation) -> Difference | None:
    """Mean of the first minus mean of the second; `None` if they measure different things, or one says
    nothing of its model.

    Paired by example if the examples of one are all among those of the other: over the common ones.
    """
    if of.env != to.env or not (of.is_sound and to.is_sound) or of.mean is None or to.mean is None:
        return None
    common = of.rewards.keys() & to.rewards.keys()
    if len(common) >= 2 and len(common) == min(len(of.rewards), len(to.rewards)):
        gaps = [of.rewards[name] - to.rewards[name] for name in sorted(common)]
        mean = math.fsum(gaps) / len(gaps)
        return Difference(value=mean, stderr=_stderr([(gap, 1) for gap in gaps], mean), examples=len(gaps))
    has_errors = of.stderr is not None and to.stderr is not None
    stderr = math.hypot(of.stderr or 0.0, to.stderr or 0.0) if has_errors else None
    return Difference(value=of.mean - to.mean, stderr=stderr)


def baseline(evaluations: Sequence[Evaluation], of: Evaluation) -> Evaluation | None:
    """The default to compare it with: the newest sound one of its experiment before all training on the same
    environment, else of the result of SFT, else the oldest. `None`: there is no other.
    """
    own = [
        evaluation
        for evaluation in evaluations
        if evaluation.experiment == of.experiment and evaluation.env == of.env
    ]
    others = [evaluation for evaluation in own if evaluation.is_sound and evaluation != of]
    for kind in ("base", "sft"):
        if of.kind == kind:
            return None
        if same_kind := [evaluation for evaluation in others if evaluation.kind == kind]:
            return same_kind[-1]
    first = min(others, key=lambda evaluation: evaluation.at, default=None)
    return first if first is not None and first.at < of.at else None


class EvalStatistics(Value):
    rollouts: int = 0
    examples: int = 0
    mean: float | None = None
    std: float | None = None
    stderr: float | None = None
    truncated: int = 0
    failed: int = 0
    input_tokens: int | None = None
    rewards: dict[str, float] = field(default_factory=dict)


def statistics_of(samples: Iterable[tuple[str, float, bool, bool, int]]) -> EvalStatistics:
    """Statistics of samples: example, reward (NaN: none), truncated, failed, input tokens (-1: unknown)."""
    by_example: dict[str, list[float]] = {}
    count = truncated = failed = 0
    longest = -1
    for example, reward, is_truncated, is_failed, tokens in samples:
        count += 1
        truncated += is_truncated
        failed += is_failed
        longest = max(longest, tokens)
        if math.isfinite(reward):
            by_example.setdefault(example, []).append(reward)
    values = [reward for rewards in by_example.values() for reward in rewards]
    counts = EvalStatistics(
        rollouts=count,
        examples=len(by_example),
        truncated=truncated,
        failed=failed,
        input_tokens=longest if longest >= 0 else None,
    )
    if not values:
        return counts
    mean = math.fsum(values) / len(values)
    means = {example: math.fsum(rewards) / len(rewards) for example, rewards in by_example.items()}
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    stderr = _stderr([(means[example], len(rewards)) for example, rewards in by_example.items()], mean)
    return counts.replace(mean=mean, std=std, stderr=stderr, rewards=means)


def _stderr(examples: Sequence[tuple[float, int]], mean: float) -> float | None:
    """Standard error of the mean of all rollouts, from the mean of each example and its number of
    rollouts.
    """
    count = len(examples)
    if count < 2:
        return None
    total = sum(size for _, size in examples)
    squares = math.fsum((size / total * (value - mean)) ** 2 for value, size in examples)
    return math.sqrt(squares * count / (count - 1))


_MOST_FRAC = 0.5
"""Share of failed or missing rollouts above which the mean says nothing of the model."""
_NEARLY_ALL_FRAC = 0.9
"""The same for truncated ones; a model that often rambles, as base models do, is still compared."""


def verdict(
    stats: EvalStatistics, request: EvalRequest, evaluator_error: str = ""
) -> tuple[EvalVerdict, str]:
    """The worth of the results, and the reason in words. `evaluator_error`: how the evaluator failed, if it
    did.
    """
    if not stats.rollouts:
        return (
            "empty",
            f"no results: {evaluator_error}"
            if evaluator_error
            else "ended without an error, but left no results",
        )
    clauses = [evaluator_error] if evaluator_error else []
    problems = ((stats.failed, "failed"), (stats.truncated, "were cut off"))
    clauses += [f"{count} of {stats.rollouts} rollouts {problem}" for count, problem in problems if count]
    missing = request.rollouts - stats.rollouts
    if missing > 0:
        clauses.append(f"only {stats.rollouts} of {request.rollouts} rollouts finished")
    text = "; ".join(clauses)
    if stats.failed >= _MOST_FRAC * stats.rollouts or stats.mean is None:
        return "failed", text or "no rollout has a reward"
    if missing > _MOST_FRAC * request.rollouts and evaluator_error:
        return "failed", text
    if stats.truncated >= _MOST_FRAC * stats.rollouts:
        text = f"{text}; raise --max-tokens"
    return "truncated" if stats.truncated >= _NEARLY_ALL_FRAC * stats.rollouts else "ok", text


def refusal(max_tokens: int | None, context: int | None, prompt: int | None) -> str:
    """Reason why answers of `max_tokens` cannot fit a context of so many tokens after a prompt of so many;
    empty if they may.
    """
    if max_tokens is None or context is None:
        return ""
    if max_tokens >= context:
        return f"answers of {max_tokens} tokens leave no room for a prompt in a context of {context} tokens"
    if prompt is not None and prompt + max_tokens > context:
        return (
            f"a prompt of {prompt} tokens and an answer of {max_tokens} do not fit in a context of {context}"
        )
    return ""
