from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rltui.core.config.batch import (
    BatchKnobs,
    convert,
    in_rollouts,
    other_way,
    oversampling,
)
from rltui.core.config.data import value_at
from rltui.core.config.report import KnobInfo, Problem
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.tinyrl import TINYRL

GROUPS = st.integers(1, 64)
MEANS = st.floats(1.0, 100_000.0)
GENERAL = BatchKnobs("batch_size", "tokens", "group_size", "seq_len", "inflight", "oversampling")


def given_rows(values: Mapping[str, Any]) -> dict[str, KnobInfo]:
    """A knob table with these values, set in the file."""
    names = ("batch_size", "tokens", "group_size", "inflight", "oversampling")
    return {
        name: KnobInfo(key=name, file="f", value=values.get(name), is_set=values.get(name) is not None)
        for name in names
    }


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((12_787, 128), (128, None, None)),
        ((12_787, 256), (128, None, 2.0)),
        ((12_787, 166), (128, None, 1.3)),
        ((12_787, 64), (128, 64, None)),
        ((12_787, None), (128, None, None)),
        ((10, None), (16, None, None)),
        ((2300, None), (16, None, None)),
        ((2500, None), (32, None, None)),
    ],
    ids=["plain", "twice", "a fraction", "fixed", "nothing in flight", "at least a group", "down", "up"],
)
def test_in_rollouts(batch: tuple[int, int | None], expected: tuple[int, int | None, float | None]) -> None:
    assert in_rollouts(*batch, group=16, mean_tokens=99.9) == expected


@given(GROUPS, st.integers(1, 200), MEANS, st.one_of(st.none(), st.floats(1.0, 8.0)), st.integers(0, 20_000))
def test_there_and_back_is_the_same_batch(
    group: int, groups: int, mean: float, factor: float | None, inflight: int
) -> None:
    fixed = inflight if factor is None and inflight >= group else None
    values: dict[str, Any] = {"batch_size": group * groups, "group_size": group}
    values |= {"oversampling": factor} if factor is not None else {"inflight": fixed} if fixed else {}
    there: dict[str, Any] = {**values, **convert(GENERAL, given_rows(values), mean_tokens=mean).edits}
    back = {**there, **convert(GENERAL, given_rows(there), mean_tokens=mean).edits}
    assert back["batch_size"] == group * groups
    assert at_once(back) == at_once(values)
    again = {**back, **convert(GENERAL, given_rows(back), mean_tokens=mean).edits}
    assert {key: again[key] for key in there} == there


def at_once(values: Mapping[str, Any]) -> int:
    fixed: int | None = values.get("inflight")
    return fixed if fixed is not None else int(values["batch_size"] * (values.get("oversampling") or 1.0))


@given(GROUPS, st.integers(1, 10_000_000), MEANS, st.integers(1, 20_000))
def test_back_is_in_whole_groups_and_within_half_a_group(
    group: int, tokens: int, mean: float, before: int
) -> None:
    size, inflight, factor = in_rollouts(tokens, before, group=group, mean_tokens=mean)
    assert size % group == 0
    assert inflight is None or factor is None, "one of them, never both"
    assert (int(size * (factor or 1.0)) if inflight is None else inflight) == before
    assert size == group or abs(size - tokens / mean) <= group / 2 + 1e-6


@pytest.mark.parametrize(("size", "inflight", "factor"), [(3, 10, 3.4), (7, 8, 1.2), (128, 127, None)])
def test_oversampling_has_few_decimals(size: int, inflight: int, factor: float | None) -> None:
    assert oversampling(size, inflight) == factor


CONFIGS = Path(__file__).parents[2] / "data/prime_rl"
BATCHING = frozenset(
    {
        "batch_size", "token_batch_size", "rollouts_per_example", "group_size", "max_inflight_rollouts",
        "oversampling_factor",
    }
)  # fmt: skip

PRIME_RL = registry.get("prime-rl")
PRIME_RL_MERGED = registry.get("prime-rl-merged")
TINYRL_FILES = {"rl": ConfigFile("rl", "/rl.toml", {"orchestrator": {}})}
NAMES = TINYRL.config.batch_knobs(TINYRL_FILES) or BatchKnobs("", "", "", "")
CURRENT = BatchKnobs("batch_size", "token_batch_size", "group_size", "seq_len")


def files(orchestrator: dict[str, Any]) -> ConfigFiles:
    data = {"max_steps": 20, "model": {"name": "m"}, "orchestrator": {"seq_len": 512, **orchestrator}}
    data |= {"trainer": {"model": {"seq_len": 512}}, "inference": {}}
    return {"rl": ConfigFile("rl", "/rl.toml", data)}


def configured(data: Mapping[str, Any], orchestrator: Mapping[str, Any]) -> ConfigFiles:
    """The config with these keys in the orchestrator's table."""
    table = {key.removeprefix("orchestrator."): value for key, value in orchestrator.items()}
    before = {key: value for key, value in data["orchestrator"].items() if key not in BATCHING}
    return {"rl": ConfigFile("rl", "/rl.toml", {**data, "orchestrator": {**before, **table}})}


