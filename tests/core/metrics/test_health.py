"""The rules against figures made up for them, and against real runs of the embedded engine.

The recorded runs are in `tests/data/health`: rows of a trainer (t) and an orchestrator (o), with the keys of
the two head lines. How they came to be is told by `tests/tinyrl/unwell.py`.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui import settings
from rltui.core.logs.lines import plain_text
from rltui.core.metrics.health.findings import RULES, Finding, findings, health_issue_of
from rltui.core.metrics.health.rule import HealthInputs, Symptom
from rltui.core.metrics.health.thresholds import RuleId, Thresholds
from rltui.core.metrics.learning import Discard, Learning
from rltui.core.metrics.seats import with_means_of_seats
from rltui.core.metrics.tracks import RunTracks
from rltui.frameworks.prime_rl.log_lines import log_row

RUNS = Path(__file__).parents[2] / "data/health"
USUAL = Thresholds()
REWARD, ENTROPY, LOSS = "train/agg/effective/agent/reward/mean", "entropy/all/mean", "loss/mean"
GRAD, KL, TRAINABLE = "optim/grad_norm", "mismatch_kl/all/mean", "train/agg/all/agent/is_trainable/mean"
TRUNCATED, STALE = "train/agg/all/agent/is_truncated/mean", "off_policy/mean"
CLIMB = [step / 50 for step in range(50)]


def recorded(name: str) -> Iterator[dict[str, Any]]:
    """The rows, in the order they were written."""
    orchestrator, trainer, *lines = (RUNS / f"{name}.txt").read_text().splitlines()
    keys = {"o": orchestrator.split()[1:], "t": trainer.split()[1:]}
    for line in lines:
        writer, step, time, *values = line.split()
        figures_by_key = {
            key: float(value) for key, value in zip(keys[writer], values, strict=True) if value != "-"
        }
        yield {"step": int(step), "time": 1.7e9 + float(time), **figures_by_key}


def test_evaluations_that_every_checkpoint_cancels_are_told_with_the_knob() -> None:
    run = RunTracks()
    word = "evals are cancelled"

    def words() -> set[str]:
        return {finding.symptom.word for finding in findings(HealthInputs(run, USUAL))}

    for step in range(1, 13):
        run.add({"step": step, LOSS: 1.0}, 0.0)
        if step % 4 == 0:
            assert word not in words()
            run.add({"step": step, "eval/a/all/cancelled/mean": 0.5}, 0.0)
            run.add({"step": step, "eval/b/effective/agent/reward/mean": 0.5}, 0.0)
            for odd in (0.0, None, "x", math.nan):
                run.add({"step": step, "eval/c/all/cancelled/mean": odd}, 0.0)
    (finding,) = (found for found in findings(HealthInputs(run, USUAL)) if found.symptom.word == word)
    assert finding.symptom.since == 4
    run.add({"step": 16, "eval/a/effective/agent/reward/mean": 0.5}, 0.0)
    assert word not in words()


def replayed(name: str) -> dict[str, int]:
    """Word of everything that is said at any time → the step of the newest row at which it first was."""
    run, words = RunTracks(), dict[str, int]()
    for row in recorded(name):
        run.add(row, 0.0)
        for finding in findings(HealthInputs(run, USUAL)):
            words.setdefault(finding.symptom.word, row["step"])
    return words


@pytest.mark.parametrize("name", [path.stem for path in sorted(RUNS.glob("good-*.txt"))])
def test_a_good_run_of_the_demo_is_never_said_to_be_unwell(name: str) -> None:
    assert replayed(name) == {}


@pytest.mark.parametrize(
    "log", sorted((RUNS.parent / "prime_rl/logs").glob("*.log")), ids=lambda log: log.stem
)
def test_the_recorded_lines_of_prime_rl_say_what_they_say(log: Path) -> None:
    run = RunTracks(first_step=0)
    text = log.read_text()
    for line in text.splitlines():
        if (row := log_row("rl", plain_text(line))) is not None:
            run.add(row, 0.0)
    assert run.newest_step > 0
    assert [finding.rule.id for finding in findings(HealthInputs(run, USUAL))] == ["non-finite"] * (
        "Loss: nan" in text
    )


def test_there_are_eight_good_ones() -> None:
    assert len(list(RUNS.glob("good-*.txt"))) == 8


@pytest.mark.parametrize(
    ("name", "from_step", "words"),
    [
        ("lr-from-start", 1, {"KL out of range", "rollouts are cut off"}),
        ("lr-after-40", 40, {"KL out of range", "reward collapsed", "rollouts are cut off", "no signal",
                             "entropy collapsed"}),
        ("reward-one-from-start", 1, {"no signal"}),
        ("reward-one-after-40", 40, {"no signal"}),
        ("entropy-bonus-turned-after-20", 20, {"gradient spikes"}),
    ],
)  # fmt: skip
def test_an_unwell_run_is_told_within_twenty_steps(name: str, from_step: int, words: set[str]) -> None:
    first_steps = replayed(name)
    assert min(first_steps.values()) > from_step, first_steps
    assert {word for word, step in first_steps.items() if step <= from_step + 20} >= words, first_steps


def test_entropy_that_is_pressed_out_of_a_policy_is_told() -> None:
    assert set(replayed("entropy-pressed")) == {"entropy is falling"}


def test_without_a_bonus_the_engine_learns_better_and_nothing_is_said() -> None:
    assert replayed("entropy-bonus-removed") == {}


# Made up, rule by rule


def figures(**keys: Sequence[float]) -> RunTracks:
    """Steps from 1 on; `keys` are the names in capitals above, all of one length."""
    run = RunTracks()
    names = {name: globals()[name] for name in keys}
    for at, values in enumerate(zip(*keys.values(), strict=True), 1):
        row = dict(zip(names.values(), values, strict=True))
        run.add({"step": at, **{k: v for k, v in row.items() if k.startswith(("train/", "off"))}}, at)
        run.add({"step": at, "optim/lr": 1e-6, **{k: v for k, v in row.items() if k[:5] in _TRAINER}}, at)
    return run


_TRAINER = {ENTROPY[:5], LOSS[:5], GRAD[:5], KL[:5]}


def words(run: RunTracks, limits: Thresholds = USUAL, **moment: Any) -> list[str]:
    return [finding.symptom.word for finding in findings(HealthInputs(run, limits, **moment))]


def test_a_reward_that_fell_to_nothing_has_collapsed() -> None:
    rewards_before = CLIMB + [0.98] * 10
    (finding,) = findings(HealthInputs(figures(REWARD=[*rewards_before, 0.0, 0.0, 0.01, 0.0, 0.0]), USUAL))
    assert (finding.rule.id, finding.symptom.severity, finding.symptom.since) == (
        "reward-collapse",
        "error",
        61,
    )
    assert (
        finding.symptom.evidence
        == "the reward was 0.98 around step 54 and has been at most 0.01 since step 61"
    )
    assert words(figures(REWARD=rewards_before + [0.0] * 4)) == [], "not yet for sure"
    assert words(figures(REWARD=rewards_before + [0.0] * 400)) == ["reward collapsed"], "not forgotten"
    assert words(figures(REWARD=rewards_before + [0.4] * 10)) == ["reward dropped"]
    assert words(figures(REWARD=CLIMB + [0.0] * 10 + [0.9])) == [], "it is back"


def test_a_reward_below_zero_collapses_too() -> None:
    climb = [-1 + step / 50 for step in range(45)]
    assert words(figures(REWARD=[-1.0] * 8 + climb + [-0.1] * 8 + [-1.0] * 5)) == ["reward collapsed"]


def test_a_run_that_went_back_is_judged_by_what_is_left() -> None:
    run = figures(REWARD=[0.0] * 20 + [0.9] * 20 + [0.0] * 10)
    assert words(run) == ["reward collapsed"]
    run.rewind(20)
    assert words(run) == [], "back before the climb"
    for step in range(21, 31):
        run.add({"step": step, REWARD: 0.0}, 0.0)
    assert words(run) == [], "it has nothing to fall from"


def test_a_step_that_is_trained_again_means_that_the_run_went_back() -> None:
    run = figures(REWARD=[0.9] * 20 + [0.0] * 10, LOSS=[0.1] * 30)
    run.add({"step": 21, LOSS: 0.1}, 0.0)
    assert run.track("reward").steps[-1] == 21, "of a step more than the trainer the orchestrator may tell"
    assert words(run) == []


@pytest.mark.parametrize("seed", range(2))
def test_rewards_that_are_noisy_rare_or_negative_are_no_reason(seed: int) -> None:
    chance = random.Random(seed)
    noisy = [chance.gauss(0.3 + step / 1000, 0.1) for step in range(300)]
    rare = [float(chance.random() < 0.05) for _ in range(300)]
    negative = [chance.gauss(-1, 0.3) for _ in range(300)]
    bounded = [min(1.0, max(0.0, chance.gauss(step / 300, 0.2))) for step in range(300)]
    for rewards in (noisy, rare, negative, bounded, [0.0] * 100, CLIMB):
        for end in range(0, len(rewards), 17):
            assert not {*words(figures(REWARD=rewards[:end]))} - {"reward is flat"}


def test_a_reward_that_never_rises() -> None:
    chance = random.Random(0)
    flat = [chance.gauss(0.2, 0.02) for _ in range(60)]
    (finding,) = findings(HealthInputs(figures(REWARD=flat), Thresholds()))
    assert (finding.rule.id, finding.symptom.since) == ("flat", 1)
    assert "in the first 8 steps" in finding.symptom.evidence
    assert words(figures(REWARD=flat[:49])) == [], "too early to tell"
    for steps in range(50, 400, 10):
        noise = [chance.gauss(0.0, 0.05) for _ in range(steps)]
        slow = [0.2 + 0.0006 * step for step in range(steps)]
        rising = [value + more for value, more in zip(slow, noise, strict=True)]
        assert words(figures(REWARD=rising)) == [], ("it rises slowly", steps)
        assert words(figures(REWARD=[0.85 + more for more in noise])) == [], ("it is high", steps)
    noisy = [chance.gauss(0.2, 0.1) for _ in range(400)]
    assert words(figures(REWARD=noisy[:60])) == [], "too noisy to tell"
    assert words(figures(REWARD=noisy)) == ["reward is flat"]
    assert words(figures(REWARD=[value + 0.01 * step for step, value in enumerate(flat)])) == []
    assert words(figures(REWARD=[*CLIMB, *CLIMB[-1:] * 60])) == [], "it rose before"
    assert words(figures(REWARD=[0.97] * 60)) == [], "there is nothing to gain"


def test_where_there_is_no_going_back_nobody_is_sent_to_a_checkpoint() -> None:
    """vf-rl keeps weights alone."""
    advice = "lower the rate; go back to an earlier checkpoint"
    finding = Finding(RULES["kl"], Symptom("KL out of range", 3, "it is 1", advice))
    issue = health_issue_of(
        finding, component="trainer", last_good=None, edits=(), more_advice="lr 2 → 1", no_resume="no resume"
    )
    assert issue.advice == "lower the rate; start over; lr 2 → 1"
    assert issue.text == "it is 1; lower the rate; start over; lr 2 → 1. No resume"


def test_a_policy_that_explores_no_more() -> None:
    falling = [1.0] * 20 + [0.001] * 10
    assert words(figures(REWARD=[0.5] * 20 + [0.3] * 10, ENTROPY=falling)) == ["entropy collapsed"]
    assert words(figures(REWARD=[0.5] * 30, ENTROPY=falling)) == ["entropy collapsed"], (
        "it stays where it was"
    )
    assert words(figures(REWARD=[0.1] * 20 + [0.95] * 10, ENTROPY=falling)) == [], "it has learnt"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("key", "word"), [("LOSS", "loss"), ("GRAD", "gradient")])
def test_a_loss_or_gradient_that_is_no_number(key: str, word: str, value: float) -> None:
    run = figures(**{key: [0.1, 0.1, value, value]})
    (finding,) = findings(HealthInputs(run, USUAL))
    assert (finding.symptom.word, finding.symptom.severity, finding.symptom.since) == (
        f"{word} is {value}",
        "error",
        3,
    )


def test_a_loss_that_the_trainer_leaves_out_is_no_number() -> None:
    run = figures(LOSS=[0.1] * 5, GRAD=[0.3] * 5)
    for step in (6, 7):
        run.add({"step": step, "optim/lr": 1e-6}, float(step))
    (finding,) = findings(HealthInputs(run, USUAL))
    assert (finding.symptom.word, finding.symptom.since) == ("loss is not finite", 6)
    assert finding.symptom.evidence.endswith("(the trainer omits the metric)")


def test_figures_out_of_their_range() -> None:
    assert words(figures(KL=[0.001] * 10 + [0.5] * 5)) == ["KL out of range"]
    assert words(figures(KL=[0.001] * 10 + [9.0, 0.1, 0.1, 0.1, 9.0])) == [], "now and then"
    assert words(figures(KL=[0.001] * 10 + [math.inf] * 3 + [0.1] * 2)) == ["KL out of range"]
    assert words(figures(TRUNCATED=[0.1] * 10 + [0.8] * 5)) == ["rollouts are cut off"]
    assert words(figures(STALE=[1.0] * 10 + [9.0] * 5)) == ["rollouts are stale"]
    run = RunTracks()
    for step in range(1, 11):
        run.add({"step": step, LOSS: 0.1, "importance_ratio/mean": 1.0 if step < 6 else 3.0}, 0.0)
    assert words(run) == ["importance ratio out of range"]


def test_groups_whose_rewards_are_all_the_same_teach_nothing() -> None:
    assert words(figures(REWARD=[0.5] * 12, TRAINABLE=[0.0] * 12)) == ["no signal"]
    assert words(figures(REWARD=[0.5] * 12, GRAD=[0.0] * 12)) == ["no signal"]
    assert words(figures(REWARD=[0.5] * 12, TRAINABLE=[0.0] * 11 + [0.1])) == []
    assert words(figures(REWARD=[0.5] * 5, GRAD=[0.0] * 5)) == []


REWARDED = Learning()
DISTILLS = Learning(signals=frozenset({"teacher"}))


def collected(**shares: Sequence[float]) -> RunTracks:
    """Steps of an orchestrator with the shares `cancelled`, `has_error`, `trainable` of all rollouts."""
    run = RunTracks()
    names = {"cancelled": "train/agg/all/cancelled/mean", "has_error": "train/agg/all/has_error/mean",
             "trainable": TRAINABLE}  # fmt: skip
    for step, values in enumerate(zip(*shares.values(), strict=True), 1):
        run.add({"step": step, **dict(zip((names[key] for key in shares), values, strict=True))}, 0.0)
    return run


def test_rollouts_that_are_thrown_away_are_one_finding_with_its_shares() -> None:
    run = collected(cancelled=[0.45] * 6, has_error=[0.05] * 6, trainable=[0.3] * 6)
    knobs: dict[Discard, tuple[str, ...]] = {"stale": ("orchestrator.max_off_policy_steps",)}
    (finding,) = findings(HealthInputs(run, USUAL, learning=Learning(knobs=knobs)))
    assert (finding.rule.id, finding.symptom.since) == ("discarded", 2)
    assert finding.symptom.evidence == (
        "70 % of the rollouts of the last 5 steps were not trained on"
        " (45 % stale, 5 % errored, 20 % no signal)"
    )
    assert finding.symptom.advice == (
        "stale: allow older ones, keep fewer in flight, or give inference more compute"
        " (orchestrator.max_off_policy_steps); no signal: use tasks of medium difficulty, or larger groups"
    )
    assert words(collected(cancelled=[0.45] * 4, has_error=[0.5] * 4, trainable=[0.0] * 4)) == []
    tiny = RunTracks()
    for step in range(1, 6):
        tiny.add({"step": step, "off_policy/dropped": 40, "progress/rollouts": 10, STALE: 3.0}, 0.0)
    assert words(tiny) == ["rollouts are discarded"], "the embedded engine tells their number"
    half = {"cancelled": [0.2] * 9, "has_error": [0.1] * 9, "trainable": [0.6] * 9}
    assert words(collected(**half)) == []
    assert words(collected(**half), Thresholds(discarded_frac=0.3)) == ["rollouts are discarded"]


def test_what_prime_rl_itself_says_of_discards_counts_more_than_its_metrics() -> None:
    warning = (
        "18:15:07 WARNING Discarded 96/128 episodes (75.0%): stale=80, errored=10, no_signal=6. Review"
        " max_off_policy_steps, episode errors, and reward signal."
    )
    success = (
        "18:15:07 SUCCESS Step {} |   12.3s | Reward 0.1000 | Trainable 12/12 (100.0%) | Turns 1.0 | Branches"
        " 1.0 | Max Off-Policy 9 | Error 0.0% | Cancelled 0.0% | Truncation 1.0% | Timeout 0.0%"
    )
    run = RunTracks()
    for step in range(1, 8):
        for line in (warning, success):
            row = log_row("orchestrator", line.format(step))
            assert row is not None
            run.add({"step": step, **row, "off_policy/mean": 9.0}, 0.0)
    (finding,) = findings(HealthInputs(run, USUAL))
    assert "(62 % stale, 8 % errored, 5 % no signal)" in finding.symptom.evidence
    assert finding.symptom.covers == ("staleness",), "it is told once"
    assert words(run, Thresholds(silent=("discarded",))) == ["rollouts are stale"]


def test_groups_without_a_signal_are_no_loss_of_a_run_that_has_learnt_or_has_other_teachers() -> None:
    def share(learning: Learning = REWARDED, reward: float = 0.3) -> list[str]:
        run = collected(trainable=[0.3] * 60)
        for step in range(1, 61):
            run.add({"step": step, REWARD: reward}, 0.0)
        return words(run, Thresholds(silent=("flat",)), learning=learning)

    assert share() == ["rollouts are discarded"]
    assert share(reward=0.97) == [], "it has learnt"
    assert share(DISTILLS) == []
    assert share(Learning(signals=frozenset({"teacher", "reward"}), rewarded=frozenset({"a"}))) == []


def resumed(before: Sequence[float], after: Sequence[float], key: str = KL) -> RunTracks:
    run = RunTracks()
    for step, value in enumerate(before, 1):
        run.add({"step": step, LOSS: 0.1, key: value}, 0.0)
    run.rewind(len(before))
    for step, value in enumerate(after, len(before) + 1):
        run.add({"step": step, LOSS: 0.1, key: value}, 0.0)
    return run


def test_policies_that_differ_since_a_resume_are_told_with_the_command_that_helps() -> None:
    calm = [0.0004] * 10
    (finding,) = findings(HealthInputs(resumed(calm, [0.15, 0.14, 0.16]), USUAL, name="one"))
    assert (finding.rule.id, finding.symptom.since) == ("resume-mismatch", 11)
    assert finding.symptom.evidence == (
        "the KL between trainer and sampler has been 0.15 since the run went on after step 10;"
        " before, it was 0.0004"
    )
    assert "`rltui restart one -c inference`" in finding.symptom.advice
    assert words(resumed(calm, [3.0] * 8)) == ["mismatch after a resume"], (
        "not told twice as a KL out of range"
    )
    ratio = "importance_ratio/all/mean"
    assert words(resumed([1.01, 0.99] * 4, [0.7, 0.6, 0.7], ratio)) == ["mismatch after a resume"]
    for after in ([0.15], [0.15, 0.0005], [0.15, 0.15, 0.0005, 0.0005], [0.01] * 9, [0.003] * 9):
        assert words(resumed(calm, after)) == [], "the first step may differ, and a little always"
    assert words(resumed([], [0.15] * 3)) == [], "nobody knows what was before"
    assert words(resumed([0.05] * 10, [0.15] * 4)) == []


def test_an_engine_that_stays_behind_is_told_and_nothing_that_follows_from_it() -> None:
    def served(version: int, *, steps: int = 20, resume: int = 0, most: int | None = 8) -> list[str]:
        run = resumed([0.0004] * resume, [0.0004] * (steps - resume)) if resume else RunTracks()
        for step in range(resume + 1, steps + 1):
            run.add({"step": step, LOSS: 0.1, KL: 0.3 if resume else 0.0004, STALE: 1.0}, 0.0)
        run.add(
            {"step": None, "time": 1e9, "watcher/policy_version": float(version), "producer": "orch"}, 0.0
        )
        return words(run, learning=Learning(max_staleness=most))

    assert served(19) == served(12) == []
    assert served(11) == served(3, steps=12) == ["weights lag"]
    assert served(11, most=9) == served(11, most=None, steps=19) == []
    assert served(0, steps=8, resume=5) == ["weights lag"], "older than what the trainer went on from"
    assert served(6, steps=8, resume=5) == ["mismatch after a resume"]
    for more, found in (({"STALE": [1.0] * 30}, ["weights lag"]), ({}, [])):
        run = figures(LOSS=[0.1] * 30, KL=[0.001] * 30, **more)
        run.add({"step": 5, "policy/applied": 5}, 0.0)
        assert words(run) == found, "a line tells it until the next one; SFT does not wait for its evals"


def taught(values: Sequence[float], learning: Learning = DISTILLS, key: str = "ref_kl/mean") -> list[str]:
    """A distillation whose rewards are all alike, and are nobody's business."""
    run = RunTracks()
    for step, value in enumerate(values, 1):
        run.add({"step": step, LOSS: 0.1, GRAD: 0.3, key: value}, 0.0)
        run.add({"step": step, REWARD: max(0.0, 0.9 - step / 20), TRAINABLE: 0.0}, 0.0)
    return words(run, learning=learning)


