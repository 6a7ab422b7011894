"""A place of a run in prime-rl's living dashboard."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.prime_rl.checkout import checkout
from tests.fakes.prime_rl.dashboard import Tab, register
from tests.fakes.rollouts import write_stream_run

from rltui.core.experiment.dashboard import DashboardPlace, place_of_rollout
from rltui.core.rollouts.batches import ABANDONED, ALL, BatchKey
from rltui.errors import NotFoundError, RltuiError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.dashboard import HAVE_ONE
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.prime_rl.dashboard import DASHBOARD
from rltui.paths import shipped_dir
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.layout_files import load
from rltui.services.runs.dashboard import show_in_dashboard
from rltui.services.runs.provenance import ProvenanceCollector

METRICS = DashboardPlace(tab="metrics")
ROLLOUT = DashboardPlace(tab="traces", step=1, episode="e1003")


@pytest.fixture
def outputs(tmp_path: Path, own_user: Path) -> Path:
    folder = tmp_path / "outputs"
    (folder / "one/logs").mkdir(parents=True)
    checkout(tmp_path, "D")
    (tmp_path / "prime-rl-d/.venv/dashboard-extra").touch()
    return folder


def record(run_dir: Path, framework: str = "prime-rl") -> ExperimentRecord:
    return ExperimentRecord(
        name="one",
        output_dir=str(run_dir),
        workspace=str(run_dir.parents[1] / "prime-rl-d"),
        config_files=(),
        layout_file="/layout.toml",
        framework=framework,
        created_at=0.0,
    )


@pytest.fixture
def address(outputs: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a dashboard that was started for another folder; its port is not the usual one."""
    other = outputs.with_name("other")
    other.mkdir()
    program = outputs.with_name("prime-rl-d") / ".venv/bin/dashboard"
    env = os.environ | {"STANDIN_DASHBOARD": getattr(request, "param", "")}
    command = [str(program), str(other), "--port", "18788"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
    ) as process:
        assert process.stdout is not None
        yield next(line.strip() for line in process.stdout if "http://" in line)
        process.terminate()


def show(run_dir: Path, place: DashboardPlace = METRICS, *, may_add: bool = True) -> tuple[str, int]:
    page = show_in_dashboard(record(run_dir), place, may_add=may_add)
    return page.url, page.tabs


def test_its_folder_is_added_if_need_be_and_each_answer_has_its_word(outputs: Path, address: str) -> None:
    run = outputs / "one"
    with pytest.raises(NotFoundError, match=f"does not have {run} yet"):
        show(run, may_add=False)
    assert show(run) == (f"{address}/#run=one&tab=metrics", 0)
    tab = Tab(address)
    assert tab.shown()["replay"] is True
    assert show(run, METRICS.replace(step=3)) == (f"{address}/#run=one&tab=metrics", 1)
    assert "step" not in tab.shown(), "without rollouts, as in SFT, a step cannot be shown"
    with pytest.raises(NotFoundError, match="no traces for this run"):
        show(run, ROLLOUT)
    write_stream_run(run)
    assert show(run, ROLLOUT)[1] == 1
    assert tab.shown()["line"] == 4
    with pytest.raises(NotFoundError, match="episode id 'gone' not found"):
        show(run, ROLLOUT.replace(episode="gone"))
    assert show(run, METRICS.replace(step=3))[1] == 1
    assert tab.shown()["step"] == 3
    tab.close()


def test_runs_of_one_name_are_told_apart_or_not_shown(outputs: Path, address: str) -> None:
    (outputs.with_name("other") / "one/configs").mkdir(parents=True)
    assert show(outputs / "one")[0] == f"{address}/#run=outputs%3Aone&tab=metrics"
    assert show(outputs.with_name("other") / "one")[0] == f"{address}/#run=other%3Aone&tab=metrics"
    twin = outputs.parent / "elsewhere/outputs"
    (twin / "one/logs").mkdir(parents=True)
    register([twin])
    with pytest.raises(NotFoundError, match="shows only one of"):
        show(outputs / "one")
    (outputs / "new").mkdir()
    with pytest.raises(NotFoundError, match=r"does not have .*/new yet"):
        show(outputs / "new")


