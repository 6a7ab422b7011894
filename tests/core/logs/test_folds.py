from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.logs.folds import LogFolds
from rltui.core.logs.lines import decode_line, plain_text

DATA = Path(__file__).parents[2] / "data"


def visible(*lines: str) -> list[str]:
    folds = LogFolds(lambda number: lines[number], lambda number: "")
    folds.set_range(0, len(lines))
    rows = [number for number in range(len(lines)) if not folds.is_hidden(number)]
    return [f"{folds.count_text(number)} {lines[number]}".lstrip(" ") for number in rows]


def test_repeated_lines_are_one_with_a_count() -> None:
    assert visible("12:00:00 INFO a", "12:00:01 INFO a", "12:00:02 INFO a", "b", "b", "", "", "c") == [
        "×3 12:00:02 INFO a",
        "×2 b",
        "",
        "",
        "c",
    ]
    assert visible("12:00:00 INFO a", "12:00:01 ERROR a") == ["12:00:00 INFO a", "12:00:01 ERROR a"]


def test_of_a_progress_bar_the_newest_state_is_left() -> None:
    assert visible(
        "Loading shards:  50% Completed | 1/2",
        "Loading shards: 100% Completed | 2/2",
        "Generating: 100%|##| 8/8 [00:00<00:00]",
        "12:00:01 SUCCESS Step 1",
        "Generating: 100%|##| 8/8 [00:01<00:00]",
        "12:00:01 SUCCESS Step 2",
    ) == [
        "×2 Loading shards: 100% Completed | 2/2",
        "12:00:01 SUCCESS Step 1",
        "×2 Generating: 100%|##| 8/8 [00:01<00:00]",
        "12:00:01 SUCCESS Step 2",
    ]


def step(number: int) -> list[str]:
    return [
        f"12:00:{number:02d}    INFO Starting orchestrator step {number}",
        f"12:00:{number:02d}    INFO Orchestrator paused: waiting for trainer to write checkpoint {number}",
        f"12:00:{number:02d}    INFO Orchestrator resumed: checkpoint {number} ready (after 0.{number}s)",
        f"Generating rollouts (train): 100%|####| {number}/128 [00:00<00:00]",
        f"12:00:{number:02d} SUCCESS Step {number} | Time: 0.2s | Reward: 0.{number}",
    ]


def test_what_is_said_at_every_step_stands_once() -> None:
    lines = [line for number in range(1, 6) for line in step(number)]
    newest = [f"×5 {line}" for line in step(5)[:-1]]
    assert visible(*lines) == [*(step(number)[-1] for number in range(1, 5)), *newest, step(5)[-1]]
    many = [line for number in range(1, 60) for line in step(number)]
    assert visible(*many)[-2].startswith("×26+ Generating")


@pytest.mark.parametrize(
    "say",
    [
        "12:00:00    INFO loss {}.5",
        "12:00:00 WARNING Cancelled {} rollouts",
        "12:00:00 SUCCESS checkpoint {}",
        "step {}",
        "12:00:00    INFO {} of 1 in 2 by 3",
    ],
)
def test_lines_that_may_be_of_interest_are_all_shown(say: str) -> None:
    lines = [line for number in range(3) for line in (say.format(number), f"other {number}")]
    assert visible(*lines) == lines


def test_a_list_is_shown_whole_and_clients_are_one() -> None:
    free_lines = [f"12:00:00    INFO GPU {number} is free" for number in range(4)]
    assert visible(*free_lines) == free_lines
    requests = [f'INFO:     127.0.0.1:{port} - "GET /health HTTP/1.1" 200 OK' for port in (1, 22, 333)]
    assert visible(requests[0], "a", requests[1], "b", requests[2]) == ["a", "b", f"×3 {requests[2]}"]


def test_a_quiet_server_is_one_line() -> None:
    """Finding R7: what asks how it is, rltui itself above all, stood there in blocks by port."""
    requests = [
        f'(APIServer pid=23428) INFO:     127.0.0.1:{50000 + at // 3} - "GET /{what} HTTP/1.1" 200 OK'
        for at, what in enumerate(["metrics", "metrics", "health", "metrics", "metrics"] * 20)
    ]
    assert visible(*requests) == [f"×100 {requests[-1]}"]
    other = requests[0].replace("200 OK", "503 Service Unavailable")
    assert visible(requests[0], other) == [requests[0], other]


def test_what_a_router_says_of_each_request_is_said_once() -> None:
    messages = [
        f"2026-11-24 17:45:58  INFO vllm_router_rs::policies::a: src/a.rs:{356 + at}: {what} 'id:{id_:032x}'"
        for id_ in range(5)
        for at, what in enumerate(("Extracted", "Mapped", "Routed"))
    ]
    assert visible(*messages) == [f"×5 {line}" for line in messages[-3:]]


