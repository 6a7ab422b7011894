from __future__ import annotations

from pathlib import Path

import pytest

from rltui.tinyrl.config_file import parse_arguments, parse_value
from rltui.tinyrl.errors import TinyrlError


def test_files_and_overrides_keep_their_order() -> None:
    arguments = parse_arguments(["@", "a.toml", "--max-steps", "5", "@", "b.toml", "--trainer.optim.lr=1e-3"])
    assert arguments.files == [Path("a.toml"), Path("b.toml")]
    assert arguments.overrides == {"max_steps": 5, "trainer.optim.lr": 1e-3}


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("1e-3", 1e-3), ("true", True), ("None", None), ("a/b", "a/b"), ('"3"', "3"), ("-1", -1)],
)
def test_parse_value_reads_toml_or_text(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_flags_without_value_are_booleans() -> None:
    words = ["--orchestrator.strict-async-level", "--orchestrator.no-other", "@", "a.toml"]
    arguments = parse_arguments(words)
    assert arguments.overrides == {"orchestrator.strict_async_level": True, "orchestrator.other": False}


def test_negative_number_is_a_value() -> None:
    assert parse_arguments(["--ckpt.resume-step", "-1"]).overrides == {"ckpt.resume_step": -1}


@pytest.mark.parametrize(
    ("words", "message"),
    [(["@"], "needs a file"), (["@rl.toml"], "put a space"), (["rl.toml"], "unexpected argument")],
)
def test_wrong_words_are_explained(words: list[str], message: str) -> None:
    with pytest.raises(TinyrlError, match=message):
        parse_arguments(words)
