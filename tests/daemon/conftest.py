"""A supervisor without processes, for tests of what its parts do together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rltui.daemon.supervisor import Supervisor
from rltui.services.runs.experiment_files import ExperimentRecord

CONFIG = 'max_steps = 20\n[model]\nname = "m"\n[orchestrator]\n[trainer]\n[inference]\n'
LAYOUT = """\
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
"""


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
