"""The key that shows what is selected in the framework's own dashboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.experiment import FakeExperiment, running_status
from tests.fakes.rollouts import write_stream_run
from tests.ui.checkpoint_cases import REPORT
from tests.ui.conftest import Opener, press, said, screen_text, until

from rltui.core.experiment.dashboard import DashboardPlace
from rltui.ui import rollout_listing


async def test_each_screen_shows_its_own_place(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_listing, "LOOK_S", 0.05)
    write_stream_run(tmp_path, steps=1)
    experiment.rollouts, experiment.checkpoint_report = tmp_path, REPORT
    async with open_app(experiment, size=(90, 30)) as pilot:
        await press(pilot, "5")
        await until(pilot, lambda: "Sample 1 of 7" in screen_text(pilot))
        await press(pilot, "O")
        assert experiment.shown == [DashboardPlace(tab="traces", step=1, episode="e1000")]
        assert experiment.opened[-1] == experiment.page.url
        assert f"Copied the address, as no dashboard tab shows it: {experiment.page.url}" in said(pilot)
        experiment.page = experiment.page.replace(tabs=2)
        await press(pilot, "9", "O")
        newest = experiment.checkpoint_report.checkpoints[-1].step
        assert experiment.shown[1:] == [DashboardPlace(tab="metrics", step=newest)]
        assert "Shown in the dashboard (2 tabs)" in said(pilot)
        await press(pilot, "4", "O")
        assert experiment.shown[2:] == [DashboardPlace(tab="metrics")]
        assert experiment.opened.count(experiment.page.url) == 1
        experiment.push(running_status(framework="tinyrl"))
        await press(pilot, "O")
        assert len(experiment.shown) == 3
