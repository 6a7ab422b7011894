"""What must hold after every fault, each as an assertion that says what was shown and what was true."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from tests.faults.harness import COMPONENTS, TRUE_WITHIN_S, Experiment
from tests.faults.truth import Being, read_numbers, tagged
from tests.waiting import retry_until

ALIVE = {"starting", "ready", "stopping"}
SWEPT_WITHIN_S = 8.0
"""From the end of a main process to the SIGKILL of descendants that ignore SIGTERM, and a margin."""


def assert_all(
    experiment: Experiment, before: Mapping[str, Being], *, may_end: Collection[str] = (), logs: bool = True
) -> None:
    """Every invariant, once nothing is on its way. `before`: the mains from before the fault."""
    assert_nobody_else_died(before, may_end)
    assert_shown_is_true(experiment)
    assert_stopped_means_gone(experiment)
    assert_exits_are_known(experiment)
    assert_records_parse(experiment)
    assert_started_once(experiment)
    if logs:
        for component in COMPONENTS:
            assert_log_is_whole(experiment, component)


def assert_nobody_else_died(before: Mapping[str, Being], may_end: Collection[str]) -> None:
    """(a) No component dies that was not asked to."""
    died = [main for name, main in before.items() if name not in may_end and not main.is_alive]
    assert not died, f"died without being asked to: {died}"


def assert_shown_is_true(experiment: Experiment) -> None:
    """(e) What is shown is so, at the latest after `TRUE_WITHIN_S`."""
    try:
        retry_until(lambda: not _lies(experiment), timeout_s=TRUE_WITHIN_S)
    except TimeoutError:
        lies = _lies(experiment)
        assert not lies, f"shown for {TRUE_WITHIN_S:g} s: {lies}; {experiment.describe()}"


def assert_stopped_means_gone(experiment: Experiment) -> None:
    """(b) Nothing of a component that shows `stopped` is left, and soon nothing of one that ended itself."""
    shown = experiment.shown()
    left = [
        being
        for name in COMPONENTS
        if shown[name]["state"] == "stopped"
        for being in experiment.truth.living(name)
    ]
    assert not left, f"survived the stop: {left}"
    ended = [name for name in COMPONENTS if shown[name]["state"] in {"failed", "exited"}]
    try:
        retry_until(
            lambda: not any(experiment.truth.living(name) for name in ended), timeout_s=SWEPT_WITHIN_S
        )
    except TimeoutError:
        raise AssertionError(f"leftovers are not ended: {experiment.describe()}") from None


def assert_exits_are_known(experiment: Experiment) -> None:
    """(c) Exit code or signal of every attempt whose shim lived to see its end."""
    for name in COMPONENTS:
        newest = [being for being in experiment.truth.beings(name) if being.role == "main"][-3:]
        for main in newest:
            if main.is_alive or (name, main.attempt) in experiment.unrecorded:
                continue
            record = attempt_record(experiment, name, main.attempt)
            known = record["exit_code"] is not None or record["signal"] is not None
            assert known, f"how {name} ended is unknown: {record}"


def assert_records_parse(experiment: Experiment) -> None:
    """(d) Journal and records were whole whenever they were read."""
    experiment.watcher.read()
    assert not experiment.watcher.problems, experiment.watcher.problems


def assert_log_is_whole(experiment: Experiment, component: str) -> None:
    """(f) No byte of the newest attempt's output is lost: no gap in its numbers, to the last one printed."""
    attempts = experiment.attempts(component)
    newest = next((b for b in reversed(experiment.truth.beings(component)) if b.role == "main"), None)
    if newest is None or newest.attempt != attempts[-1] or (component, attempts[-1]) in experiment.cut_logs:
        return
    printed = experiment.truth.printed(component, attempts[-1])
    numbers = read_numbers(experiment.log(component).read_bytes())
    assert numbers == list(range(len(numbers))), f"{component}: a gap among {len(numbers)} numbers"
    assert len(numbers) > printed, f"{component}: {printed} was printed, {len(numbers)} are in the log"


def assert_started_once(experiment: Experiment) -> None:
    """(g) Never two living mains of a component, one main per attempt, every attempt with its folder."""
    assert not (doubles := experiment.truth.doubles()), f"two main processes at once: {doubles}"
    for component in COMPONENTS:
        attempts = [b.attempt for b in experiment.truth.beings(component) if b.role == "main"]
        assert len(attempts) == len(set(attempts)), f"{component}: an attempt was started twice: {attempts}"


def assert_nothing_left(experiment: Experiment) -> None:
    """(b) After the end of the whole experiment."""
    left = [being for name in COMPONENTS for being in experiment.truth.living(name)]
    assert not left, f"survived the end of everything: {left}"
    assert not (of_it := tagged(experiment.tag)), f"survived the end of everything: {of_it}"


def assert_ended(
    experiment: Experiment, component: str, *, code: int | None = None, signal: str | None = None
) -> None:
    """It is shown as ended with that exit code or signal, in time; what it left may still be being ended."""

    def ended() -> bool:
        item = experiment.shown()[component]
        told = (item["exit_code"], item["signal"]) == (code, signal)
        return told and item["state"] not in {"starting", "ready"}

    try:
        retry_until(ended, timeout_s=TRUE_WITHIN_S)
    except TimeoutError:
        raise AssertionError(f"not shown as ended by {code or signal}: {experiment.describe()}") from None


def attempt_record(experiment: Experiment, component: str, attempt: int | None = None) -> dict[str, Any]:
    """What the shim of an attempt wrote, by default of the newest."""
    number = attempt or experiment.attempts(component)[-1]
    path = experiment.attempt_dir(component, number) / "attempt.json"
    record: dict[str, Any] = json.loads(path.read_bytes())
    return record


def _lies(experiment: Experiment) -> list[str]:
    """Components whose main process is not as shown."""
    shown = experiment.shown()
    mains = experiment.truth.mains()
    lies = []
    for name, item in shown.items():
        main = mains.get(name)
        if main is not None and (item["state"] not in ALIVE or item["pid"] != main.pid):
            lies.append(f"{name} is {item['state']} with pid {item['pid']}, but {main.pid} lives")
        if main is None and item["state"] in {"starting", "ready"}:
            lies.append(f"{name} is {item['state']} with pid {item['pid']}, but no main process lives")
    return lies
