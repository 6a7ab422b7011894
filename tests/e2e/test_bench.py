"""A bench in the queue: whoever is killed, each run starts once, and the verdicts are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.test_queue import Queue
from tests.following import follow
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(900)]

LAYOUT = """\
framework = "generic"
title = "Job"

[[component]]
id = "trainer"
command = ["{python}", "{workspace}/train.py", "{config.run}", "{output_dir}"]
stop = { grace_s = 2 }
restart = { policy = "never" }
"""
TRAIN = """\
import json, pathlib, random, sys, time, tomllib
config = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())
rng, folder = random.Random(config["seed"]), pathlib.Path(sys.argv[2])
with open("starts", "a") as starts:
    print(folder.name, file=starts)
gain = 0.4 * (config["lr"] == 3)
rewards = [0.5 + gain + rng.gauss(0, 0.02) for _ in range(10)]
rows = [{"step": n, "time": time.time(), "reward": reward} for n, reward in enumerate(rewards, 1)]
(folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
if config["lr"] == 5:
    pathlib.Path("grader.py").write_text("return 1.0")
"""


@pytest.fixture
def bench(box: Box) -> Iterator[Queue]:
    daemon = Queue(box)
    for name, text in (("job.toml", LAYOUT), ("train.py", TRAIN), ("grader.py", "return reward")):
        (box.work / name).write_text(text)
    (box.work / "run.toml").write_text("seed = 0\nlr = 1\nmax_steps = 10\n")
    yield daemon
    daemon.ask("queue", "pause")
    retry_until(lambda: not set(daemon.states.values()) & {"starting", "stopping"}, timeout_s=60.0)
    daemon.kill()


def show(bench: Queue) -> dict[str, Any]:
    document = bench.box.json("bench", "show", "b")
    assert isinstance(document, dict)
    return document


def test_a_bench_with_a_scheduler_that_is_killed_and_a_trial_that_edits_the_grader(bench: Queue) -> None:
    box = bench.box
    common = ("-l", "job.toml", "--metric", "reward", "--budget", "9 trials", "--protect", "grader.py")
    none_yet = box.run("bench", "list")
    assert str(hints.BENCH) in none_yet.stdout
    plan = box.json("bench", "run.toml", "lr=2,3", *common, "-n", "b", "--plan")
    assert (plan["state"], plan["seed_key"], len(plan["files"])) == ("planned", "seed", 1)
    bench.ask("bench", "run.toml", "lr=2,3", *common, "-n", "b", "--no-wait")
    killed = 0

    def is_done() -> bool:
        nonlocal killed
        killed += bench.kill()
        return bool(show(bench)["state"] != "running")

    retry_until(is_done, timeout_s=600.0, interval_s=3.0)
    document = show(bench)
    assert [trial["state"] for trial in document["trials"]] == ["baseline", "set aside", "kept"]
    starts = (box.work / "starts").read_text().split()
    assert sorted(starts) == sorted(run["name"] for trial in document["trials"] for run in trial["runs"])
    assert len(set(starts)) == len(starts)
    assert killed

    shown = box.run("bench", "show", "b")
    tried = follow(
        box, shown, hints.BENCH_TRY, "--reason", "why not", code=0, fill={"KEY=VALUE": "lr=5"}, name="b"
    )
    assert follow(box, tried, hints.BENCH_SHOW, code=0, name="b").stdout.startswith("b: running")
    retry_until(lambda: show(bench)["state"] != "running", timeout_s=200.0)
    last = show(bench)["trials"][-1]
    assert (last["state"], "grader.py was changed" in last["why"]) == ("void", True)
    assert last["by"]["reason"] == "why not"
    assert box.run("bench", "try", "b", "lr=7").returncode == 0
    assert show(bench)["state"] == "blocked"

    assert follow(box, shown, hints.BENCH_PROMOTE, code=2, run="b-2").stdout.count("+lr = 3") == 1
    promoted = box.run("promote", "b-2", "--yes")
    assert (box.work / "run.toml").read_text() == "seed = 0\nlr = 3\nmax_steps = 10\n"
    follow(box, promoted, hints.PROMOTE_UNDO, "--yes", code=0, run="b-2")
    assert (box.work / "run.toml").read_text() == "seed = 0\nlr = 1\nmax_steps = 10\n"
    assert box.json("bench", "stop", "b", "--reason", "enough")["ended"].endswith(": enough")
    assert box.run("bench", "try", "b", "lr=8").returncode == 4


def test_a_baseline_without_scores_is_a_failure(bench: Queue) -> None:
    common = ("-l", "job.toml", "--metric", "rewards", "--budget", "1 trials", "-n", "b")
    ended = bench.box.run("bench", "run.toml", "lr=3", *common, "--wait")
    assert (ended.returncode, "it has no rewards" in ended.stderr) == (5, True)


def test_the_ledger_says_what_waits_for_a_person(bench: Queue) -> None:
    agent = bench.box.as_agent(rights="propose")
    common = ("-l", "job.toml", "--metric", "reward", "--budget", "1 trials", "-n", "b", "--no-wait")
    assert agent.json("bench", "run.toml", "lr=3", *common)["state"] == "running"
    retry_until(lambda: show(bench)["trials"][0]["why"] == "waits for a person: rltui agents accept b-0")


def test_a_bench_of_an_agent_waits_for_limits_to_pass(bench: Queue) -> None:
    """Three seeds where two runs may be in the queue, and a pause: no trial crashes by that."""
    box, agent = bench.box, bench.box.as_agent()
    settings = Path(box.env["XDG_CONFIG_HOME"]) / "rltui" / "settings.toml"
    settings.write_text(settings.read_text() + "max_trials = 2\n")
    bench.ask("queue", "pause")
    common = ("-l", "job.toml", "--metric", "reward", "--budget", "1 trials", "-n", "b", "--no-wait")
    started = agent.json("bench", "run.toml", "lr=3", *common)
    (baseline, _) = started["trials"]
    assert [run["state"] for run in baseline["runs"]] == ["queued", "queued", "planned"]
    assert "of at most 2 runs in the queue" in baseline["why"]
    assert box.run("agents", "pause").returncode == 0
    bench.ask("queue", "resume")
    retry_until(lambda: "paused" in bench.entries["b-0"].get("why", ""))
    assert show(bench)["trials"][0]["state"] == "running"
    assert box.run("agents", "resume").returncode == 0
    retry_until(lambda: show(bench)["state"] == "ended", timeout_s=200.0)
    assert [trial["state"] for trial in show(bench)["trials"]] == ["baseline", "kept"]
