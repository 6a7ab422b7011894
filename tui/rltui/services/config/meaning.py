"""What config files mean to a release: asked of a checkout near them, else read by the shipped schemas."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.core.config.equivalence import Resolved
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config.models import FrameworkModels
from rltui.services.experiment.checkout import NearbyCheckout


@dataclass(frozen=True, slots=True)
class Reader:
    """A release that reads some files."""

    framework: Framework
    """Its models are asked for these files."""
    day_of: Callable[[Mapping[str, Mapping[str, Any]]], str]
    """The state of a checkout that has reported these schemas, by role."""
    is_of: Callable[[str], bool]
    """Whether a checkout of that state is of this release."""
    by_models: Callable[[Mapping[str, Mapping[str, Any]], ConfigFiles, str, str], Resolved]
    shipped: Callable[[ConfigFiles], Resolved]


def resolved(reader: Reader, files: ConfigFiles, workspace: Path) -> Resolved:
    """The values of files, defaults and those that follow from others included."""
    paths = [Path(file.path) for file in files.values()]
    for folder in _checkouts(reader, paths, workspace):
        with closing(FrameworkModels(reader.framework, folder)) as models:
            schemas = models.schemas(paths)
            asked = {role: schemas[role] for role in files if role in schemas}
            day = reader.day_of(asked) if asked else ""
            if day and reader.is_of(day) and (values := models.values(files)):
                return reader.by_models(values, files, f"the models of {folder}", day)
    return reader.shipped(files)


def _checkouts(reader: Reader, paths: list[Path], workspace: Path) -> Iterator[Path]:
    """That of the files, and the one that the user named."""
    found = []
    nothing: Mapping[str, str] = {}
    for environment in (nothing, os.environ):
        with suppress(ConfigError):  # a wrong name is told by whoever runs something there
            spec = reader.framework.checkout
            folder = (
                spec
                and NearbyCheckout(
                    spec, workspace=workspace, config_files=paths, environment=environment
                ).folder
            )
            found += [folder] if folder and folder not in found else []
    yield from found
