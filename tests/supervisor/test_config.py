from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.supervisor.conftest import CONFIG, alert_titles

from rltui.core.config.report import Problem
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.tinyrl import TINYRL
from rltui.hosts.attempt import Attempt
from rltui.hosts.checks import run_check
from rltui.services.config.files import load_files, write_snapshot
from rltui.supervisor.observation import Observation
from rltui.supervisor.supervisor import Supervisor


async def test_what_runs_is_what_a_living_component_was_started_with(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    setup, config = supervisor.runtime.setup, supervisor.runtime.config
    loaded = load_files(setup.record.config_paths, TINYRL)
    write_snapshot(loaded, setup.control.attempt_dir("trainer", 1))
    (tmp_path / "rl.toml").write_text(CONFIG.replace("20", "99"))
    (files,) = config.running({"trainer": 1}).values()
    assert TINYRL.run.max_steps(files) == 20
    assert config.running({}) == {}


async def test_with_a_broken_file_there_are_no_other_machines_and_the_usual_files(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    (tmp_path / "rl.toml").write_text("[orchestrator\n")
    setup, config = supervisor.runtime.setup, supervisor.runtime.config
    assert config.gpu_sources() == ((), None)
    assert len(alert_titles(supervisor)) == 1
    usual = Observation(setup, supervisor.runtime.events).folder
    assert usual.metrics == tuple(Path(setup.record.run_dir) / name for name in TINYRL.run.locations.metrics)
    with pytest.raises(ConfigError):
        config.knobs({})


async def test_nothing_starts_whose_check_fails(supervisor: Supervisor, tmp_path: Path) -> None:
    runner = supervisor.runtime.processes.runners["upload"]
    attempt = Attempt(supervisor.runtime.setup.record, runner.spec, 1)
    launch = await supervisor.runtime.config.prepare("upload", attempt.folder, resume_step=None, run_id="")
    assert launch.argv == ("x",)
    with pytest.raises(RltuiError, match="exited 1: one first"):
        await run_check(launch)
    through_env = replace(launch, check=("env", "A=b", *launch.check))
    with pytest.raises(RltuiError, match=r"^`sh -c"):
        await run_check(through_env)
    (tmp_path / "login").touch()
    await run_check(launch)


async def test_who_waits_for_the_framework_takes_one_thread(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, together = threading.Barrier(2), list[bool]()

    def problems(loaded: object, ours: object) -> tuple[Problem, ...]:
        try:
            both.wait(0.2)
        except threading.BrokenBarrierError:
            together.append(False)
        else:
            together.append(True)
        return ()

    monkeypatch.setattr(supervisor.runtime.config._models, "problems", problems)
    await asyncio.gather(
        supervisor.runtime.config.framework_problems(None, ()),
        supervisor.runtime.config.framework_problems(None, ()),
    )
    assert together == [False, False]
