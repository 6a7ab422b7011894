"""What is known of an engine besides its config: its model's size, and what earlier attempts measured."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from rltui.core.gpu.engine import EngineMemory
from rltui.core.gpu.memory_user import EngineFigures, MemoryUser, ModelShape
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.services.config_store import load_snapshot
from rltui.services.engine_log import read_figures
from rltui.services.experiment_files import ControlFolder
from rltui.services.model_files import model_folder, read_shape

NEWEST_ATTEMPTS = 5
"""Whose output is looked at, for one that came as far as its KV cache."""


class EngineKnowledge:
    """Of the engines of one experiment. Reads files; what an attempt measured is read once."""

    def __init__(self, framework: Framework, control: ControlFolder, workspace: Path) -> None:
        """`control` holds the earlier attempts, if there are any."""
        self._framework = framework
        self._control = control
        self._workspace = workspace
        self._measured: dict[Path, EngineFigures] = {}

    def added(self, user: MemoryUser, engine: EngineMemory) -> MemoryUser:
        """`user` with `engine`, and all that is known of that."""
        figures = self._figures(engine)
        version = engine.version or (figures.version if figures is not None else None)
        return replace(
            user, engine=replace(engine, version=version), figures=figures, shape=self._shape(engine)
        )

    def _figures(self, engine: EngineMemory) -> EngineFigures | None:
        """Of the newest attempt with the same model that measured its KV cache."""
        for attempt in reversed(self._control.attempts(engine.component)[-NEWEST_ATTEMPTS:]):
            folder = self._control.attempt_dir(engine.component, attempt)
            if self._model(folder / "config") != engine.model:
                continue
            figures = self._measured.get(folder) or read_figures(
                self._control.log_file(engine.component, attempt)
            )
            if figures is not None and figures.kv_cache_bytes is not None:
                self._measured[folder] = figures
                return figures
        return None

    def _model(self, snapshot: Path) -> str | None:
        """What the engine served with this config."""
        try:
            then = self._framework.engine_memory(load_snapshot(snapshot, self._framework))
        except ConfigError:  # damaged since
            return None
        return then.model if then is not None else None

    def _shape(self, engine: EngineMemory) -> ModelShape | None:
        if engine.model is None:
            return None
        folder = model_folder(engine.model, workspace=self._workspace, environment=os.environ)
        if folder is None:
            return None
        return read_shape(folder, dtype=engine.dtype, kv_cache_dtype=engine.kv_cache_dtype)