def test_a_run_that_learns_from_a_teacher_has_no_reward_to_lose() -> None:
    falls = [-0.6 / (1 + step / 10) for step in range(80)]
    assert taught(falls) == []
    assert "no signal" in taught(falls, Learning()), "where nobody knows of the teacher"
    assert taught([*falls, *[-0.5] * 10]) == ["away from the teacher"]
    chance = random.Random(0)
    stays = [-chance.gauss(0.6, 0.02) for _ in range(80)]
    assert taught(stays) == ["no nearer to the teacher"]
    assert taught(stays[:40]) == [], "too early to tell"
    assert taught([value / 100 for value in stays]) == [], "it is near"
    assert taught(stays, Learning(signals=frozenset({"self"}))) == [], "that teacher learns too"
    tokens = Learning(signals=frozenset({"tokens"}))
    assert taught([-value for value in falls], tokens, "nll/mean") == []
    assert taught([-value for value in falls] + [0.5] * 10, tokens, "nll/mean") == ["away from the teacher"]


def test_of_a_mixed_run_the_rewards_of_those_that_learn_from_them_are_judged() -> None:
    run = RunTracks()
    for step, reward in enumerate([*CLIMB, *[0.0] * 10], 1):
        envs = {"train/game/effective/agent/reward/mean": reward, "train/school/effective/a/reward/mean": 0.9}
        run.add({"step": step, REWARD: 0.9, "ref_kl/mean": -0.1, **envs}, 0.0)
    mixed = Learning(signals=frozenset({"reward", "teacher"}), rewarded=frozenset({"game"}))
    (finding,) = findings(HealthInputs(run, USUAL, learning=mixed))
    assert finding.symptom.evidence.startswith("the reward of game was 0.91 around step 50")
    assert words(run) == []