def rows(framework: Framework, config: ConfigFiles) -> dict[str, KnobInfo]:
    knobs = framework.config.knobs(config)
    values = framework.config.values_of(knobs, config)
    return {
        knob.name: KnobInfo(
            key=knob.name,
            file="/rl.toml",
            value=values[knob.name],
            is_set=value_at(config[knob.file].data, knob.key) is not None,
        )
        for knob in knobs
    }


def errors(framework: Framework, config: ConfigFiles) -> list[Problem]:
    return [problem for problem in framework.config.check(config) if problem.severity == "error"]


def test_to_tokens_takes_the_factor_away_and_keeps_its_effect() -> None:
    config = files({"batch_size": 128, "rollouts_per_example": 16, "oversampling_factor": 1.5})
    result = convert(NAMES, rows(TINYRL, config), mean_tokens=99.9, measured="mean of steps 3 to 12")
    assert result.to == "tokens"
    assert result.edits == {
        "orchestrator.batch_size": None,
        "orchestrator.token_batch_size": 12787,
        "orchestrator.max_inflight_rollouts": 192,
        "orchestrator.oversampling_factor": None,
    }
    assert result.arithmetic == (
        "128 rollouts * 99.9 tokens per rollout = 12787 tokens per step",
        "128 rollouts * 1.5 oversampling = 192 rollouts in flight",
    )
    assert (result.mean_tokens, result.measured) == (99.9, "mean of steps 3 to 12")


def test_to_rollouts_brings_the_factor_back() -> None:
    config = files({"token_batch_size": 12787, "rollouts_per_example": 16, "max_inflight_rollouts": 192})
    result = convert(NAMES, rows(TINYRL, config), mean_tokens=99.9)
    assert result.edits == {
        "orchestrator.token_batch_size": None,
        "orchestrator.batch_size": 128,
        "orchestrator.max_inflight_rollouts": None,
        "orchestrator.oversampling_factor": 1.5,
    }
    assert result.arithmetic == (
        "12787 tokens / 99.9 per rollout = 128 rollouts: 128 in 8 whole groups of 16",
        "192 rollouts in flight / 128 = 1.5 oversampling",
    )


def test_only_what_changes_is_edited() -> None:
    config = files({"rollouts_per_example": 16, "max_inflight_rollouts": 64})
    result = convert(NAMES, rows(TINYRL, config), mean_tokens=10.0)
    assert result.edits.keys() == {"orchestrator.token_batch_size"}, (
        "batch_size is the default, inflight stays"
    )
    back = files({"token_batch_size": 1280, "rollouts_per_example": 16, "max_inflight_rollouts": 64})
    conversion = convert(NAMES, rows(TINYRL, back), mean_tokens=10.0)
    assert conversion.edits == {"orchestrator.token_batch_size": None, "orchestrator.batch_size": 128}
    assert conversion.arithmetic[-1] == "64 rollouts in flight, as before"


def test_a_framework_that_adapts_what_is_in_flight() -> None:
    values = {
        "batch_size": KnobInfo(key="batch_size", file="f", value=128, is_set=True),
        "token_batch_size": KnobInfo(key="token_batch_size", file="f"),
        "group_size": KnobInfo(key="group_size", file="f", value=16, is_set=True),
    }
    assert convert(CURRENT, values, mean_tokens=50.0).edits == {"batch_size": None, "token_batch_size": 6400}
    assert other_way(CURRENT, values) == "tokens"
    assert other_way(CURRENT, {}) is None
    assert other_way(None, values) is None


@pytest.mark.parametrize("mean", [0.0, -1.0, float("nan"), float("inf")])
def test_a_mean_must_be_a_number_above_0(mean: float) -> None:
    with pytest.raises(ValueError, match="tokens"):
        convert(NAMES, rows(TINYRL, files({})), mean_tokens=mean)


@pytest.mark.parametrize("wrong", [{"batch_size": "x"}, {"batch_size": 8, "oversampling_factor": "x"}])
def test_wrong_values_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be a"):
        convert(NAMES, rows(TINYRL, files(wrong)), mean_tokens=9.0)


FRAMEWORKS = {
    "tinyrl": (TINYRL, files({})["rl"].data),
    "prime-rl-merged": (PRIME_RL_MERGED, tomllib.loads((CONFIGS / "era_b/rl.toml").read_text())),
    "prime-rl": (PRIME_RL, tomllib.loads((CONFIGS / "era_c/rl.toml").read_text())),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    group=st.integers(2, 32),
    groups=st.integers(1, 64),
    mean=st.floats(1.0, 2048.0),
    factor=st.one_of(st.none(), st.floats(1.0, 4.0)),
)
def test_the_rules_take_the_result_there_and_back(
    name: str, group: int, groups: int, mean: float, factor: float | None
) -> None:
    framework, data = FRAMEWORKS[name]
    names = framework.config.batch_knobs({"rl": ConfigFile("rl", "/rl.toml", data)})
    assert names is not None
    values: dict[str, Any] = {names.batch_size: group * groups, names.group_size: group}
    if names.oversampling is not None and factor is not None:
        values[names.oversampling] = factor
    for _ in range(2):
        config = configured(data, values)
        assert not errors(framework, config)
        result = convert(names, rows(framework, config), mean_tokens=mean)
        values = {key: value for key, value in {**values, **result.edits}.items() if value is not None}
    assert not errors(framework, configured(data, values))
    assert values[names.batch_size] == group * groups
