"""Hints are followed as in `test_following_hints`: about runs that are inspected, copied, put
away, queued.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.test_config_copies import LAYOUT, MINE
from tests.e2e.test_evals import started, table
from tests.e2e.test_watch import write_run
from tests.fakes.prime_rl.boxed import prime_box
from tests.following import follow

from rltui.core import hints
from rltui.core.hints import Hint

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


@pytest.mark.slow
def test_where_to_look(counters: Box) -> None:
    counters.json(*UP)
    assert counters.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    before = {component["id"]: component["pid"] for component in counters.status()["components"]}
    cases: tuple[tuple[tuple[str, ...], int, Hint, dict[str, Any], dict[str, str] | None], ...] = (
        (("diff", "-c", "a", "-c", "b", "-c", "c"), 2, hints.DIFF_TWO, {}, {}),
        (("logs", "-f"), 2, hints.LOGS_OF, {}, {"COMPONENT": "trainer"}),
        (("attach",), 2, hints.ATTACH_TO, {}, None),
        (("metrics",), 0, hints.METRICS_ALL, {}, {}),
        (("restart", "--from", "last", "--yes"), 4, hints.CHECKPOINTS, {"name": "one"}, {}),
        (("set",), 2, hints.SET, {}, {"KEY=VALUE…": "max_steps=21"}),
        (("graphs",), 2, hints.COMMANDS, {}, {}),
        (("help",), 0, hints.HELP_TOPIC, {}, {"TOPIC": "keys"}),
        (("help",), 0, hints.HELP_COMMAND, {}, {"COMMAND": "status"}),
        (("help",), 0, hints.MAN, {}, {}),
        ((), 2, hints.STATUS, {}, {}),
        (("up", "rl", "@", "run.toml", "--dry-run"), 2, hints.CHECK, {}, None),
        (("serve",), 2, hints.OF_HOST, {}, None),
        (("sweep", "run.toml"), 2, hints.SWEEP, {}, None),
    )
    for arguments, code, hint, values, fill in cases:
        result = counters.run(*arguments)
        assert result.returncode == code, (arguments, result.stderr)
        assert hint(**values) in result.stdout + result.stderr, (arguments, result.stdout, result.stderr)
        if fill is not None:
            assert follow(counters, result, hint, fill=fill, **values).returncode == 0, arguments
    plot = counters.run("metrics")
    name = counters.run("metrics", "--all").stdout.splitlines()[1].split()[0]
    follow(counters, plot, hints.METRICS_PLOT, code=0, fill={"METRIC…": name})
    assert {component["id"]: component["pid"] for component in counters.status()["components"]} == before
    assert counters.run("down", "one").returncode == 0
    nothing = counters.run("diff")
    follow(counters, nothing, hints.DIFF, code=0, fill={"COMPONENT": "trainer"})
    settings = counters.root / "config/rltui/settings.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('[keys]\n"find.erors" = "x"\n')
    assert "find.errors" in follow(counters, counters.run("keys"), hints.KEYS, code=3).stdout
    settings.unlink()
    no_gpus = counters.run("gpus", "one")
    assert no_gpus.returncode == 2
    assert "NVIDIA" in follow(counters, no_gpus, hints.GPUS, code=0).stdout


@pytest.mark.slow
def test_copies_of_a_config(box: Box) -> None:
    (box.work / "lay.toml").write_text(LAYOUT)
    mine = box.work / "mine.toml"
    mine.write_text(MINE)
    box.json("up", "mine.toml", "-l", "lay.toml", "-n", "one", "-o", "out")
    second = box.run("up", "mine.toml", "-l", "lay.toml", "-n", "two")
    assert box.run("set", "two", "lr=0.2").returncode == 0
    refusal = follow(box, second, hints.PROMOTE, code=2, name="two")
    assert mine.read_text() == MINE, refusal.stderr
    promotion = follow(box, second, hints.PROMOTE, "--yes", code=0, name="two")
    assert mine.read_text() == MINE.replace("0.1", "0.2")
    follow(box, promotion, hints.PROMOTE_UNDO, "--yes", code=0, run="two")
    assert mine.read_text() == MINE
    nothing = box.run("promote", "two", "--undo", "--yes")
    follow(box, nothing, hints.PROMOTE_PLAN, code=0, run="two")
    assert mine.read_text() == MINE


def test_a_queue_and_its_sweep(counters: Box) -> None:
    assert counters.run("queue", "limit", "1").returncode == 0
    empty = counters.run("queue")
    assert hints.SWEEP() in empty.stdout
    follow(counters, empty, hints.QUEUE_LIMIT, code=0, fill={"NUMBER|none": "none"})
    assert counters.json("queue")["max_parallel"] is None
    assert counters.run("queue", "pause").returncode == 0
    swept = counters.run("sweep", "run.toml", "max_steps=1,2", "-l", "counters.toml")
    assert swept.returncode == 0
    listing = follow(counters, swept, hints.QUEUE, code=0)
    assert listing.stdout.count("max_steps=") >= 2


@pytest.mark.slow
def test_evaluations(box: Box) -> None:
    started(box)
    no_environment = box.run("eval", "run")
    queued = follow(
        box, no_environment, hints.EVAL_ENV, "--no-wait", "--when-done", code=0, fill={"ENV": "reverse-text"}
    )
    listing = follow(box, queued, hints.EVALS, code=0)
    assert "1: " in listing.stdout
    ordered = box.run("eval", "run", "reverse-text", "--every", "2")
    follow(box, ordered, hints.EVAL_NEVER, code=0)
    assert table(box)["every"] == 0
    assert box.run("down", "one").returncode == 0
    assert [entry["id"] for entry in table(box)["queue"]] == ["1"]
    assert box.run("eval", "cancel", "7").returncode == 2
    assert box.run("eval", "cancel", "1").returncode == 0
    assert table(box)["queue"] == []
    assert box.tagged("one") == [], "nothing was started for it"
    box.json("start", "-c", "trainer", "--yes", "--wait")
    no_server = box.run("eval", "run", "reverse-text")
    assert no_server.returncode == 4
    follow(box, no_server, hints.START, code=0, component="inference", name="one")
    box.wait_for("inference", "ready")
    assert box.run("eval", "run", "reverse-text", "--examples", "2", "--rollouts", "1").returncode == 0


def test_runs_of_others_and_other_frameworks(box: Box) -> None:
    for name in ("first", "second"):
        write_run(box.work / "runs" / name)
    which = box.run("watch", "runs", "--no-tui")
    assert which.returncode == 2
    follow(box, which, hints.WATCH_RUN, "--no-tui", code=0, folder=box.work / "runs/first")
    assert box.run("down").returncode == 0
    which = box.run("fork", "first")
    assert (which.returncode, hints.UP() in which.stderr) == (2, True)
    assert box.run("init", "--from", "verifiers", "V").returncode == 0
    (config,) = (box.work / "V/configs").rglob("*.toml")
    needs = box.run("convert", "--to", "prime-rl")
    follow(box, needs, hints.CONVERT_FILE, code=0, fill={"FILE": str(config)})


@pytest.mark.slow
def test_what_restarts_set_aside(box: Box) -> None:
    """The advised command deleted all but three of the run's checkpoints as well, and those of another run
    where there were two.
    """
    prime = prime_box(box, "C")
    prime.up("prime-rl")
    prime.wait_for_steps("trainer", 6)
    complete = prime.output / f"checkpoints/step_{min(prime.checkpoints())}"
    (complete / "weights").write_bytes(bytes(2 << 20))  # what is set aside is told from 1 MiB on
    assert box.run("restart", "--from-scratch", "--yes", "--wait", timeout_s=120).returncode == 0
    elsewhere = box.run("set", "output_dir=elsewhere", "--plan")
    follow(box, elsewhere, hints.FORK_INTO, "--no-wait", code=0, run="one", fill={"FOLDER": "elsewhere"})
    assert box.run("down", "elsewhere").returncode == 0
    down = box.run("down", "one")
    first = next(folder for folder in box.json("checkpoints", "one")["set_aside"] if folder["steps"])
    listing = box.run("checkpoints", "one")
    follow(box, listing, hints.RESTORE_ASIDE, code=0, name="one", stamp=first["name"])
    steps = [folder["step"] for folder in box.json("checkpoints", "one")["checkpoints"]]
    assert set(first["steps"]) <= set(steps)
    refusal = follow(box, down, hints.PRUNE_ASIDE, code=2, name="one")
    result = follow(box, down, hints.PRUNE_ASIDE, "--yes", code=0, name="one")
    assert not box.json("checkpoints", "one")["set_aside"], (refusal.stderr, result.stdout)
    assert [folder["step"] for folder in box.json("checkpoints", "one")["checkpoints"]] == steps
