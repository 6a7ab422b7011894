"""What is told of a run and its components: as they were started, or would be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run

from rltui.client.reader import ExperimentReader
from rltui.core.experiment.description import (
    AttemptDescription,
    ComponentDescription,
    Readiness,
    RunDescription,
)
from rltui.views.description import attempt_text, component_facts, ready_text, run_facts, value_facts

NOW = 1.8e9


def _write_spec(attempt: Path, env: dict[str, str]) -> None:
    spec = {
        "argv": ["python", "-m", "trainer", "a b"],
        "cwd": "/work",
        "env": env,
        "ready": {"tcp": "127.0.0.1:29500", "timeout_s": 60},
        "port": 29500,
        "gpus": {"text": "0,1"},
    }
    (attempt / "spec.json").write_text(json.dumps(spec))


def test_a_component_is_told_as_its_newest_attempt_was_started(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a")
    env = {"CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": "hf_0123456789abcdef", "PLAIN": "x y"}
    _write_spec(record.control.attempt_dir("trainer", 1), env)
    run = ExperimentReader(record).describe()
    assert (run.name, run.output_dir, run.config_files) == ("a", record.output_dir, record.config_files)
    assert run.command.startswith("rltui up ")
    assert len(run.run_id) == 0
    trainer = next(component for component in run.components if component.id == "trainer")
    assert trainer.command == "python -m trainer 'a b'"
    assert trainer.env == {"CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": "(hidden)", "PLAIN": "x y"}
    assert (trainer.cwd, trainer.ports, trainer.devices, trainer.pid) == ("/work", (29500,), "0,1", None)
    assert trainer.restarts_with == ("orchestrator",)
    assert "their step counters must agree" in trainer.because[0]
    assert trainer.values["max_steps"] == 200
    (attempt,) = trainer.attempts
    assert (attempt.exit_code, attempt.is_running) == (0, False)
    assert [Path(path).name for path in trainer.config_files] == ["rl.toml"]

    facts = component_facts(run, trainer, NOW)
    assert [fact.label for fact in facts[:2]] == ["command", "shell line"]
    pasted = facts[1].text
    assert pasted == "cd /work && env CUDA_VISIBLE_DEVICES=0,1 'PLAIN=x y' python -m trainer 'a b'"
    assert ("ready", "127.0.0.1:29500 accepts connections, within 1m00s") in facts
    assert not any("hf_0123456789abcdef" in fact.text for fact in facts)
    assert run_facts(run)[0].label == "command"


def test_one_without_attempts_is_told_as_it_would_be_started(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a")
    shutil.rmtree(record.control.path / "components/trainer")

    def trainer() -> ComponentDescription:
        return next(item for item in ExperimentReader(record).describe().components if item.id == "trainer")

    told = trainer()
    assert told.attempts == ()
    assert "rltui.tinyrl trainer @" in told.command
    assert ("attempts", "none yet") in component_facts(RunDescription(name="a"), told, NOW)
    Path(record.config_files[0]).unlink()
    assert (trainer().argv, trainer().problem) == ((), "the config cannot be read")


@pytest.mark.parametrize(
    ("attempt", "text"),
    [
        ({"started_at": NOW - 90, "is_running": True}, "running for 1m30s"),
        ({"started_at": NOW - 90, "ended_at": NOW - 30, "exit_code": 1}, "ran 1m00s, exit code 1"),
        (
            {"started_at": NOW - 9, "ended_at": NOW, "signal": "SIGINT", "stop_requested": True},
            "ran 9s, SIGINT, stopped on request",
        ),
        ({"started_at": NOW, "error": "no such program"}, "could not be started: no such program"),
        ({"started_at": NOW}, "end unknown"),
        ({}, "end unknown"),
    ],
)
def test_an_attempt_says_how_it_ended(attempt: dict[str, object], text: str) -> None:
    assert attempt_text(AttemptDescription.from_plain({"number": 1, **attempt}), NOW).endswith(text)


def test_texts_of_a_component() -> None:
    assert ready_text(None) == "when its process runs"
    assert (
        ready_text(Readiness(log="ready$", timeout_s=5.0)) == "a line of its output matches ready$, within 5s"
    )
    component = ComponentDescription(id="a", values={"lr": 1e-5, "name": "x"})
    assert [fact.text for fact in value_facts(component)] == ["lr = 1e-5", 'name = "x"']
    assert ComponentDescription(id="a", argv=("x",), cwd="/w w").pasted == "cd '/w w' && x"
