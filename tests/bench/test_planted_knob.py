"""A bench on the embedded engine: of twelve changes one was planted that helps."""

from __future__ import annotations

import contextlib
import io
import json
import random
from pathlib import Path
from statistics import fmean

import pytest
from tests.core.runs.test_bench import bench, run_out

from rltui.core.runs.bench import Bench

pytestmark = pytest.mark.bench
pytest.importorskip("torch")

PLANTED = {"optim.lr": 2e-3}
"""Against 3e-4."""
OTHERS: list[dict[str, float]] = [
    {"optim.weight_decay": 0.0}, {"optim.weight_decay": 0.05}, {"optim.weight_decay": 0.1},
    {"optim.max_norm": 0.9}, {"optim.max_norm": 2.0}, {"optim.max_norm": 5.0},
    {"scheduler.warmup_steps": 19}, {"scheduler.warmup_steps": 21}, {"scheduler.warmup_steps": 24},
    {"data.micro_batch_size": 4}, {"data.micro_batch_size": 2},
]  # fmt: skip
Trials = list[dict[str, float]]
CONFIG: dict[str, object] = {
    "max_steps": 40, "data.batch_size": 8, "data.micro_batch_size": 8, "optim.lr": 3e-4,
    "model.hidden_size": 32, "model.num_hidden_layers": 1, "model.num_attention_heads": 2,
    "model.intermediate_size": 64,
}  # fmt: skip


def loss(edits: dict[str, object], seed: int, folder: Path) -> float:
    """Train, and return the mean loss of the last ten steps."""
    from rltui.tinyrl import sft
    from rltui.tinyrl.config import SftConfig

    tables: dict[str, object] = {"seed": seed, "output_dir": str(folder)}
    for key, value in {**CONFIG, **edits}.items():
        table, _, name = key.rpartition(".")
        target = tables.setdefault(table, {}) if table else tables
        assert isinstance(target, dict)
        target[name] = value
    with contextlib.redirect_stdout(io.StringIO()):
        sft.run(SftConfig.model_validate(tables))
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return fmean([row["loss/mean"] for row in rows if "loss/mean" in row][-10:])


@pytest.mark.timeout(3000)
def test_the_planted_knob_is_found(tmp_path: Path) -> None:
    """In nine of ten benches, each with seeds of its own and another order of the trials."""
    found = 0
    for number in range(10):
        trials: Trials = [PLANTED, *OTHERS]
        random.Random(number).shuffle(trials)
        count = 0

        def draw(state: Bench, at: int, number: int = number, trials: Trials = trials) -> float:
            nonlocal count
            count += 1
            edits: dict[str, object] = {}
            while at:
                edits, at = {**trials[at - 1], **edits}, state.trials[at].base
            return loss(edits, 100 * number + count, tmp_path / f"{number}-{count}")

        done = run_out(bench(12, fields={"better": "lower"}), draw)
        kept = [trials[trial.number - 1] for trial in done.trials if trial.state == "kept"]
        found += PLANTED in kept
        print(number, f"{count} runs", [*kept], done.trials[done.best].score, flush=True)
    assert found >= 9, found
