"""What a start needs of the config files: a copy of them, what the framework makes of them, the command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rltui.daemon.resolved_configs import ResolvedConfigs
from rltui.daemon.run_start import RunStart
from rltui.errors import RltuiError
from rltui.frameworks.base import ConfigFiles, ServiceCall
from rltui.services.config_files import write_passed
from rltui.services.config_store import ConfigStore
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.launch import Launch, Launcher


class Launches:
    """Fills in what the layout asks for, with the run's resume point."""

    def __init__(
        self,
        store: ConfigStore,
        recipe: Launcher,
        resolved: ResolvedConfigs,
        run_start: RunStart,
        readings: GpuReadings,
        *,
        own: Path,
    ) -> None:
        """`own`: rltui's own folder for the experiment."""
        self._store = store
        self._recipe = recipe
        self._resolved = resolved
        self._run_start = run_start
        self._readings = readings
        self._own = own

    async def rehearse(
        self, components: Sequence[str], files: ConfigFiles, *, resume_step: int | None
    ) -> None:
        """Make what starts of `components` will ask for; seconds may pass.

        Raises:
            ConfigError: if the framework refuses the config.
            RltuiError: if it cannot be asked, or the disk is full.
        """
        run_id = self._run_start.run_id
        await self._resolved.rehearse(components, files, resume_step=resume_step, run_id=run_id)

    async def prepare(self, component: str, attempt_dir: Path) -> Launch:
        """Snapshot the config and fill in the command, once it is known which GPUs there are.

        Raises:
            ConfigError: if the config cannot be understood, or the framework refuses it.
            RltuiError: if the framework cannot be asked, or the disk is full.
        """
        await self._readings.first()
        self._store.load()
        files = self._store.snapshot(attempt_dir / "config")
        step, run_id = self._run_start.resume_step, self._run_start.run_id
        resolved = await self._resolved.of(component, files, attempt_dir, resume_step=step, run_id=run_id)
        passed = self._recipe.passed(component, files, resume_step=step, run_id=run_id)
        write_passed(attempt_dir / "config", passed)
        launch = self._recipe.launch(component, files, resume_step=step, run_id=run_id, resolved=resolved)
        if launch.ready is not None and launch.ready.file is not None:
            self._forget(Path(launch.ready.file))
        return launch

    def _forget(self, mark: Path) -> None:
        """A file of rltui's own that told that the attempt before was ready: it misleads its partners, too.

        Raises:
            RltuiError: if it cannot be removed.
        """
        if not mark.is_relative_to(self._own):
            return
        try:
            mark.unlink(missing_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot remove {mark}, which is out of date: {error.strerror}") from error

    def service_calls(self) -> Sequence[ServiceCall]:
        """What services that stay must be told before the jobs of the run start.

        Raises:
            ConfigError: if the config cannot be understood.
        """
        return self._recipe.service_calls(self._store.files, resume_step=self._run_start.resume_step)
