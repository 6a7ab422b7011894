"""A supervisor without processes, for tests of what its parts do together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rltui.core.experiment.states import ComponentState
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.experiment.files import ExperimentRecord
from rltui.supervisor.supervisor import Supervisor

CONFIG = 'max_steps = 20\n[model]\nname = "m"\n[orchestrator]\n[trainer]\n[inference]\n'
LAYOUT = """\
[[component]]
id = "inference"
kind = "service"
command = ["sleep", "9"]
[[component]]
id = "orchestrator"
command = ["sleep", "9"]
[[component]]
id = "trainer"
command = ["sleep", "9"]
[[component]]
id = "eval-server"
kind = "service"
command = ["sleep", "9"]
start = "manual"
[[component]]
id = "eval"
command = ["sleep", "9"]
start = "manual"
[[component]]
id = "upload"
command = ["x"]
start = "manual"
check = ["sh", "-c", 'echo "$LOGIN"; echo "$LOGIN first" >&2; test -e login']
env = { LOGIN = "{name}" }
"""


def enter(supervisor: Supervisor, component: str, state: ComponentState, reason: str | None = None) -> None:
    """Put a component into a state, without a process."""
    runner = supervisor.runtime.processes.runners[component]
    runner.lifecycle = replace(runner.lifecycle, state=state, reason=reason)


def make_checkpoints(run_dir: Path, *steps: int) -> None:
    """Complete ones of tinyrl."""
    for step in steps:
        for part in TINYRL.run.locations.checkpoint_parts:
            (run_dir / part.format(step=step)).mkdir(parents=True)
        (run_dir / f"checkpoints/step_{step}/STABLE").touch()


def alert_titles(supervisor: Supervisor) -> list[str]:
    """Titles of the alerts since the last call."""
    queue = supervisor.runtime.events.outbox
    return [queue.get_nowait().title for _ in range(queue.qsize())]


@pytest.fixture
async def supervisor(own_user: Path, tmp_path: Path) -> Supervisor:
    """Of the experiment `one` of tinyrl with the config `rl.toml`."""
    (tmp_path / "rl.toml").write_text(CONFIG)
    (tmp_path / "layout.toml").write_text(LAYOUT)
    record = ExperimentRecord(
        name="one", output_dir=str(tmp_path / "out"), workspace=str(tmp_path),
        config_files=(str(tmp_path / "rl.toml"),), layout_file=str(tmp_path / "layout.toml"),
        framework="tinyrl", created_at=1.0,
    )  # fmt: skip
    record.control.write_record(record)
    no_tmux: Any = None
    return Supervisor(record, tmux=no_tmux)
