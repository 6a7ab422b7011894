"""What is known of an engine besides its config: its model's size, and what earlier attempts measured."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.core.gpu.engine import EngineMemory
from rltui.core.gpu.memory_user import EngineFigures, MemoryUser, ModelShape
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.services.config_store import load_snapshot
from rltui.services.engine_log import LIMIT_BYTES, read_figures
from rltui.services.experiment_files import ControlFolder
from rltui.services.model_files import model_folder, read_shape

NEWEST_ATTEMPTS = 5
"""Whose output is looked at, for one that came as far as its KV cache."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What an earlier start of an engine tells."""

    engine: EngineMemory | None
    """As its config had it; `None` where that cannot be understood any more."""
    figures: EngineFigures | None
    read_bytes: int
    """Of its output, when that was read."""

    @property
    def is_told(self) -> bool:
        """Its output will say no more of memory, however long it grows."""
        has_cache = self.figures is not None and self.figures.kv_cache_bytes is not None
        return has_cache or self.read_bytes >= LIMIT_BYTES


class EngineKnowledge:
    """Of the engines of one experiment. Reads small files, and the output of each attempt as it grows."""

    def __init__(self, framework: Framework, control: ControlFolder, workspace: Path) -> None:
        """`control` holds the earlier attempts, if there are any."""
        self._framework = framework
        self._control = control
        self._workspace = workspace
        self._attempts: dict[Path, _Attempt] = {}

    def added(self, user: MemoryUser, engine: EngineMemory) -> MemoryUser:
        """`user` with `engine`, and all that is known of that."""
        figures = self._figures(engine)
        version = engine.version or (figures.version if figures is not None else None)
        return replace(
            user, engine=replace(engine, version=version), figures=figures, shape=self._shape(engine)
        )

    def _figures(self, engine: EngineMemory) -> EngineFigures | None:
        """Of the newest attempt with the same model that measured its KV cache."""
        for number in reversed(self._control.attempts(engine.component)[-NEWEST_ATTEMPTS:]):
            attempt = self._attempt(engine.component, number)
            then, figures = attempt.engine, attempt.figures
            if (
                then is None
                or then.model != engine.model
                or figures is None
                or figures.kv_cache_bytes is None
            ):
                continue
            return figures if figures.utilization else replace(figures, utilization=then.utilization)
        return None

    def _attempt(self, component: str, number: int) -> _Attempt:
        folder, log = self._control.attempt_dir(component, number), self._control.log_file(component, number)
        known = self._attempts.get(folder)
        size = _size(log)
        if known is None or not (known.is_told or known.read_bytes == size):
            engine = known.engine if known is not None else self._engine(folder / "config")
            known = self._attempts[folder] = _Attempt(engine, read_figures(log), size)
        return known

    def _engine(self, snapshot: Path) -> EngineMemory | None:
        """What ran with this config."""
        try:
            return self._framework.engine_memory(load_snapshot(snapshot, self._framework))
        except ConfigError:  # damaged since
            return None

    def _shape(self, engine: EngineMemory) -> ModelShape | None:
        if engine.model is None:
            return None
        folder = model_folder(engine.model, workspace=self._workspace, environment=os.environ)
        if folder is None:
            return None
        return read_shape(folder, dtype=engine.dtype, kv_cache_dtype=engine.kv_cache_dtype)


def _size(path: Path) -> int:
    """0 where there is no file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
