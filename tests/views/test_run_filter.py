"""Filters of the list of runs, as people type them."""

from __future__ import annotations

import pytest

from rltui.core.runs.row import RunRow
from rltui.errors import UsageError
from rltui.views.run_filter import parse_filter

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
    run_filter = parse_filter(text, now=NOW, ids={"mother": "par"})
    run_filter.check({"abc": CONFIG})
    assert run_filter.matches(row(), CONFIG)


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
    assert not parse_filter(text, now=NOW).matches(row(), CONFIG)


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
