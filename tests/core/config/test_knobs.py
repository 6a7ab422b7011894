from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rltui.core.config.knobs import (
    IN_TEXT,
    Knob,
    find_knob,
    large_step,
    parse_value,
    pattern,
    rank,
    resolve_edits,
    split_assignment,
)
from rltui.errors import ConfigError, UsageError

BATCH = Knob("orchestrator.batch_size", "int", ("orchestrator",), "", 128, nullable=True, minimum=1)
LR = Knob("trainer.optim.lr", "float", ("trainer",), "", 1e-6, minimum=0.0)
SHARE = Knob("inference.share", "float", ("inference",), "", 0.9, above=0.0, maximum=1.0)
EAGER = Knob("inference.eager", "bool", ("inference",), "", False)
MODEL = Knob("model.name", "str", (), "")
MODE = Knob("mode", "enum", (), "", "full", choices=("full", "none"))
SFT_BATCH = Knob("data.batch_size", "int", ("sft",), "", 128, minimum=1, file="sft", namespace="sft")
O_LEN, T_LEN = (Knob(f"{table}.seq_len", "int", (), "") for table in ("orchestrator", "trainer.model"))
KNOBS = (BATCH, LR, SHARE, EAGER, MODEL, MODE, SFT_BATCH, O_LEN, T_LEN)


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [
        (BATCH, "64", 64),
        (BATCH, "1_000", 1000),
        (BATCH, "none", None),
        (BATCH, "Unset", None),
        (LR, "3e-6", 3e-6),
        (LR, "1", 1.0),
        (EAGER, "true", True),
        (MODEL, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        (MODEL, '"none"', "none"),
        (MODEL, "default", "default"),
        (MODEL, "unset", "unset"),
        (replace(MODEL, nullable=True), "default", "default"),
        (replace(MODEL, nullable=True), "null", "null"),
        (replace(MODEL, nullable=True), "None", None),
        (replace(MODEL, nullable=False), "none", "none"),
        (MODEL, "'a b'", "a b"),
        (MODEL, "64", "64"),
        (MODE, "none", "none"),
    ],
)
def test_parse_value_reads_typed_text(knob: Knob, text: str, value: Any) -> None:
    parsed = parse_value(knob, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("knob", "text", "message"),
    [
        (BATCH, "abc", 'orchestrator.batch_size must be a whole number ≥ 1, not "abc"'),
        (BATCH, "64.5", "orchestrator.batch_size must be a whole number ≥ 1, not 64.5"),
        (BATCH, "0", "orchestrator.batch_size must be a whole number ≥ 1, not 0: the smallest allowed is 1"),
        (BATCH, "true", "orchestrator.batch_size must be a whole number ≥ 1, not true"),
        (SHARE, "1.5", "inference.share must be a number > 0 and ≤ 1, not 1.5: the largest allowed is 1"),
        (SHARE, "0", "inference.share must be a number > 0 and ≤ 1, not 0"),
        (LR, "nan", "trainer.optim.lr must be a number ≥ 0, not nan"),
        (LR, "", 'trainer.optim.lr must be a number ≥ 0, not ""'),
        (EAGER, "yes", 'inference.eager must be true or false, not "yes"'),
        (MODE, "half", 'mode must be one of full, none, not "half"'),
        (BATCH, "1\n[evil]", None),
    ],
)
def test_parse_value_names_knob_type_and_bounds(knob: Knob, text: str, message: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_value(knob, text)
    assert message is None or caught.value.title == message


@pytest.mark.parametrize(
    ("name", "knob"),
    [
        ("orchestrator.batch_size", BATCH),
        ("orchestrator.batch-size", BATCH),
        ("lr", LR),
        ("optim.lr", LR),
        ("sft.data.batch_size", SFT_BATCH),
        ("data.batch_size", SFT_BATCH),
        ("sft.batch_size", SFT_BATCH),
        ("batch_size", BATCH),
    ],
)
def test_find_knob_accepts_unique_endings(name: str, knob: Knob) -> None:
    assert find_knob(KNOBS, name) is knob


def test_find_knob_lists_all_candidates() -> None:
    with pytest.raises(
        ConfigError, match=r"ambiguous knob seq_len: orchestrator\.seq_len or trainer\.model\.seq_len"
    ):
        find_knob(KNOBS, "seq_len")


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("orchestrator.batchsize", "did you mean orchestrator.batch_size?"),
        ("shar", "did you mean share?"),
        ("zzz", ""),
    ],
)
def test_find_knob_guesses_what_was_meant(name: str, guess: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_knob(KNOBS, name)
    assert caught.value.hint == guess


def test_resolve_edits_refuses_one_knob_twice() -> None:
    assert resolve_edits(KNOBS, {"lr": "3e-6", "eager": True}) == {LR: 3e-6, EAGER: True}
    with pytest.raises(ConfigError, match="set twice"):
        resolve_edits(KNOBS, {"lr": 1.0, "optim.lr": 2.0})


def test_split_assignment() -> None:
    assert split_assignment("a.b = x=y") == ("a.b", "x=y")
    for wrong in ("a", "=1"):
        with pytest.raises(UsageError):
            split_assignment(wrong)


NAMES = Knob("orchestrator.names", "list", (), "", ["a"])
OTHERS = (
    Knob("trainer.extra.lr", "float", (), ""),
    Knob("env.0.seed", "int", (), ""),
    Knob("sft.x", "str", (), ""),
)


def test_parse_value_reads_lists() -> None:
    assert parse_value(NAMES, '["a",\n "b"]') == ["a", "b"]
    with pytest.raises(ConfigError, match="must be a list") as caught:
        parse_value(NAMES, "a,b")
    assert caught.value.hint == 'write a list as ["a", "b"] or [1, 2]'


def test_other_keys_are_found_after_knobs_and_may_change_their_kind_of_number() -> None:
    assert find_knob(KNOBS, "lr", others=OTHERS) is LR
    assert find_knob(KNOBS, "extra.lr", others=OTHERS).key == "trainer.extra.lr"
    assert resolve_edits(KNOBS, {"env.0.seed": "1.5", "sft.x": "5"}, others=OTHERS) == {
        OTHERS[1]: 1.5,
        OTHERS[2]: "5",
    }
    with pytest.raises(ConfigError, match=r"env\.0\.seed must be a whole number"):
        resolve_edits(KNOBS, {"env.0.seed": "many"}, others=OTHERS)


def test_an_unknown_key_is_added_only_where_that_is_wanted() -> None:
    added: dict[str, Any] = {}

    def add(name: str, value: Any) -> Knob:
        added[name] = value
        return Knob(name, "str" if isinstance(value, str) else "list", (), "")

    edits = {"new.list": "[1, 2]", "new.text": "plain text"}
    with pytest.raises(ConfigError, match=r"unknown knob new\.list"):
        resolve_edits(KNOBS, edits)
    assert list(resolve_edits(KNOBS, edits, add=add).values()) == [[1, 2], "plain text"]
    assert added == {"new.list": [1, 2], "new.text": "plain text"}
    with pytest.raises(ConfigError, match="unknown knob"):
        resolve_edits(KNOBS, {"never.there": None}, add=add)


def test_a_short_name_means_the_main_knob() -> None:
    fake = Knob("trainer.data.fake.batch_size", "int", (), "", main=False)
    assert find_knob((fake, BATCH), "batch_size") is BATCH
    assert find_knob((fake, BATCH), "fake.batch_size") is fake


def test_an_unknown_name_finds_what_is_meant() -> None:
    """Finding C4."""
    rate = Knob("trainer.optim.lr", "float", (), "Learning rate of the optimizer.")
    with pytest.raises(ConfigError) as caught:
        find_knob([rate, BATCH, MODEL], "learning_rate")
    assert caught.value.hint == "did you mean trainer.optim.lr?"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lr", 0),
        ("optim", 0),
        ("trainer.optim", 0),
        ("op", 1),
        ("optim.l", 1),
        ("decay", 2),
        ("ecay", 3),
        ("learning", IN_TEXT),
        ("earn", IN_TEXT + 1),
        ("lr learning", IN_TEXT),
        ("LR", 0),
        ("weight-d", 1),
        ("lr absent", None),
        ("", 0),
    ],
)
def test_ranks(words: str, expected: int | None) -> None:
    assert rank(words.split(), "trainer.optim.lr.weight_decay", "Learning rate, already scaled.") == expected


def test_help_comes_last() -> None:
    keys = {"orchestrator.async": "What is already there.", "trainer.lr_warmup": "", "trainer.optim.lr": ""}
    ranked = sorted(keys, key=lambda key: rank(["lr"], key, keys[key]) or 0)
    assert ranked == ["trainer.optim.lr", "trainer.lr_warmup", "orchestrator.async"]


def test_places_are_marked() -> None:
    assert pattern(["lr"]).sub(r"[\g<0>]", "a Lr already") == "a [Lr] a[lr]eady"
    assert pattern([]).sub("!", "all") == "all"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (1e-6, 0.2, "0.2 is 200,000 times higher than 1e-06; is that intended?"),
        (1e-3, 1e-5, "1e-05 is 100 times lower than 0.001; is that intended?"),
        (1e-6, 1e-5, None),
        (None, 1e-5, None),
        (0.0, 1e-5, None),
    ],
)
def test_a_learning_rate_far_from_the_last_one(before: object, after: object, text: str | None) -> None:
    result = large_step("trainer.optim.lr", before, after)
    assert result == text
    assert large_step("trainer.seq_len", before, after) is None
