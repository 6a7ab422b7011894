"""Requests for new runs, whose config files are taken as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rltui.client.draft import ConfiguredRequest
from rltui.core.experiment.request import ConfigLine, ExperimentRequest


def run_of(files: tuple[Path, ...] = (), **fields: Any) -> ConfiguredRequest:
    """A run of these files; `fields` are those of its `ExperimentRequest`."""
    return ConfiguredRequest.plain(ExperimentRequest(ConfigLine(files), **fields))


def changed(run: ConfiguredRequest, **fields: Any) -> ConfiguredRequest:
    """The run with other fields of its request."""
    return ConfiguredRequest.plain(replace(run.request, **fields))