def test_in_a_game_of_rivals_a_reward_that_stays_is_no_finding() -> None:
    chance = random.Random(0)
    run = figures(REWARD=[chance.gauss(0.0, 0.02) for _ in range(80)])
    assert words(run) == ["reward is flat"]
    assert words(run, learning=Learning(has_rivals=True)) == []
    game = RunTracks()
    for step in range(1, 81):
        rewards = {f"train/agg/effective/player{seat}/reward/mean": abs(seat - step / 100) for seat in (0, 1)}
        game.add(with_means_of_seats({"step": step, **rewards}), 0.0)
    assert game.track("reward").around(80) == 0.5
    assert words(game) == []


def test_gradient_spikes_are_told_when_they_come_often() -> None:
    calm = [0.3] * 30
    assert words(figures(GRAD=[*calm, 9.0, 0.3, 9.0, 0.3])) == []
    assert words(figures(GRAD=[*calm, 9.0, 0.3, 9.0, 0.3, 9.0])) == ["gradient spikes"]


def test_evals_that_fall_while_the_reward_rises() -> None:
    run = figures(REWARD=CLIMB)
    for step, score in ((10, 0.3), (20, 0.6), (30, 0.5), (40, 0.45)):
        run.add({"step": step, "eval/gsm8k/effective/agent/reward/mean": score}, 0.0)
    (finding,) = findings(HealthInputs(run, USUAL))
    assert (finding.symptom.word, finding.symptom.since) == ("evals are falling", 21)
    assert "was 0.6 at step 20 and is 0.45 at step 40, while the reward rose" in finding.symptom.evidence


