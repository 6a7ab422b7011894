"""Requests that start a manual component, from what a person asks for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from rltui.core.api import Request
from rltui.core.layout import Layout
from rltui.core.text import unknown
from rltui.services import layout_files
from rltui.services.runs.experiment_files import ExperimentRecord

SHELL = "shell"


def shell_request(record: ExperimentRecord, *, like: str | None, command: Sequence[str] = ()) -> Request:
    """For a terminal in the surroundings of the component `like`, else of the one that trains.

    Raises:
        UsageError: if there is no such component.
    """
    layout = layout_files.load_for(record)
    known = [spec.id for spec in layout.automatic]
    if like is not None and like not in known:
        raise unknown("component", like, known)
    given = {"like": like or _usual(layout), "command": tuple(command) or (_login_shell(),)}
    return Request(action="start", components=(SHELL,), given=given)


def _usual(layout: Layout) -> str:
    """Who wants to try something wants it where the run computes: the first job of it with devices."""
    jobs = [spec for spec in layout.automatic if spec.kind == "job" and not spec.creates]
    return next((spec.id for spec in jobs if spec.gpus), layout.automatic[0].id)


def _login_shell() -> str:
    return os.environ.get("SHELL") or shutil.which("bash") or "sh"
