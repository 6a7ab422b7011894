"""Evaluations: what is asked, what came out, how two of them differ. Pure.

An evaluation asks a model `num_examples` prompts, each `rollouts_per_example` times. Its rewards are not
independent: those of one prompt are alike. So errors are reckoned from prompt to prompt, and two evaluations
that asked the same prompts are compared prompt by prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from rltui.core.values import Value

COMPONENT, SERVER = "eval", "eval-server"
"""Ids of the manual components that run the evaluator and, where need be, a server for it."""

TargetKind = Literal["now", "checkpoint", "model", "base", "sft"]
Verdict = Literal["ok", "failed", "truncated", "empty"]


class EvalTarget(Value):
    kind: TargetKind = "now"
    """`now`: the newest weights, by the server of the run. `base`: what the training began from. `sft`: what
    the SFT of this experiment made. The others by a server of their own."""
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
    """`rltui eval`, and the dialog in the TUI."""

    target: EvalTarget = EvalTarget()
    env: str = ""
    """Empty: the one that the config trains on."""
    num_examples: int = Field(default=20, ge=1)
    rollouts_per_example: int = Field(default=3, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """Of an answer; `None`: what the config samples with, else what the evaluator thinks right."""
    arguments: tuple[str, ...] = ()
    when_done: bool = False
    """Not before the run is done: it takes nothing from the training."""

    @property
    def rollouts(self) -> int:
        return self.num_examples * self.rollouts_per_example


class Evaluation(Value):
    """One that has ended: a line of `rltui evals`."""

    id: str
    """`1`, `2` … in its experiment."""
    at: float
    """When it ended."""
    experiment: str
    run: str = ""
    """Id of the run whose weights these were; empty for those that no run of the experiment made."""
    kind: TargetKind
    label: str
    """What was evaluated: `base`, `checkpoint 20`, `now (step 12 to 14)`, a model's name."""
    model: str = ""
    """Under which name, or from which folder, it was served."""
    step: int | None = None
    """Of the run, that the weights are of; of `now` during a training, the last one."""
    first_step: int | None = None
    """Where the weights changed while it went on: the step that it began with."""
    env: str
    num_examples: int
    """That have answers."""
    rollouts: int
    """All answers; that is what the rates are of."""
    rollouts_per_example: int
    mean: float | None = None
    """Of the reward; `None` where there is none."""
    std: float | None = None
    """Of the reward, over all rollouts."""
    stderr: float | None = None
    """Of the mean, by examples; `None` for fewer than two."""
    truncated_frac: float = 0.0
    failed_frac: float = 0.0
    input_tokens: int | None = None
    """Of the longest prompt, or of a whole conversation where it has turns."""
    verdict: Verdict
    words: str = ""
    results: str = ""
    """Folder with its samples."""
    seconds: float = 0.0
    command: tuple[str, ...] = ()
    rewards: dict[str, float] = Field(default_factory=dict)
    """Mean reward by example: a digest of the prompt, the same in every evaluation."""

    @property
    def reward_text(self) -> str:
        """`0.812 ± 0.021`, by the standard error; empty where there is no mean."""
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
    """Who asked: `you`, `eval_every`."""
    at: float = 0.0
    """When it was asked for."""
    state: Literal["waiting", "running"] = "waiting"
    why: str = ""
    """What it waits for, or is about, in words: `another evaluation`, `loading the model`."""
    env: str = ""
    started_at: float | None = None
    done: int = 0
    """Rollouts that it has finished, as far as that can be seen."""

    @property
    def label(self) -> str:
        """`checkpoint 20 on reverse-text`."""
        env = self.env or self.request.env
        return self.request.target.label + (f" on {env}" if env else "")

    @property
    def words(self) -> str:
        """`24/60 rollouts`, `waiting for 12 GiB of GPU memory`."""
        if self.state == "waiting":
            return f"waiting for {self.why}" if self.why else "waiting"
        done = f"{self.done}/{self.request.rollouts} rollouts" if self.done else ""
        return done or self.why or "running"


class EvalReport(Value):
    """`rltui evals --json`."""

    experiment: str
    evaluations: tuple[Evaluation, ...] = ()
    """Those that have ended, oldest first."""
    queue: tuple[QueuedEval, ...] = ()
    """The running one first, then in the order they will run."""
    every: int = 0
    """Every so many checkpoints one is evaluated; 0: none is."""


Standing = Literal["better", "worse", "undistinguishable", "other examples"]
_LEAST_PAIRS = 5
"""Examples, from which on an interval is believed."""
_Z = 1.959964
"""Of a normal distribution, 95 % lies so many standard deviations around its mean."""


