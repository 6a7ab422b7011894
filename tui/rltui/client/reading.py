"""What is read of an experiment from its files, whether or not anything of it lives."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

from rltui.client import programs
from rltui.client.protocol import ConfigText
from rltui.core.api import JournalEntry
from rltui.core.layout import Screen
from rltui.core.lines import Level, LogEntry, LogSearching, LogSource, MergedSource
from rltui.core.log_query import Query
from rltui.core.rollouts import RolloutSource
from rltui.core.series import SeriesSource
from rltui.errors import ConfigError
from rltui.services import layout_files
from rltui.services.config.source import content_of
from rltui.services.logs.index import LogFile
from rltui.services.logs.listing import all_logs
from rltui.services.logs.merged import MergedLog, offset_at
from rltui.services.logs.search import LogSearch
from rltui.services.metrics.store import SeriesReader
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord, KeptFiles
from rltui.services.runs.journal import JournalFeed


def read_config(path: str) -> ConfigText:
    """A config file as it is now, byte order mark and line endings included.

    Raises:
        ConfigError: if it cannot be read, is no regular file, too large, or not UTF-8.
    """
    try:
        content = content_of(Path(path))
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", hint="convert it first") from error
    return ConfigText(path=path, text=text, sha256=hashlib.sha256(content).hexdigest())


class ReadExperiment:
    """The part of `Experiment` for which no supervisor is asked."""

    host = ""

    def __init__(self, record: ExperimentRecord) -> None:
        """Raises RltuiError if its layout cannot be understood."""
        self.record = record
        self.name = record.name
        self.observed = record.observed
        self._control = ControlFolder(Path(record.output_dir))
        self._journal = JournalFeed(self._control.journal_file)
        self._kept = KeptFiles(self._control.path)
        layout = layout_files.load_for(record)
        self.layout_name = Path(record.layout_file).stem
        self.screen: Screen = layout.screen
        self.component_ids = tuple(spec.id for spec in layout.automatic)
        self.log_ids = tuple(spec.id for spec in layout.log)

    @property
    def run_id(self) -> str:
        from rltui.services.runs.run_sheet import read_sheet  # the first frame need not wait for it

        sheet = read_sheet(self._control.path)
        return "" if sheet is None else sheet.id

    def read_config(self, path: str) -> ConfigText:
        return read_config(path)

    def edit_text(self, path: str, text: str) -> str:
        return programs.edit_text(path, text)

    def open_log(self, path: str) -> LogSource:
        return LogFile(Path(path))

    def logs(self) -> tuple[LogEntry, ...]:
        return all_logs(self.record)

    def open_merged(self, logs: Sequence[LogEntry]) -> MergedSource:
        return MergedLog(logs)

    def log_offset_at(self, log: LogEntry, at: float) -> int | None:
        return offset_at(Path(log.path), at, log.started_at)

    def search_log(
        self, path: str, query: Query | None, level: Level | None, start: int, *, with_text: bool = True
    ) -> LogSearching:
        del with_text  # it costs nothing here
        return LogSearch(Path(path), query, level=level, start=start)

    def open_series(self) -> SeriesSource:
        return SeriesReader(self._control.series)

    async def journal(self) -> tuple[JournalEntry, ...]:
        return await asyncio.to_thread(self._journal.read)

    def pins(self) -> tuple[str, ...]:
        return self._kept.pins()

    def save(self, name: str, text: str) -> str:
        return str(self._kept.save(name, text))

    def open_rollouts(self, folder: str = "") -> RolloutSource:
        from rltui.services.runs.rollouts import open_rollouts  # the first frame need not wait for it

        return open_rollouts(Path(folder or self.record.run_dir))

    def pager_command(self, path: str) -> list[str]:
        return programs.pager_command(path)

    async def open_url(self, url: str) -> bool:
        return await programs.open_url(url)