def test_what_is_new_makes_the_newest_old() -> None:
    lines = [*step(1), *step(2)]
    folds = LogFolds(lambda number: lines[number], lambda number: "")
    folds.set_range(0, 5)
    assert not any(folds.is_hidden(number) for number in range(5))
    assert set(folds.set_range(0, 10)) >= set(range(5))
    assert [folds.is_hidden(number) for number in range(5)] == [True] * 4 + [False]
    assert not folds.set_range(0, 10)


def traceback(rank: int, last: str = "RuntimeError: device 3") -> list[str]:
    texts = ("Traceback (most recent call last):", f'  File "t.py", line {rank}', last)
    return [f"[trainer{rank}]:{text}" for text in texts]


def test_tracebacks_of_further_ranks_are_one() -> None:
    first, *rest = traceback(0)
    blocks = [traceback(rank) for rank in range(3)]
    assert visible(*(line for block in blocks for line in block), "end") == [
        f"×3 ranks {first}",
        *rest,
        "end",
    ]
    at_once = [line for lines in zip(*blocks, strict=True) for line in lines]
    assert visible(*at_once, "end") == [f"×3 ranks {first}", *rest, "end"]
    assert visible(*at_once, *at_once) == [f"×3 ranks {first}", *rest] * 2
    other = [*traceback(0), *traceback(1, "ValueError: other")]
    assert visible(*other) == other


def test_what_one_rank_says_after_the_others_joins_them() -> None:
    between = [f"[trainer3]: line {number}" for number in range(20)]
    lines = [*traceback(0), *traceback(1), *between, *traceback(2)]
    folds = LogFolds(lambda number: lines[number], lambda number: "")
    folds.set_range(0, len(lines) - 3)
    assert folds.count_text(0) == "×2 ranks"
    folds.forget(len(lines) - 4)
    assert 0 in folds.set_range(0, len(lines))
    assert folds.count_text(0) == "×3 ranks"


def test_four_ranks_that_ran_out_of_memory() -> None:
    lines = (DATA / "oom" / "torch-2.10-torchrun-four-ranks.log").read_text().splitlines()
    visible_lines = visible(*lines)
    assert sum("Traceback" in line for line in visible_lines) == 1
    assert visible_lines[0] == f"×4 ranks {lines[0]}"
    assert visible_lines[5] == lines[5]


def test_a_recorded_run_of_prime_rl() -> None:
    lines = (DATA / "prime_rl" / "logs" / "split.log").read_bytes().split(b"\n")[:-1]
    visible_lines = visible(*(plain_text(decode_line(line)) for line in lines))
    assert len(visible_lines) == len(lines)


def test_a_run_without_end_is_shown_now_and_then() -> None:
    assert len(visible(*["same"] * 4096)) == 8


PIECES: list[list[str]] = [
    *(
        [text]
        for text in ("12:00:00 INFO same", "12:00:00 ERROR same", "plain", "", "[trainer0]:12:00:00 INFO a")
    ),
    *(step(number) for number in (1, 2, 33)),
    *(traceback(rank) for rank in range(3)),
    traceback(1, "ValueError: other"),
    traceback(2)[:2],
    [line for lines in zip(traceback(0), traceback(1), strict=True) for line in lines],
]


@given(st.lists(st.sampled_from(PIECES), max_size=20), st.integers(0))
def test_what_is_kept_while_a_log_grows_is_what_is_found_anew(pieces: list[list[str]], seed: int) -> None:
    """Also where the newest line is read before it is whole; what is painted elsewhere is told of."""
    whole = [line for piece in pieces for line in piece]
    rng = random.Random(seed)
    lines: list[str] = []
    folds = LogFolds(lambda number: lines[number], lambda number: "")
    painted: dict[int, tuple[bool, str]] = {}
    while lines != whole:
        if lines:
            folds.forget(len(lines) - 1)
            painted.pop(len(lines) - 1, None)
        lines[:] = whole[: rng.randint(len(lines), len(whole))]
        if lines and rng.random() < 0.3:
            lines[-1] = lines[-1][: len(lines[-1]) // 2]
        for number in folds.set_range(0, len(lines)):
            painted.pop(number, None)
        anew = LogFolds(lambda number: lines[number], lambda number: "")
        anew.set_range(0, len(lines))
        for number in rng.sample(range(len(lines)), rng.randint(0, len(lines))):
            fold = painted.setdefault(number, (folds.is_hidden(number), folds.count_text(number)))
            assert fold == (anew.is_hidden(number), anew.count_text(number)), number
