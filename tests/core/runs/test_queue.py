"""Who of the queue may start, and why the others wait."""

from __future__ import annotations

import pytest

from rltui.core.experiment.request import ExperimentRequest
from rltui.core.runs.queue import REBOOTED, QueueEntry, RunQueue, decide, is_kept_variable, stop_rule

START = {"request": ExperimentRequest(), "added_at": 1.0}


def entry(name: str, **values: object) -> QueueEntry:
    return QueueEntry.from_plain({**START, "id": name, "name": name, "folder": f"/o/{name}", **values})


def queue(*entries: QueueEntry, **values: object) -> RunQueue:
    return RunQueue(entries=entries).replace(**values)


def next_of(
    queue: RunQueue, free: int = 0, *, change: str = "", now: float = 100.0
) -> tuple[str, dict[str, str]]:
    """Who starts on which of the `free` devices; why the others wait. `changed`: whose file is another."""

    def devices(item: QueueEntry) -> tuple[str, str]:
        gpu_count = item.gpus or 0
        if gpu_count > free:
            return "", f"{gpu_count} GPUs, {free} free"
        return ",".join(map(str, range(gpu_count))), ""

    result = decide(
        queue,
        now,
        devices=devices,
        changed=lambda item: "rl.toml was changed" if item.name == change else "",
    )
    start = "" if result.start is None else f"{result.start.name}:{result.start.devices}"
    return start, dict(result.waits)


def test_without_devices_one_runs_at_a_time_unless_the_sweep_or_the_queue_says_more() -> None:
    a, b, c = entry("a"), entry("b"), entry("c")
    running = a.replace(state="running")
    assert next_of(queue(a, b)) == ("a:", {"b": "a is starting"})
    start, waits = next_of(queue(running, b, c))
    assert start == ""
    assert waits == {
        "b": "a is running; without devices, runs start one at a time",
        "c": "after b: a is running; without devices, runs start one at a time",
    }
    assert next_of(queue(running, b, c, max_parallel=2))[0] == "b:"
    of_sweep = [item.replace(group="s", max_parallel=2) for item in (running, b, c)]
    assert next_of(queue(*of_sweep))[0] == "b:"
    two = [of_sweep[0], of_sweep[1].replace(state="running"), of_sweep[2]]
    assert next_of(queue(*two)) == ("", {"c": "s: 2 of at most 2 running"})
    starting = a.replace(state="starting")
    assert next_of(queue(starting, b, max_parallel=9)) == ("", {"b": "a is starting"})


def test_jobs_take_nothing_of_this_machine_and_wait_for_nothing_here_but_for_others_of_their_sweep() -> None:
    here, big = entry("here", state="running"), entry("big", gpus=4)
    jobs = [entry(name, is_job=True, group="s") for name in ("j1", "j2", "j3")]
    start, waits = next_of(queue(here, big, *jobs, max_parallel=1))
    assert start == "j1:"
    assert waits["big"] == "1 of at most 1 running"
    assert waits["j2"] == "j1 is starting"
    submitted = [item.replace(state="running") for item in jobs]
    assert next_of(queue(*submitted, entry("b"), max_parallel=1))[0] == "b:"
    limited = [item.replace(max_parallel=2) for item in (*submitted[:2], jobs[2])]
    assert next_of(queue(*limited)) == ("", {"j3": "s: 2 of at most 2 running"})
    starting = jobs[0].replace(state="starting")
    start, waits = next_of(queue(starting, jobs[1], entry("b", gpus=1)), free=1)
    assert (start, set(waits.values())) == ("", {"j1 is starting"})


def test_nobody_overtakes_who_waits_for_devices_but_those_who_wait_for_themselves_hold_up_nobody() -> None:
    big, small = entry("big", gpus=4), entry("small", gpus=1)
    start, waits = next_of(queue(big, small), free=2)
    assert (start, waits["small"]) == ("", "after big: 4 GPUs, 2 free")
    assert next_of(queue(big, small), free=4)[0] == "big:0,1,2,3"
    urgent = small.replace(priority=1)
    assert next_of(queue(big, urgent), free=2)[0] == "small:0"
    later = big.replace(not_before=200.0, failure="trainer: exited 1")
    start, waits = next_of(queue(later, small), free=2)
    assert (start, waits) == ("small:0", {"big": "trainer: exited 1; retrying"})
    assert next_of(queue(later, small), free=4, now=201.0)[0] == "big:0,1,2,3"
    assert next_of(queue(big, small), free=4, change="big") == ("small:0", {"big": "rl.toml was changed"})
    assert next_of(queue(big, small, paused="by hand"), free=4)[0] == ""


def test_a_failed_run_waits_longer_each_time_and_is_given_up() -> None:
    one = entry("a", retries=2, state="running")
    pauses = []
    for _ in range(2):
        one = one.ended("failed", "trainer: exited 1", 100.0)
        assert one.state == "queued"
        assert one.not_before is not None
        pauses.append(one.not_before - 100.0)
    assert pauses == [5.0, 20.0]
    one = one.ended("failed", "trainer: exited 1", 100.0)
    assert (one.state, one.failures, one.why) == ("failed", 3, "trainer: exited 1")
    assert entry("b", retries=2, state="stopping").ended("stopped", "by rule", 1.0).state == "stopped"


def test_after_a_reboot_it_waits_unless_it_was_told_to_go_on() -> None:
    before = queue(
        entry("a", state="running"), entry("b"), entry("c", state="stopping", outcome="done"), boot="one"
    )
    after = before.since_boot("two")
    assert [item.state for item in after.entries] == ["queued", "queued", "done"]
    assert (after.paused, after.boot) == (REBOOTED, "two")
    assert after.is_idle
    assert before.since_boot("one") == before
    assert before.replace(after_reboot=True).since_boot("two").paused == ""
    assert queue(entry("a", state="done"), boot="one").since_boot("two").paused == ""


def test_ended_entries_and_surroundings_nobody_needs_are_forgotten() -> None:
    many = [entry(f"e{n}", state="done", ended_at=float(n), surroundings="x") for n in range(250)]
    kept_names = (
        queue(entry("open", surroundings="y")).replace(surroundings={}).with_entries([entry("open"), *many])
    )
    assert len(kept_names.entries) == 201
    assert kept_names.entries[0].name == "open"
    assert kept_names.entries[1].name == "e50"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("reward < 0.2 at 50", ("reward < 0.2", 50)),
        ("kl > 10", ("kl > 10", None)),
        ("reward < 0.2 and kl > 1  at step 7", ("reward < 0.2 and kl > 1", 7)),
    ],
)
def test_rules(text: str, result: tuple[str, int | None]) -> None:
    assert stop_rule(text) == result


def test_keys_are_never_written_down() -> None:
    kept_names = ["PATH", "CUDA_VISIBLE_DEVICES", "HF_HOME", "XDG_STATE_HOME", "WANDB_PROJECT", "TMUX_TMPDIR"]
    secret_names = [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "OPENAI_API_KEY",
        "VLLM_API_KEY",
        "SSH_AUTH_SOCK",
        "AWS_SECRET",
    ]
    assert [name for name in (*kept_names, *secret_names) if is_kept_variable(name)] == kept_names