class Difference(Value):
    value: float
    stderr: float | None = None
    """`None` where one of the two has none."""
    examples: int = 0
    """Compared one by one; 0: the two have not asked the same, so only the means were."""

    @property
    def half_width(self) -> float | None:
        """Of the 95 % interval around `value`, by Student's t over the examples; `None` where these are too
        few, or others.
        """
        if self.stderr is None or self.examples < _LEAST_PAIRS:
            return None
        free = self.examples - 1
        wider = (_Z**3 + _Z) / (4 * free) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * free**2)
        return (_Z + wider) * self.stderr  # the first terms of Cornish and Fisher's expansion

    @property
    def standing(self) -> Standing:
        """Better or worse only where the same examples say so, and nothing lies within the interval."""
        if not self.examples:
            return "other examples"
        if self.half_width is None or abs(self.value) <= self.half_width:
            return "undistinguishable"
        return "better" if self.value > 0 else "worse"

    def document(self) -> dict[str, Any]:
        """For programs: its fields, `ci95` as two bounds, and its `standing`."""
        half = self.half_width
        bounds = None if half is None else (self.value - half, self.value + half)
        return {**self.model_dump(), "ci95": bounds, "standing": self.standing}

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
    """How much the mean of one is above that of the other; `None` where they measure different things, or one
    says nothing of its model.

    Paired by example where the examples of one are all among those of the other: over those both have.
    """
    if of.env != to.env or not (of.is_sound and to.is_sound) or of.mean is None or to.mean is None:
        return None
    common = of.rewards.keys() & to.rewards.keys()
    if len(common) >= 2 and len(common) == min(len(of.rewards), len(to.rewards)):
        gaps = [of.rewards[name] - to.rewards[name] for name in sorted(common)]
        mean = math.fsum(gaps) / len(gaps)
        return Difference(value=mean, stderr=_stderr([(gap, 1) for gap in gaps], mean), examples=len(gaps))
    known = of.stderr is not None and to.stderr is not None
    stderr = math.hypot(of.stderr or 0.0, to.stderr or 0.0) if known else None
    return Difference(value=of.mean - to.mean, stderr=stderr)


def baseline(evaluations: Sequence[Evaluation], of: Evaluation) -> Evaluation | None:
    """What to compare it with unless a person chose: the newest sound one of its experiment before all
    training on the same environment, else of what SFT made, else the oldest. `None`: there is no other.
    """
    own = [each for each in evaluations if each.experiment == of.experiment and each.env == of.env]
    others = [each for each in own if each.is_sound and each != of]
    for kind in ("base", "sft"):
        if of.kind == kind:
            return None
        if found := [each for each in others if each.kind == kind]:
            return found[-1]
    first = min(others, key=lambda each: each.at, default=None)
    return first if first is not None and first.at < of.at else None


class Figures(Value):
    rollouts: int = 0
    examples: int = 0
    mean: float | None = None
    std: float | None = None
    stderr: float | None = None
    truncated: int = 0
    failed: int = 0
    input_tokens: int | None = None
    rewards: dict[str, float] = Field(default_factory=dict)


def figures(samples: Iterable[tuple[str, float, bool, bool, int]]) -> Figures:
    """Of samples: which example, reward (NaN: none), truncated, failed, input tokens (-1: not told)."""
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
    known = Figures(
        rollouts=count,
        examples=len(by_example),
        truncated=truncated,
        failed=failed,
        input_tokens=longest if longest >= 0 else None,
    )
    if not values:
        return known
    mean = math.fsum(values) / len(values)
    means = {example: math.fsum(rewards) / len(rewards) for example, rewards in by_example.items()}
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    stderr = _stderr([(means[example], len(rewards)) for example, rewards in by_example.items()], mean)
    return known.model_copy(update={"mean": mean, "std": std, "stderr": stderr, "rewards": means})


def _stderr(examples: Sequence[tuple[float, int]], mean: float) -> float | None:
    """Of the mean of all rollouts, from the mean of each example and how many rollouts that is of."""
    count = len(examples)
    if count < 2:
        return None
    total = sum(size for _, size in examples)
    squares = math.fsum((size / total * (value - mean)) ** 2 for value, size in examples)
    return math.sqrt(squares * count / (count - 1))


_MOST_FRAC = 0.5
"""So many rollouts that failed or are missing, and the mean says nothing of the model."""
_NEARLY_ALL_FRAC = 0.9
"""So many that were cut off likewise; one that often rambles, as base models do, is still compared."""


def verdict(found: Figures, request: EvalRequest, ended: str = "") -> tuple[Verdict, str]:
    """What the results are worth, and why in words. `ended`: how the evaluator did, where that was badly."""
    if not found.rollouts:
        return "empty", f"no results: {ended}" if ended else "it ended without an error and left no results"
    words = [ended] if ended else []
    parts = ((found.failed, "failed"), (found.truncated, "were cut off before their end"))
    words += [f"{count} of {found.rollouts} rollouts {what}" for count, what in parts if count]
    missing = request.rollouts - found.rollouts
    if missing > 0:
        words.append(f"only {found.rollouts} of {request.rollouts} rollouts")
    told = "; ".join(words)
    if found.failed >= _MOST_FRAC * found.rollouts or found.mean is None:
        return "failed", told or "no rollout has a reward"
    if missing > _MOST_FRAC * request.rollouts and ended:
        return "failed", told
    if found.truncated >= _MOST_FRAC * found.rollouts:
        told = f"{told}: give more with --max-tokens"
    return "truncated" if found.truncated >= _NEARLY_ALL_FRAC * found.rollouts else "ok", told


def refusal(max_tokens: int | None, context: int | None, prompt: int | None) -> str:
    """Why answers of `max_tokens` cannot fit a context of so many tokens behind a prompt of so many; empty
    where they may.
    """
    if max_tokens is None or context is None:
        return ""
    if max_tokens >= context:
        return f"answers of {max_tokens} tokens leave no room for a prompt in a context of {context}"
    if prompt is not None and prompt + max_tokens > context:
        return f"a prompt of {prompt} tokens and answers of {max_tokens} do not fit a context of {context}"
    return ""