def throughput(*values: float, pause_s: float) -> RunTracks:
    run = RunTracks()
    for step, value in enumerate(values, 1):
        run.add({"step": step, "time": 1e9 + step * pause_s, LOSS: 0.1, "perf/throughput": value}, 0.0)
    return run


def test_throughput_is_compared_with_its_own_past() -> None:
    slow = [9000.0] * 10 + [2000.0] * 6
    assert words(throughput(*slow, pause_s=30)) == ["throughput is down"]
    assert words(throughput(*slow, pause_s=1)) == [], "a shared machine is slow for a while"
    assert words(throughput(*slow[:-1], 8000.0, pause_s=30)) == []


def test_a_step_that_stays_out() -> None:
    run = throughput(*[1.0] * 10, pause_s=20)
    last = 1e9 + 200
    assert words(run, now=last + 190) == []
    (finding,) = findings(HealthInputs(run, USUAL, last + 250))
    assert finding.symptom.evidence == "no step for 4m10s after step 10; usually one every 20s"
    assert words(run, now=last + 250, started=last + 200) == [], "it was restarted just now"
    assert words(run) == [], "nobody expects one"


def test_steps_whose_time_nobody_knows_tell_nothing_of_time() -> None:
    run = RunTracks()
    for step, value in enumerate([9000.0] * 10 + [2000.0] * 6, 1):
        run.add({"step": step, LOSS: 0.1, "perf/throughput": value}, math.nan)
    assert words(run, now=1e9) == []
    for step in range(17, 27):
        run.add({"step": step, LOSS: 0.1}, 1e9 + 20 * step)
    assert words(run, now=1e9 + 20 * 26 + 100) == []
    assert words(run, now=1e9 + 20 * 26 + 300) == ["no step"]


