"""prime-rl's dashboard. Its behaviour is described in `facts/prime-rl.md`, Dashboard."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from rltui.core.config.data import value_at
from rltui.core.experiment.dashboard import DashboardPlace
from rltui.frameworks.dashboard import Dashboard
from rltui.frameworks.inputs import ConfigFiles

TRAIT = ("dashboard", "src/prime_rl/entrypoints/dashboard.py", "")
"""Of a checkout that has it."""


def _is_wanted(files: ConfigFiles) -> bool:
    return all(value_at(file.data, "dashboard") is not False for file in files.values())


def _command(run: str, place: DashboardPlace) -> dict[str, Any]:
    command: dict[str, Any] = {"run": run, "tab": place.tab}
    if place.step is not None:  # a step alone is refused
        subset = "effective" if place.is_batch else "all"
        command |= {"step": place.step, "kind": place.kind, "subset": subset}
    return command | {"episode": place.episode} if place.episode else command


DASHBOARD = Dashboard(
    title="prime-rl's dashboard",
    folder=".cache/prime-rl/dashboard",
    folders_file="dirs.json",
    lock_file=".lock",
    daemon_file="daemon.json",
    run_signs=("configs", "logs", "monitors", "traces.jsonl"),
    runs_path="/api/runs",
    view_path="/api/view",
    trait=TRAIT[0],
    install="uv sync --extra dashboard",
    start="uv run dashboard",
    is_wanted=_is_wanted,
    command=_command,
    fragment=lambda run, place: f"/#run={quote(run, safe='')}&tab={place.tab}",
)
