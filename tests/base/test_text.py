from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.base.text import (
    age,
    did_you_mean,
    duration,
    escape_json,
    join_first,
    json_to_encoding,
    short_command,
    ssh_host,
    to_encoding,
    unknown_name,
    visible,
)

ALL_TEXT = st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "plain ● text, ⚠\ufe0f, e\u0301, 日本\n\tand more",
            "plain ● text, ⚠\ufe0f, e\u0301, 日本\n\tand more",
        ),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b31m", "‹U+009B›31m"),
        ("a\r\nb\x7f\x00", "a␍\nb␡␀"),
        ("user\u202etxt.exe\u2066", "user‹U+202E›txt.exe‹U+2066›"),
        ("pay\u200bpal\U000e0041", "pay‹U+200B›pal‹U+E0041›"),
        ("caf\udce9", "caf‹0xE9›"),
        ("half \ud83d", "half ‹U+D83D›"),
    ],
)
def test_what_cannot_be_seen_gets_a_stand_in(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(ALL_TEXT)
def test_nothing_visible_acts_on_a_terminal(text: str) -> None:
    visible_text = visible(text)
    assert not {unicodedata.category(sign) for sign in visible_text if sign not in "\n\t"} & {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }
    assert visible(visible_text) == visible_text


@given(ALL_TEXT)
def test_json_stays_the_same_document(text: str) -> None:
    for document in (json.dumps({text: [text]}, ensure_ascii=False), json.dumps(text, ensure_ascii=False)):
        escaped = escape_json(document)
        assert json.loads(escaped) == json.loads(document)
        assert visible(escaped) == escaped
        assert json.loads(json_to_encoding(escaped, "ascii")) == json.loads(document)


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("● trainer → 2 … Größe", "utf-8", "● trainer → 2 … Größe"),
        ("● trainer → 2 … Größe ␛ ␡ ‹U+202E› 日 ━", "ascii", "* trainer -> 2 ... Grosse ^[ ^? <U+202E> ? ="),
        ("● Größe", "latin-1", "* Größe"),
        ("▁▂▃▄▅▆▇█ 0.5 ± 0.1 ★ ∞", "ascii", "_.-=+*%# 0.5 +/- 0.1 * inf"),
    ],
)
def test_what_the_encoding_lacks_is_told_in_what_it_has(text: str, encoding: str, expected: str) -> None:
    assert to_encoding(text, encoding) == expected


@given(ALL_TEXT, st.sampled_from(["ascii", "latin-1", "cp437", "utf-8"]))
def test_everything_can_be_encoded(text: str, encoding: str) -> None:
    assert to_encoding(visible(text), encoding).encode(encoding).isascii() or encoding != "ascii"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/venv/bin/python3 -I /work/tests/family.py out/pids", "python3 -I family.py out/pids"),
        ("VLLM::EngineCore", "VLLM::EngineCore"),
        ("/usr/bin/vllm serve https://host/a/b /", "vllm serve https://host/a/b /"),
        ("python " + "x" * 60, "python " + "x" * 32 + "…"),
        ("python\x1b[31m -c\n1", "python [31m -c 1"),
        ("", ""),
    ],
)  # fmt: skip
def test_short_command(command: str, words: str) -> None:
    assert short_command(command) == words


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("ssh node7 nvidia-smi", "node7"),
        ("/usr/bin/ssh -tt -o BatchMode=yes -p 22 -i key ada@node7 run -p 1", "ada@node7"),
        ("ssh -p22 node7", "node7"),
        ("ssh", None),
        ("sshd node7", None),
        ("python train.py", None),
        ("", None),
    ],
)
def test_the_machine_that_an_ssh_command_runs_on(command: str, host: str | None) -> None:
    assert ssh_host(command.split()) == host


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0s"), (59, "59s"), (60, "1m00s"), (599, "9m59s"), (600, "10m"), (3599, "59m"), (3600, "1h00m"),
        (7500, "2h05m"), (86_399, "23h59m"), (86_400, "1d00h"), (273_600, "3d04h"),
    ],
)  # fmt: skip
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_name_that_nobody_knows_is_told_with_the_nearest() -> None:
    assert did_you_mean("lerning_rate", ["learning_rate", "seed"]) == "did you mean learning_rate?"
    assert did_you_mean("x", ["learning_rate", "seed"]) == ""
    error = unknown_name("knob", "sed", ["seed", "lr"])
    assert (error.title, error.hint) == ("unknown knob: sed", "did you mean seed?")
    assert unknown_name("knob", "sed", []).hint == "none yet"


def test_of_many_names_some_are_told() -> None:
    message = str(unknown_name("run", "zzz", [f"run-{number}" for number in range(60)]))
    assert "run-7 and 52 more" in message
    assert "run-8" not in message


@pytest.mark.parametrize(
    ("seconds", "words"), [(4.9, "0s"), (5, "5s"), (59, "55s"), (60, "1m"), (119, "1m"), (3600, "1h00m")]
)
def test_age_is_coarse(seconds: float, words: str) -> None:
    assert age(seconds) == words


def test_a_single_further_name_is_named() -> None:
    assert join_first(["a", "b", "c"], 2) == "a, b and c"
    assert join_first(["a", "b", "c", "d"], 2) == "a, b and 2 more"
