"""Whether converted config files mean what they meant: both releases' own models are asked, where a checkout
of them is near, and the shipped schemas stand in for the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from rltui.core.config.equivalence import Resolved, equivalence
from rltui.core.config.report import Equivalence
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.migration import ConfigRelease, Migration
from rltui.services.config.models import FrameworkModels
from rltui.services.experiment.checkout import NearbyCheckout


class Meanings:
    """Asks checkouts; keep it for several files, since a checkout takes seconds to answer first. Close it."""

    def __init__(self, migration: Migration, framework: Callable[[str], Framework]) -> None:
        """`framework`: finds one by its id."""
        self._migration, self._framework = migration, framework
        self._asked: dict[tuple[str, Path], FrameworkModels] = {}
        self._ends = ExitStack()
        self.reason: str | None = None
        """Why the models could not be asked about the last files; `None` if they were, or none is near."""

    def compared(
        self,
        before: ConfigFiles,
        source: ConfigRelease,
        after: ConfigFiles,
        target: ConfigRelease,
        workspaces: tuple[Path, Path],
    ) -> Equivalence:
        """The files as they were for one release, and as they are for a later one. `workspaces`: where a
        checkout is looked for, besides near the files.
        """
        old = self.of(before, source, workspaces[0])
        moved = self._migration.moved(old, before, source, target)
        new = self.of(after, target, workspaces[1])
        return equivalence(old, new, moved, self._migration.set_values(before))

    def of(self, files: ConfigFiles, release: ConfigRelease, workspace: Path) -> Resolved:
        """The values of files, defaults and those that follow from others included."""
        self.reason = None
        for folder, models in self.near(files, release, workspace):
            if values := models.values(files):
                return self._migration.by_models(values, files, f"the models of {folder}")
            self.reason = models.reason
        return self._migration.shipped(self.shipped(files, release).config, files)

    def near(
        self, files: ConfigFiles, release: ConfigRelease, workspace: Path
    ) -> Iterator[tuple[Path, FrameworkModels]]:
        """The checkouts of a release that are near the files or named by the user, with their models."""
        framework = self._framework(self._migration.reader(files, release))
        for folder in _checkouts(framework, [Path(file.path) for file in files.values()], workspace):
            models = self._models(framework, folder)
            found = self._migration.of_schemas(models.informed([]).given.schemas)
            if found is not None and found.name == release.name:
                yield folder, models
            else:
                self.reason = models.reason if found is None else f"{folder} is {found.label}"

    def shipped(self, files: ConfigFiles, release: ConfigRelease) -> Framework:
        """The framework that reads the files, with the schemas of a release that come with rltui."""
        framework = self._framework(self._migration.reader(files, release))
        return framework.with_schemas(self._migration.schemas(files, release))

    def close(self) -> None:
        """End what was started."""
        self._ends.close()

    def _models(self, framework: Framework, folder: Path) -> FrameworkModels:
        models = self._asked.get((framework.id, folder))
        if models is None:
            models = self._ends.enter_context(closing(FrameworkModels(framework, folder)))
            self._asked[framework.id, folder] = models
        return models


def _checkouts(framework: Framework, paths: list[Path], workspace: Path) -> list[Path]:
    """That of the files, and the one that the user named."""
    found: list[Path] = []
    if (spec := framework.checkout) is None:
        return found
    environments: tuple[Mapping[str, str], ...] = ({}, os.environ)
    for environment in environments:
        with suppress(ConfigError):  # a wrong name is told by whoever runs something there
            near = NearbyCheckout(spec, workspace=workspace, config_files=paths, environment=environment)
            found += [near.folder] if near.folder and near.folder not in found else []
    return found
