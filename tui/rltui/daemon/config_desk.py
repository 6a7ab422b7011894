"""The config of the experiment, as a supervisor sees it: the files, what runs of them, and who is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from rltui.core.api import Alert
from rltui.core.config_report import Conversion, KnobTable
from rltui.core.layout import GpuSourceSpec
from rltui.daemon.component import ComponentRunner
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.setup import Setup
from rltui.daemon.telling import Teller
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import ConfigFiles, RunFiles
from rltui.frameworks.conversion import Way
from rltui.services import checkout
from rltui.services.batch_conversion import conversion
from rltui.services.config_editor import ConfigEditor
from rltui.services.config_store import ConfigStore, load_snapshot
from rltui.services.launch import Launcher
from rltui.services.step_times import StepTimes

logger = logging.getLogger(__name__)


class ConfigDesk:
    """Reads and tells; `editor` writes. Lives on the supervisor's loop."""

    def __init__(
        self,
        setup: Setup,
        recipe: Launcher,
        runners: Mapping[str, ComponentRunner],
        teller: Teller,
        *,
        progress: Callable[[], ProgressTracker],
    ) -> None:
        """`progress` is asked for when a table is: its metrics lie where the config says."""
        self._setup = setup
        self._framework = setup.framework
        self._recipe = recipe
        self._runners = runners
        self._teller = teller
        self._progress = progress
        times = StepTimes(self._framework, setup.control, lambda: progress().series)
        self.store = ConfigStore(
            [Path(name) for name in setup.record.config_files],
            self._framework,
            components=setup.components,
            launched=setup.layout.launched,
            derive=times.derive,
            forced=setup.record.forced,
        )
        self.editor = ConfigEditor(self.store, setup.control, teller.journal)

    def settle(self) -> None:
        """Finish an edit that an earlier supervisor was killed at."""
        try:
            self.editor.settle()
        except RltuiError as error:
            title = "an edit that was begun is not settled"
            self._teller.alert(Alert(kind="config", severity="error", title=title, text=str(error)))

    def running(self) -> dict[str, ConfigFiles]:
        """Living component → the files it was started with.

        Raises:
            ConfigError: if a kept copy was damaged since.
        """
        control = self._setup.control
        return {
            name: load_snapshot(control.attempt_dir(name, runner.attempt) / "config", self._framework)
            for name, runner in self._runners.items()
            if runner.life.alive and runner.attempt is not None
        }

    def run_files(self) -> RunFiles:
        """What the run's files are called, by the config; as usual where that cannot be read."""
        try:
            return self._framework.files_of(self.store.files)
        except ConfigError:  # told with the first knob table
            return self._framework.files

    def gpu_sources(self) -> tuple[tuple[GpuSourceSpec, ...], str | None]:
        """Commands that read other machines' GPUs, and why they must not be run; none where the config, which
        may name them, is broken.
        """
        specs, folder = tuple(self._setup.layout.gpu_source), Path(self._setup.record.layout_file).parent
        if specs and not checkout.is_trusted(folder):
            return specs, f"not asked: {checkout.untrusted(folder)}"
        try:
            return self._recipe.gpu_sources(self.store.files), None
        except ConfigError as error:
            self._teller.config_error(error)
            return (), None

    def trust(self) -> None:
        """Somebody starts it, so what it runs is meant to be run."""
        record = self._setup.record
        try:
            checkout.trust(
                checkout.programs_of(
                    Path(record.layout_file),
                    self._framework,
                    workspace=self._setup.workspace,
                    config_files=[Path(name) for name in record.config_files],
                )
            )
        except RltuiError as error:
            logger.warning("trust is not kept: %s", error)

    def knobs(self) -> KnobTable:
        """The knob table, from the files as they are now.

        Raises:
            ConfigError: if a file cannot be read; the components go on with what they were started with.
        """
        return self.editor.knob_table(self.running())

    def publish(self) -> None:
        """Tell subscribers about the files as they are now, and take over what they say of the run's end."""
        try:
            table = self.knobs()
        except ConfigError as error:
            self._teller.config_error(error)
            return
        self._teller.config_error(None)
        self._progress().max_steps = self._framework.max_steps(self.store.files)
        self._teller.publish("knobs", table)

    def convert(self, to: Way | None, mean_tokens: float | None) -> Conversion:
        """The batch counted the other way, by what this run measured where `mean_tokens` does not say.

        Raises:
            ConfigError: if it cannot be, or a config file cannot be understood.
        """
        progress = self._progress()
        progress.poll()
        table = self.knobs()
        files, series = self.store.files, progress.series
        return conversion(self._framework, files, table, series, to=to, mean_tokens=mean_tokens)
