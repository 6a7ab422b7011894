"""Before a component starts: the files that its framework makes of the config, kept with the attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rltui.daemon.telling import Teller
from rltui.frameworks.base import ConfigFiles
from rltui.services.launch import Launcher
from rltui.services.resolved_configs import Resolver
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord

FOLDER = "resolved"
"""Below the attempt's folder, and below rltui's own for all of them."""


class ResolvedConfigs:
    """Makes what a component's layout entry asks for; components that start together share one making."""

    def __init__(
        self, record: ExperimentRecord, control: ControlFolder, recipe: Launcher, teller: Teller
    ) -> None:
        self._recipe = recipe
        self._teller = teller
        self._resolver = Resolver(control.path / FOLDER, workspace=Path(record.workspace))

    async def rehearse(
        self, components: Sequence[str], files: ConfigFiles, *, resume_step: int | None, run_id: str
    ) -> None:
        """Make what `components` will ask for, so that a refusal is known before anything is stopped.

        Raises:
            ConfigError, RltuiError: as `of`.
        """
        run = self._recipe.run_prefix(files)
        for component in components:
            for wanted in self._recipe.resolutions(component, files, resume_step=resume_step, run_id=run_id):
                await self._resolver.prepare(wanted, files, run=run)

    async def of(
        self,
        component: str,
        files: ConfigFiles,
        attempt_dir: Path,
        *,
        resume_step: int | None,
        run_id: str,
    ) -> Mapping[str, str]:
        """Name → path of each file that was made, in the attempt's folder; empty where none is asked for.

        Raises:
            ConfigError: if the framework refuses the config.
            RltuiError: if it cannot be asked, or the disk is full.
        """
        found: dict[str, str] = {}
        wanted = self._recipe.resolutions(component, files, resume_step=resume_step, run_id=run_id)
        for resolution in wanted:
            run = self._recipe.run_prefix(files)
            made = await self._resolver.make(resolution, files, run=run, into=attempt_dir / FOLDER)
            found.update(made.files)
            if not made.was_kept and resolution.notes:
                self._teller.journal.add("config", "; ".join(resolution.notes), component=component)
        return found