@pytest.mark.parametrize("address", ["september"], indirect=True)
def test_of_one_that_cannot_be_told_the_page_is_opened(outputs: Path, address: str) -> None:
    assert show(outputs / "one", ROLLOUT) == (f"{address}/#run=one&tab=traces", 0)


def test_without_one_it_is_said_how_to_get_it(outputs: Path, own_user: Path) -> None:
    with pytest.raises(UsageError, match="is not running") as raised:
        show(outputs / "one")
    assert "`uv sync --extra dashboard` in " in raised.value.hint
    daemon = own_user / "home/.cache/prime-rl/dashboard/daemon.json"
    daemon.parent.mkdir(parents=True)
    for content in (
        "{",
        json.dumps({"pid": 2**40, "url": "http://localhost:1"}),
        json.dumps({"pid": 0, "url": "http://localhost:1"}),
        json.dumps({"pid": os.getpid(), "url": "http://local\x1bhost:1"}),
    ):
        daemon.write_text(content)
        with pytest.raises(UsageError, match="is not running"):
            show(outputs / "one")
    daemon.write_text(json.dumps({"pid": os.getpid(), "url": "http://localhost:1"}))
    with pytest.raises(RltuiError, match=r"at http://localhost:1 does not respond: .*refused"):
        show(outputs / "one")
    daemon.unlink()
    (outputs.with_name("prime-rl-d") / "src/prime_rl/entrypoints/dashboard.py").unlink()
    with pytest.raises(UsageError, match=r"no checkout near .* has it"):
        show(outputs / "one")
    with pytest.raises(UsageError, match="have no dashboard of their own"):
        show_in_dashboard(record(outputs / "one", "tinyrl"), METRICS, may_add=True)


def test_the_checkout_is_the_one_that_the_run_has_started_with(
    outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the shell that started it had the variable."""
    elsewhere = outputs.parent / "work"
    elsewhere.mkdir()
    run = replace(record(outputs / "one"), workspace=str(elsewhere))
    with pytest.raises(UsageError, match=r"no checkout near .* has it"):
        show_in_dashboard(run, METRICS, may_add=True)
    prime_rl = registry.get(run.framework)
    with monkeypatch.context() as shell:
        shell.setenv("RLTUI_PRIME_RL", str(outputs.with_name("prime-rl-d")))
        run.control.make()
        collector = ProvenanceCollector(
            control=run.control.path, workspace=elsewhere, output_dir=outputs / "one", framework=prime_rl,
            layout=load(shipped_dir("layouts") / "prime-rl.toml"), config_files=(),
        )  # fmt: skip
        asyncio.run(collector.record({}, {}, None))
    with pytest.raises(UsageError, match="is not running") as raised:
        show_in_dashboard(run, METRICS, may_add=True)
    assert f"in {outputs.with_name('prime-rl-d')} installs it" in raised.value.hint
    shutil.rmtree(outputs.with_name("prime-rl-d"))
    with pytest.raises(UsageError, match=r"no checkout near .* has it"):
        show_in_dashboard(run, METRICS, may_add=True)


def test_a_rollout_has_its_place_by_its_batch_and_its_own_id() -> None:
    written = {"id": "e1", "traces": [{"id": "t1"}]}
    place = place_of_rollout(BatchKey("train", 3), written)
    assert place == DashboardPlace(tab="traces", step=3, episode="e1")
    for part in (ALL, ABANDONED):
        assert place_of_rollout(BatchKey("train", 3, part), written) == place.replace(is_batch=False)
    evaluation = DashboardPlace(tab="traces", step=0, kind="eval", is_batch=False, episode="e1")
    assert place_of_rollout(BatchKey("eval"), written) == evaluation
    for key, row in ((BatchKey("live"), written), (BatchKey("train", 3), {"id": "e1"})):
        assert place_of_rollout(key, row) == DashboardPlace(tab="traces")


@pytest.mark.parametrize("text", ["", "dashboard = true", "dashboard = false"])
def test_a_config_may_be_against_it(text: str) -> None:
    files = {"rl": ConfigFile("rl", "/rl.toml", tomllib.loads(text))}
    assert DASHBOARD.is_wanted(files) is not text.endswith("false")


def test_those_with_a_dashboard_are_named_where_nothing_else_is_known() -> None:
    assert {name for name in registry.IDS if registry.get(name).dashboard is not None} == HAVE_ONE
