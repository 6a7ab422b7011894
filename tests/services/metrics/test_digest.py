"""Figures kept up to date by what is new are those of a look at everything."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from rltui.frameworks import registry
from rltui.services.metrics.run_summary import RunSummary
from rltui.services.metrics.store import SeriesReader, SeriesWriter

REWARD = "train/agg/effective/agent/reward/mean"


@pytest.mark.parametrize("seed", range(5))
def test_piece_by_piece_or_at_once(tmp_path: Path, seed: int) -> None:
    dice, framework = random.Random(seed), registry.get("prime-rl")
    writer, step = SeriesWriter(tmp_path), 0
    digest = RunSummary(SeriesReader(tmp_path), framework)
    assert (digest.metrics, digest.step, digest.sparkline, digest.span) == ({}, None, (), None)
    for at in range(60):
        if dice.random() < 0.1:
            step = dice.randrange(step + 1)
            writer.rewind(step, float(at))
        elif dice.random() < 0.05:
            step = max(0, step - 2)  # a program that goes back by itself
        step += 1
        values = {REWARD: dice.random(), f"eval/env{at % 2}/all/agent/reward/mean": dice.random()}
        writer.add("orch", values, at=float(at), step=step)
        writer.add(
            "trainer", {"loss/mean": math.nan if dice.random() < 0.1 else dice.random()}, at=at, step=step
        )
        writer.flush()
        if dice.random() < 0.5:
            digest.poll()
    digest.poll()
    whole = RunSummary(SeriesReader(tmp_path), framework)
    assert (digest.metrics, digest.levels) == (whole.metrics, whole.levels)
    assert (digest.step, digest.sparkline, digest.span) == (whole.step, whole.sparkline, whole.span)
    assert whole.metrics.keys() == {"reward", "loss", "eval"}
    assert len(whole.sparkline) <= 24
    _, best = whole.metrics["loss"]
    assert best is not None
    assert whole.levels["loss"].mean >= best  # the best is a mean of ten steps, too
    assert whole.levels.keys() == {"reward", "loss"}  # an evaluation stands for itself
    assert digest.poll() is False
