from __future__ import annotations

import pytest

from rltui.core.logs.numbers import NumberLines, recurrence, without_numbers

VLLM = (
    "Engine 000: Avg prompt throughput: 16.8 tokens/s, Avg generation throughput: 34.4 tokens/s, "
    "Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%"
)
VLLM_FORM = "Run   0 Wait   0 KV   0.0% prompt    16.8 gen    34.4 hit   0.0%"
BUSY = (
    "Engine 003: Avg prompt throughput: 45968.0 tokens/s, Avg generation throughput: 2648.0 tokens/s, "
    "Running: 128 reqs, Waiting: 12 reqs, GPU KV cache usage: 99.9%, Prefix cache hit rate: 3.1%, "
    "MM cache hit rate: 50.0%"
)
STEP = (
    "Step 13 | Time: 0.27s | Reward: 0.8749 | Throughput: 7817.5 tokens/s | Seq. Length: 16.2 tokens/sample "
    "| Async Level: 1 | Max. Off-Policy Level: 0"
)


EVALUATED = "Evaluated reverse-text (Step 20) | 0.1s | Reward 0.8333 | Turns 1.0 | Error 0.0%"
DICT = "{'loss': 0.447, 'learning_rate': '1e-05', 'reward': 0.25, 'reward/std': 0.1, 'entropy': 0.44}"
"""Of vf-rl's trainer."""


def shortened(message: str, cells: int, lines: NumberLines | None = None) -> str:
    text = f"12:00:00 {message}"
    parts = (lines or NumberLines()).parts(text, 9, cells)
    if parts is None:
        return message
    return " ".join(" " * part.indent + text[part.start : part.stop] for part in parts)


@pytest.mark.parametrize(
    ("message", "cells", "expected"),
    [
        (VLLM, 200, VLLM_FORM),
        (VLLM, 30, VLLM_FORM),
        (BUSY, 200, "Run 128 Wait  12 KV  99.9% prompt 45968.0 gen  2648.0 hit   3.1% Engine 003"),
        (STEP, len(STEP), STEP),
        (STEP, 76, "Step 13 Time 0.27s Reward 0.8749 Throughput 7817.5 Seq 16.2 Async 1 Max 0"),
        (STEP, 72, "Step 13 Time 0.27s Rewa 0.8749 Thro 7817.5 Seq 16.2 Asyn 1 Max 0"),
        (STEP, 66, "Step 13 Time 0.27s Rew 0.8749 Thr 7817.5 Seq 16.2 Asy 1 Max 0"),
        (DICT, 78, "loss 0.447 learning_rate 1e-05 reward 0.25 reward/std 0.1 entropy 0.44"),
        (DICT, 72, "loss 0.447 lear 1e-05 rewa 0.25 std 0.1 entr 0.44"),
        (STEP, 20, "Step 13 Time 0.27s Reward 0.8749 Throughput 7817.5 Seq 16.2 Async 1 Max 0"),
        (EVALUATED, 60, "Evaluated reverse-text Step 20 0.1s Reward 0.8333 Turns 1.0 Error 0.0%"),
        ("Starting in World(rank=0, world_size=1, device=cpu, more=2)", 20, None),
        ("one 1, two 2, three 3", 5, None),
        ("x " * 400 + "1, 2, 3, 4", 5, None),
    ],
)
def test_figures_stay_when_a_line_is_too_long(message: str, cells: int, expected: str | None) -> None:
    assert shortened(message, cells) == (expected or message)


def test_every_figure_stays() -> None:
    for cells in range(10, 180):
        text = shortened(STEP, cells)
        assert all(figure in text for figure in ("13", "0.27s", "0.8749", "7817.5", "16.2", "1", "0"))
        assert len(text) <= max(cells, 74)


def test_lines_with_the_same_words_are_shortened_alike() -> None:
    lines = NumberLines()
    assert shortened(STEP, 76, lines).startswith("Step 13 Time 0.27s Reward ")
    assert shortened(STEP.replace("16.2", "9.25"), 76, lines).startswith("Step 13 Time 0.27s Reward ")
    longer = STEP.replace("7817.5", "107817.25")
    assert shortened(longer, 76, lines).startswith("Step 13 Time 0.27s Rewa ")
    assert shortened(STEP, 76, lines).startswith("Step 13 Time 0.27s Rewa ")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Starting step 3", "Starting step 14"),
        ("resumed: checkpoint 1 ready (after 0.69s)", "resumed: checkpoint 2 ready (after 3s)"),
        ('127.0.0.1:1 - "GET /x" 200', '10.1.1.1:234 - "GET /x" 200'),
    ],
)
def test_messages_that_come_again(one: str, other: str) -> None:
    assert recurrence(one) == recurrence(other) != ""


@pytest.mark.parametrize("message", ["", "loss 0.5", "1 2 3 4", "x" * 700])
def test_messages_with_news(message: str) -> None:
    assert recurrence(message) == ""


def test_sizes_and_addresses_are_figures() -> None:
    message_form = "Tried {} at {}, -0.5 of 1e-06"
    assert without_numbers(message_form.format("2.32 GiB", "0x7f")) == without_numbers(
        message_form.format("64 MiB", "0x1")
    )