def test_the_name_of_a_metric_cannot_write_to_the_terminal() -> None:
    run = figures(REWARD=CLIMB)
    for step, score in ((10, 0.3), (20, 0.6), (30, 0.5), (40, 0.45)):
        run.add({"step": step, "eval/\x1b[2Jx/effective/agent/reward/mean": score}, 0.0)
    (finding,) = findings(HealthInputs(run, USUAL))
    assert "\x1b" not in finding.symptom.evidence


def test_rules_are_silenced_and_changed_by_the_settings() -> None:
    run = figures(REWARD=CLIMB + [0.98] * 10 + [0.4] * 10, KL=[0.1] * 70)
    assert words(run) == ["reward dropped"]
    assert words(run, Thresholds(silent=("reward-collapse",))) == []
    assert words(run, Thresholds(kl_max=0.05)) == ["reward dropped", "KL out of range"]
    assert words(run, Thresholds(reward_collapse_frac=0.45)) == ["reward collapsed"]


def test_the_example_of_the_settings_has_every_one_as_it_is() -> None:
    path = Path(__file__).parents[3] / "examples" / "settings.toml"
    text = path.read_text()
    document = tomllib.loads(text)
    assert settings.load(path) == settings.Settings()
    assert document["health"].keys() == Thresholds.model_fields.keys()
    assert document["alerts"].keys() == settings.AlertSettings.model_fields.keys()
    assert all(rule in text for rule in RULES)
    assert set(get_args(RuleId)) == set(RULES)


