"""`rltui convert` and `rltui knobs` on a stopped experiment, without any process."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from rltui import paths
from rltui.cli import main
from rltui.services.experiment.files import ControlFolder, ExperimentRecord

CONFIG = """\
max_steps = 20
[model]
name = "m"
[orchestrator]
batch_size = 128  # rollouts
rollouts_per_example = 16
oversampling_factor = 1.5
[trainer]
[inference]
"""


@pytest.fixture
def config(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config of an experiment `one` that does not run, and has not measured anything."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rl.toml"
    path.write_text(CONFIG)
    record = ExperimentRecord(
        "one", str(tmp_path / "out"), str(tmp_path), (str(path),),
        str(paths.shipped_dir("layouts") / "tinyrl.toml"), "tinyrl", 1.0,
    )  # fmt: skip
    ControlFolder(tmp_path / "out").write_record(record)
    return path


def measure(config: Path) -> None:
    key = "train/agg/effective/agent/num_total_tokens/mean"
    rows = ({"step": step, key: 50.0, "time/step": 4.0, "progress/rollouts": 128} for step in range(1, 13))
    (config.parent / "out/metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_there_and_back_from_what_was_measured(config: Path, cli: CommandLine) -> None:
    measure(config)
    shown = cli("convert", "one", "--plan")
    assert "a rollout has 50 tokens, mean of steps 3 to 12\n" in shown
    assert "128 rollouts * 50 tokens per rollout = 6400 tokens per step\n" in shown
    assert "+token_batch_size = 6400" in shown
    assert config.read_text() == CONFIG
    assert main(["convert", "one", "tokens"]) == 0
    assert "batch_size = 128" not in config.read_text()
    assert "max_inflight_rollouts = 192" in config.read_text()
    document = cli.json("convert", "one")
    assert document["to"] == "rollouts"
    assert document["edits"]["orchestrator.batch_size"] == 128
    assert "oversampling_factor = 1.5" in config.read_text()
    assert "the batch is already given in rollouts" in cli("convert", "one", "rollouts", code=3)


def test_without_a_measurement_it_says_what_to_pass(
    config: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "rltui convert tokens --mean-tokens N" in cli("convert", "one", code=3)
    assert "a rollout has 99.9 tokens, as given" in cli("convert", "one", "--mean-tokens", "99.9", "--plan")
    for answer, code in (("99.9\n", 0), ("many\n", 3)):
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)
        assert main(["convert", "one", "--plan"]) == code
    assert "not a number of tokens: many" in capsys.readouterr().err
    assert main(["convert", "one", "--mean-tokens", "-3"]) == 2


def test_knobs_tell_the_other_way_and_the_time_of_a_step(config: Path, cli: CommandLine) -> None:
    measure(config)
    table = cli.json("knobs", "one")
    assert table["converts_to"] == "tokens"
    assert "estimated step time" not in {item["name"] for item in table["derived"]}, "never started here"
    snapshot = ControlFolder(config.parent / "out").attempt_dir("orchestrator", 1) / "config"
    snapshot.mkdir(parents=True)
    (snapshot / "rl.toml").write_text(CONFIG)
    derived = {item["name"]: item for item in cli.json("set", "one", "batch_size=256", "--plan")["derived"]}
    assert derived["estimated step time"]["value"] == 8.0
