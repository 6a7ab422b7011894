from __future__ import annotations

from rltui.core.logs.failure_cause import LONGEST_TEXT, Cause, Confidence, FailurePattern, find_cause

FULL = FailurePattern("full", r"GPU (?P<gpu>\d+) is full", "GPU {gpu} is full", hopeless=True)
BUSY = FailurePattern("busy", r"port (?P<port>\d+)(?: of (?P<host>\w+))? is busy", "port {port} at {host}")
OOM = FailurePattern("oom", r"out of memory", "memory", hopeless=True, weight=Confidence.BROAD)
DEAD = FailurePattern("dead", r"engine (?P<n>\d+) died", "engine {n} died", weight=Confidence.GENERIC)
ERROR = FailurePattern("error", r"^(?P<what>\w+Error): .*$", "{what}", weight=Confidence.GENERIC)
ALL = (ERROR, DEAD, OOM, BUSY, FULL)


def test_the_first_exact_text_is_the_root_cause() -> None:
    lines = ["ValueError: x", "out of memory", "GPU 3 is full", "port 80 is busy", "engine 1 died"]
    assert find_cause(lines, ALL) == Cause("GPU 3 is full", hopeless=True)


def test_a_broad_text_goes_before_the_generic_ones_wherever_it_stands() -> None:
    assert find_cause(["engine 1 died", "out of memory"], ALL) == Cause("memory", hopeless=True)


def test_of_generic_texts_the_order_of_the_table_counts_and_the_newest_line() -> None:
    assert find_cause(["KeyError: a", "engine 1 died", "TypeError: b"], ALL) == Cause("TypeError", False)
    assert find_cause(["engine 1 died", "engine 2 died"], ALL) == Cause("engine 2 died", False)


def test_nothing_known_is_none() -> None:
    assert find_cause(["step 1", "step 2"], ALL) is None
    assert find_cause([], ALL) is None


def test_what_an_engine_says_behind_a_requested_shutdown_is_no_failure() -> None:
    shutdown = "INFO [shutdown] API server: shutdown triggered"
    assert find_cause([shutdown, "engine 1 died"], ALL) is None
    assert find_cause(["engine 1 died", shutdown, "engine 2 died"], ALL) == Cause("engine 1 died", False)


def test_a_group_that_took_no_part_is_a_question_mark() -> None:
    assert find_cause(["port 80 is busy"], ALL) == Cause("port 80 at ?", False)


def test_a_long_text_is_cut_and_stays_on_one_line() -> None:
    loud = FailurePattern("loud", r"(?s)said (?P<what>.*)", "{what}")
    cause = find_cause(["said a", "b" * 1000], (loud,))
    assert cause is not None
    assert len(cause.text) == LONGEST_TEXT
    assert cause.text.startswith("a bbb")
    assert cause.text.endswith("…")