def test_the_worst_comes_first() -> None:
    run = figures(REWARD=CLIMB + [0.0] * 20, KL=[9.0] * 70, LOSS=[math.nan] * 70)
    assert words(run) == ["loss is nan", "reward collapsed", "KL out of range"]


def test_a_framework_that_counts_from_0_is_told_by_steps_from_1() -> None:
    run = RunTracks(first_step=0)
    for step, reward in enumerate(CLIMB + [0.0] * 10):
        run.add({"step": step, REWARD: reward}, 0.0)
    (finding,) = findings(HealthInputs(run, USUAL))
    assert finding.symptom.since == 51


FOUND = Finding(RULES["kl"], Symptom("KL out of range", 42, "the KL is 3 since step 42", "lower it"))


def test_a_concern_names_the_last_good_checkpoint_and_the_edits_since() -> None:
    issue = health_issue_of(FOUND, component="trainer", last_good=40, edits=("lr 1 → 2", "lr 2 → 3"))
    assert issue.text == (
        "the KL is 3 since step 42; lower it. The last good checkpoint is 40."
        " Edited since: lr 1 → 2; lr 2 → 3"
    )
    assert (issue.id, issue.last_good, issue.edits) == ("kl", 40, ("lr 1 → 2", "lr 2 → 3"))


