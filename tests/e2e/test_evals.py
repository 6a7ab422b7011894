"""`rltui eval run`: against the run's server and one of its own, with verdicts by the results; the queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import SHARED, scenario_of, with_gpus
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

TESTS = Path(__file__).parents[1]
PROGRAM = TESTS / "fakes/evaluation.py"
LAYOUT = f"""\
framework = "generic"
[[component]]
id = "inference"
kind = "service"
command = ["{{python}}", "{PROGRAM}", "serve", "{{port.inference}}", "good"]
port = "{{port.inference}}"
ready = {{ http = "http://127.0.0.1:{{port.inference}}/health", timeout_s = 20 }}
stop = {{ grace_s = 2 }}
[[component]]
id = "trainer"
command = ["{{python}}", "-I", "-c", "import signal; signal.pause()"]
gpus = "0"
stop = {{ grace_s = 2 }}
[[component]]
id = "eval-server"
kind = "service"
start = "manual"
command = ["{{python}}", "{PROGRAM}", "serve", "{{given.port}}", "{{given.model}}"]
port = "{{given.port}}"
gpus = "{{given.gpus}}"
gpu_memory = "{{given.gpu_memory}}"
ready = {{ http = "http://127.0.0.1:{{given.port}}/health", timeout_s = 20 }}
stop = {{ grace_s = 2 }}
[[component]]
id = "eval"
start = "manual"
command = [
    "{{python}}", "{PROGRAM}", "ask", "{{given.base_url}}", "{{given.env}}", "{{given.num_examples}}",
    "{{given.rollouts_per_example}}", "{{given.results}}", "{{given.arguments}}",
]
"""


def started(box: Box) -> None:
    (box.work / "evals.toml").write_text(LAYOUT)
    (box.work / "bad").mkdir()
    (box.work / "bad/config.json").write_text("{}")
    box.json("up", "-l", "./evals.toml", "-n", "one", "-o", "out")


def table(box: Box) -> dict[str, Any]:
    document: dict[str, Any] = box.json("eval", "one")
    return document


@pytest.mark.slow
def test_models_are_evaluated_and_compared(box: Box) -> None:
    started(box)
    shape = ("reverse-text", "--examples", "5", "--rollouts", "2")
    worse = box.json("eval", "run", *shape, "--model", "bad")["evaluations"][0]
    assert (worse["kind"], worse["verdict"], worse["rollouts"]) == ("model", "ok", 10)
    result = box.run("eval", "run", *shape)
    assert result.returncode == 0, result.stderr
    assert "+0.500 ± 0.000 ▲ to 1" in box.run("eval", "compare", "one", "1").stdout
    assert Path(table(box)["evaluations"][1]["results"], "results.jsonl").is_file()

    # The evaluator ends with code 0 whatever comes of it.
    failed = box.run("eval", "run", *shape, "--", "--fail")
    assert (failed.returncode, "10 of 10 rollouts failed" in failed.stdout) == (5, True)
    cut = box.run("eval", "run", *shape, "--json", "--", "--cut")
    assert (cut.returncode, json.loads(cut.stdout)["evaluations"][0]["verdict"]) == (5, "truncated")

    # What cannot be is refused before anything starts.
    for arguments, code, case in (
        ((*shape, "--max-tokens", "2048"), 2, "no room for a prompt in a context of 2048"),
        ((*shape, "--max-tokens", "2010"), 2, "a prompt of 44 tokens"),
        ((*shape, "--model", "/nowhere"), 3, "is not a folder of weights"),
        ((*shape, "--from", "7"), 3, "does not define where checkpoint 7"),
        ((), 2, "names no environment"),
    ):
        refusal = box.run("eval", "run", *arguments)
        assert refusal.returncode == code, refusal.stderr
        assert case in refusal.stderr

    assert box.run("eval", "run", *shape, "--when-done").returncode == 0
    box.json("stop", "-c", "inference", "--yes", "--wait")
    assert box.run("eval", "run", *shape).returncode == 4
    report = table(box)
    assert [evaluation["verdict"] for evaluation in report["evaluations"]] == [
        "ok",
        "ok",
        "failed",
        "truncated",
    ]
    assert report["queue"][0]["why"] == "the end of the run"
    assert [gap["id"] for gap in report["differences"]] == ["1"], "to the newest base"

    box.run("down", "one")
    assert table(box) == {**report, "queue": table(box)["queue"]}, "from the files"
    assert box.json("eval", "one", "--all")["evaluations"]
    kinds = [entry["data"].get("verdict") for entry in box.json("events", "one", "--kind", "eval")["events"]]
    assert kinds.count("ok") == 2


@pytest.mark.slow
def test_a_server_of_its_own_waits_for_gpu_memory(box: Box) -> None:
    box = with_gpus(box, SHARED.replace("0.used 19327352832", "0.used 25200000000"))
    started(box)
    queued = box.json(
        "eval", "run", "reverse-text", "--examples", "2", "--rollouts", "1", "--model", "bad", "--no-wait"
    )
    why = retry_until(lambda: table(box)["queue"][0]["why"])
    assert why.startswith("GPU memory: "), why
    scenario_of(box).write_text(SHARED.replace("0.used 19327352832", "0.used 1073741824"))
    retry_until(lambda: table(box)["evaluations"])
    evaluation = table(box)["evaluations"][0]
    assert (evaluation["id"], evaluation["verdict"]) == (queued["id"], "ok")
