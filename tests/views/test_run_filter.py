"""Filters of the list of runs, as people type them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.runs import selected

from rltui.core.metrics.levels import MetricLevel
from rltui.core.runs.row import RunRow
from rltui.errors import UsageError
from rltui.views.run_filter import parse_filter, run_query

NOW = 1_000_000.0
CONFIG = {
    "trainer.optim.lr": 3e-6,
    "trainer.model.seq_len": 2048,
    "seed": 1,
    "bf16": True,
    "env.name": "gsm8k",
}


def row(**values: object) -> RunRow:
    fields: dict[str, object] = {
        "id": "abc", "name": "sft-lr3e-06", "folder": "/o/a", "created_at": NOW - 7200, "state": "done",
        "started_at": NOW - 7200, "ended_at": NOW - 3600, "seconds": 1800.0, "tags": ("baseline", "small"),
        "metrics": {"reward": (0.7, 0.9), "lr": (0.0, 1e-5)}, "step": 40, "max_steps": 100, "group": "sweep1",
        "disk_bytes": 3 << 30, "parent": "par", "note": "looks good",
    }  # fmt: skip
    return RunRow(**{**fields, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sft",
        "SFT lr3",
        "reward > 0.6",
        "reward>=0.7",
        "reward.best > 0.8 and lr < 1e-5",
        "lr=3e-6",
        "optim.lr == 3e-6",
        "lr.best == 1e-5",
        "seq_len == 2048",
        "seq_len >= 2k",
        "tag:baseline",
        "tags = small",
        "not tag:large",
        "tag:large or tag:small",
        "(tag:large or (tag:small)) reward < 50000%",
        "state == done",
        "not state == failed",
        "state != failed",
        "name:~^sft",
        "name:~(x|lr)3",
        "name ~ '^sft'",
        "name !~ grpo",
        "group:sweep1",
        "parent:mother",
        "parent:par",
        "age > 1h",
        "age < 1d",
        "started > 3h",
        "started < 1h",
        "duration >= 30m",
        "disk > 2GiB",
        "disk < 4GB",
        "is:fork not is:best",
        "step > 10",
        "bf16 == true",
        "name == 'sft-lr3e-06'",
        "note:'looks good'",
        "note ~ good",
        "env.name == gsm8k",
        "loss == none",
        "not loss > 0",
        "reward > 0.6 AND NOT tag:large",
        "seed == 1",
        "best == none",
        "is:living or is:fork",
        "is:done",
        "started:>3h",
        "(name:~(a|b|s))",
    ],
)
def test_it_is_meant(text: str) -> None:
    run_filter = parse_filter(text, now=NOW)
    run_filter.check({"abc": CONFIG})
    mother = row(id="par", name="mother")
    assert row() in selected(run_query(run_filter), [row(), mother], {"abc": CONFIG})


@pytest.mark.parametrize(
    "text",
    [
        "grpo",
        "reward > 0.7",
        "reward < 0.8 and lr > 1e-5",
        "tag:large",
        "not tag:small",
        "state == failed",
        "name:~^lr",
        "loss > 0",
        "loss < 0",
        "age > 3h",
        "started > 1h",
        "disk > 3.5GiB",
        "bf16 == false",
        "seed != 1",
        "lr.last > 0",
        "is:living",
        "is:failed",
        "is:lost",
        "reward != 0.7",
        "optim.lr > 1e-5 or seed == 2",
    ],
)
def test_it_is_not_meant(text: str) -> None:
    assert not selected(run_query(parse_filter(text, now=NOW)), [row()], {"abc": CONFIG})


@pytest.mark.parametrize(
    ("text", "title", "place", "hint"),
    [
        ("reward > high", "reward cannot be compared with 'high'", 9, "a number"),
        ("state == faild", "unknown state: faild", 9, "did you mean failed?"),
        ("(reward > 1", "unclosed '('", 0, "for example"),
        ("reward > 1)", "unexpected ')'", 10, ""),
        ("reward >", "no value after reward >", 8, ""),
        ("reward > 1 and", "incomplete: a condition is missing", 14, ""),
        ("is:livin", "unknown: is:livin", 3, "did you mean living?"),
        ("name:~(a", "invalid regular expression", 6, ""),
        ("age < yesterday", "age cannot be compared with 'yesterday'", 6, "an age: 90s"),
        ("age == 2h", "age can only be compared with < and >", 7, ""),
        ("> 3", "unexpected '>'", 0, ""),
        ("or x", "unexpected 'or'", 0, ""),
        ("name == 'a", "unexpected", 8, "quote"),
        ("name < 3x", "name < needs a number", 7, ""),
        ("disk > much", "disk cannot be compared", 7, "a size"),
    ],
)
def test_what_is_wrong_is_pointed_at(text: str, title: str, place: int, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_filter(text, now=NOW)
    assert title in raised.value.title
    assert raised.value.details == (text, f"{' ' * place}^")
    assert hint in raised.value.hint


def test_names_that_no_run_has_are_told_with_the_nearest() -> None:
    run_filter = parse_filter("optim.lrr < 1 and rewrad > 0")
    assert run_filter.needs_config
    with pytest.raises(UsageError, match=r"config key: optim\.lrr") as raised:
        run_filter.check({"a": CONFIG})
    assert raised.value.hint == "did you mean optim.lr?"
    with pytest.raises(UsageError) as raised:
        parse_filter("rewrad > 0").check({"a": CONFIG})
    assert raised.value.hint == "did you mean reward?"
    two = {"trainer.optim.lr": 1e-6, "critic.optim.lr": 1e-5}
    with pytest.raises(UsageError, match=r"trainer\.optim\.lr or critic"):
        parse_filter("lr < 1").check({"a": CONFIG, "b": two})
    parse_filter("trainer.optim.lr < 1").check({"b": two})
    assert not parse_filter("reward > 1 tag:x age < 1h").needs_config


# --- against an oracle --------------------------------------------------------------------------------------

TEXTS = ("", "a", "A%b", "it's", 'say "x"', "straße", "_", "x\\y", "[1]", "null", "true", "3", "ÄÖ")
NUMBERS = (None, 0, -1, 2, 0.5, 1e300, 7)
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
NUMERIC: Mapping[str, Callable[[RunRow, Any], Any]] = {
    "step": lambda row, _: row.step,
    "attempts": lambda row, _: row.attempts or None,
    "duration": lambda row, _: row.seconds or None,
    "checkpoints": lambda row, _: len(row.checkpoints) or None,
    "gpu_hours": lambda row, _: row.gpu_seconds / 3600 or None,
    "reward": lambda row, _: (
        row.levels["reward"].mean if row.levels else row.metrics.get("reward", (None,))[0]
    ),
    "reward.best": lambda row, _: row.metrics.get("reward", (None, None))[1],
    "age": lambda row, _: NOW - (row.started_at or row.created_at),
    "lr": lambda row, config: config.get("optim.lr", row.metrics.get("lr", (None,))[0]),
}  # fmt: skip
WORDY: Mapping[str, Callable[[RunRow, Any], Sequence[object]]] = {
    "name": lambda row, _: [row.name],
    "note": lambda row, _: [row.note] if row.note else [],
    "tags": lambda row, _: row.tags,
    "group": lambda row, _: [row.group] if row.group else [],
    "torch": lambda row, _: [version] if (version := row.versions.get("torch")) else [],
    "changed": lambda row, _: ["seed=2"] if row.changed else [],
    "env.name": lambda _, config: config.get("env.name", []),
}
Oracle = tuple[str, Callable[[RunRow, Any], bool]]


def quoted(text: str) -> str:
    return '"{}"'.format(re.sub(r"([\\\"])", r"\\\1", text))


@st.composite
def conditions(draw: st.DrawFn) -> Oracle:
    """A typed condition, and whether it holds for a run with its config."""
    match draw(st.sampled_from(("number", "none", "equal", "regex", "name", "flag"))):
        case "number":
            name, sign = draw(st.sampled_from([*NUMERIC])), draw(st.sampled_from([*SIGNS]))
            bound = draw(st.sampled_from((0, 1, 2, 0.5, 7200)))
            unit = "s" if name in ("age", "duration") else ""

            def compares(row: RunRow, config: Any) -> bool:
                value = NUMERIC[name](row, config)
                numbers = [
                    each
                    for each in (value if isinstance(value, list) else [value])
                    if isinstance(each, int | float) and not isinstance(each, bool)
                ]
                return any(SIGNS[sign](number, bound) for number in numbers)

            return f"{name} {sign} {bound}{unit}", compares
        case "none":
            name = draw(st.sampled_from([*NUMERIC, *WORDY]))
            get = NUMERIC.get(name) or WORDY[name]
            return f"{name} == none", lambda row, config: get(row, config) in (None, "", (), [], [""])
        case "equal":
            name, text = draw(st.sampled_from([*WORDY])), draw(st.sampled_from(TEXTS[1:]))
            words = WORDY[name]
            return f"{name} == {quoted(text)}", lambda row, config: any(
                str(value).casefold() == text.casefold() for value in words(row, config)
            )
        case "regex":
            name, pattern = (
                draw(st.sampled_from([*WORDY])),
                draw(st.sampled_from(("^a", "%", "'", "ß", "^$", "["))),
            )
            words, escaped = WORDY[name], re.escape(pattern) if pattern == "[" else pattern
            return f"{name} ~ {quoted(escaped)}", lambda row, config: any(
                re.search(escaped, str(value), re.IGNORECASE) for value in words(row, config)
            )
        case "name":
            text = draw(st.sampled_from([text for text in TEXTS if text]))
            return quoted(text), lambda row, _: text.casefold() in row.name.casefold()
        case _:
            is_so = draw(st.booleans())
            word = "yes" if is_so else "none"
            return f"best == {word}", lambda row, _: row.is_best == is_so


@st.composite
def filters(draw: st.DrawFn) -> Oracle:
    """Conditions with connectives between them."""
    return draw(
        st.recursive(
            conditions(),
            lambda inner: st.tuples(st.sampled_from(("and", "or", "not")), inner, inner).map(combined),
            max_leaves=6,
        )
    )


def combined(parts: tuple[str, Oracle, Oracle]) -> Oracle:
    connective, (left, is_left), (right, is_right) = parts
    match connective:
        case "and":
            return f"({left} and {right})", lambda row, config: is_left(row, config) and is_right(row, config)
        case "or":
            return f"({left} or {right})", lambda row, config: is_left(row, config) or is_right(row, config)
        case _:
            return f"not ({left})", lambda row, config: not is_left(row, config)


@st.composite
def rows_with_configs(draw: st.DrawFn) -> list[tuple[RunRow, dict[str, Any]]]:
    def one(number: int) -> tuple[RunRow, dict[str, Any]]:
        metric = draw(st.sampled_from(NUMBERS))
        config = {
            "optim.lr": draw(st.sampled_from((0.5, 1, "x", True, [1, 2]))),
            "env.name": draw(st.lists(st.sampled_from(TEXTS), max_size=2)),
        }
        return row(
            id=f"run{number:07}", parent="", name=draw(st.sampled_from(TEXTS[1:])),
            note=draw(st.sampled_from(TEXTS)),
            tags=tuple(draw(st.lists(st.sampled_from(TEXTS[1:]), max_size=2))),
            group=draw(st.sampled_from(TEXTS)), step=draw(st.sampled_from((None, 0, 1, 2, 7))),
            attempts=draw(st.sampled_from((0, 1, 2))), seconds=draw(st.sampled_from((0.0, 0.5, 7200.0))),
            gpu_seconds=draw(st.sampled_from((0.0, 7200.0))), is_best=draw(st.booleans()),
            checkpoints=tuple(range(draw(st.integers(0, 3)))),
            metrics={} if metric is None else {"reward": (metric, draw(st.sampled_from(NUMBERS)))},
            levels={"reward": MetricLevel(0.5, None, 3)} if draw(st.booleans()) else {},
            changed={"seed": (1, 2)} if draw(st.booleans()) else {},
            versions={"torch": draw(st.sampled_from(("2.9", "A%b")))} if draw(st.booleans()) else {},
            started_at=draw(st.sampled_from((None, NOW, NOW - 7200, NOW - 1))),
        ), {key: value for key, value in config.items() if draw(st.booleans())}  # fmt: skip

    return [one(number) for number in range(draw(st.integers(1, 4)))]


@given(filters(), rows_with_configs())
def test_sqlite_selects_what_a_plain_reading_of_the_filter_does(
    oracle: Oracle, runs: list[tuple[RunRow, dict[str, Any]]]
) -> None:
    text, is_meant = oracle
    rows = [each for each, _ in runs]
    configs: dict[str, dict[str, Any]] = {each.id: config for each, config in runs}
    found = {each.id for each in selected(run_query(parse_filter(text, now=NOW)), rows, configs)}
    assert found == {each.id for each, config in runs if is_meant(each, config)}, text


def test_a_long_filter_is_no_deep_one() -> None:
    text = " or ".join(f"x{number}" for number in range(400)) + " or sft"
    assert selected(run_query(parse_filter(text)), [row()]) == [row()]
    deep = "not (" * 50 + "sft" + ")" * 50
    assert selected(run_query(parse_filter(deep)), [row()]) == [row()]