def test_a_concern_without_a_checkpoint_and_with_many_edits() -> None:
    issue = health_issue_of(FOUND, component=None, last_good=None, edits=tuple("abcde"))
    assert issue.text.endswith("No earlier checkpoint is complete. Edited since: 2 more and c; d; e")


_VALUES = st.one_of(
    st.floats(), st.integers(), st.none(), st.booleans(), st.text(max_size=3), st.lists(st.integers())
)
_KEYS = st.sampled_from(
    [REWARD, ENTROPY, LOSS, GRAD, KL, TRAINABLE, TRUNCATED, STALE, "step", "time", "producer", "x",
     "ref_kl/mean", "watcher/policy_version", "train/agg/all/cancelled/mean",
     "train/a/effective/b/reward/mean",
     "train/agg/effective/a/reward/mean", "train/agg/effective/b/reward/mean",
     "perf/throughput", "eval/a/effective/agent/reward/mean", "time/wait_for_batch", "optim/lr"]
)  # fmt: skip


@given(st.lists(st.dictionaries(_KEYS, _VALUES, max_size=8), max_size=30))
def test_no_row_can_break_it(rows: list[Mapping[str, Any]]) -> None:
    run = RunTracks()
    for row in rows:
        run.add(with_means_of_seats(row), 0.0)
        for learning in (REWARDED, DISTILLS, Learning(rewarded=frozenset({"a"}))):
            for finding in findings(HealthInputs(run, USUAL, 1e9, learning=learning)):
                assert finding.symptom.since is not None
