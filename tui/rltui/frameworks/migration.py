"""Config files of a framework, written for a later release of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.core.config.equivalence import Moved, Resolved
from rltui.core.config.report import KeyChange
from rltui.core.config.schema import ConfigSchema
from rltui.frameworks.config import ConfigSide
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, Parsed


@dataclass(frozen=True, slots=True)
class ConfigRelease:
    """A state of a framework that files can be written for."""

    name: str
    """As a command line names it."""
    title: str
    """Its time, and what tells it, in words."""
    since: str
    """First day, or month, of such releases."""
    day: str
    """Day of the schema that stands for it."""
    framework: str
    """Id of the framework whose programs read its files."""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.title})"


@dataclass(frozen=True, slots=True)
class MigratedFile:
    path: str
    """Where the new content belongs."""
    role: str
    sources: tuple[ConfigFile, ...]
    """The files that it was made of."""
    text: str
    changes: tuple[KeyChange, ...]

    @property
    def is_new(self) -> bool:
        """It is none of those that it was made of."""
        return all(source.path != self.path for source in self.sources)


@dataclass(frozen=True, slots=True)
class Migrated:
    source: ConfigRelease
    target: ConfigRelease
    files: tuple[MigratedFile, ...]
    others: tuple[ConfigRelease, ...] = ()
    """Releases that the files fit as well as their source, and from which they would become others."""

    @property
    def source_words(self) -> str:
        names = " or ".join(sorted(release.name for release in (self.source, *self.others)))
        return f"{names}, taken as {self.source.label}," if self.others else self.source.label


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The releases of a framework, and the way from one to a later one."""

    releases: tuple[ConfigRelease, ...]
    """The generations, oldest first."""
    find: Callable[[str], ConfigRelease | None]
    """Find a release by a name or a date."""
    roles: Callable[[Parsed], tuple[str, ...] | None]
    """The role of each of some files; `None` if one is none of this framework's."""
    source: Callable[[Sequence[ConfigFile]], ConfigRelease]
    """The release that files fit best."""
    migrate: Callable[[Sequence[ConfigFile], ConfigRelease, ConfigRelease | None], Migrated]
    """Nothing is written. Raises `ConfigError` if the files are for a later release, or cannot be rewritten
    without loss. The last argument is the release that they are for, if that is known; else the one that they
    fit best counts.
    """
    of_schemas: Callable[[Mapping[str, ConfigSchema]], ConfigRelease | None]
    """The generation of a checkout whose programs have these schemas, by role."""
    reader: Callable[[Iterable[str], ConfigRelease], str]
    """Id of the framework whose programs read files of these roles."""
    by_models: Callable[[Mapping[str, Mapping[str, Any]], ConfigFiles, str], Resolved]
    """All values of files as the models of a checkout, which is named in words, give them by role."""
    schemas: Callable[[ConfigFiles, ConfigRelease], Mapping[str, ConfigSchema]]
    """The shipped schemas of a release for some files, by role."""
    shipped: Callable[[ConfigSide, ConfigFiles], Resolved]
    """All values of files as a side that has those schemas reads them."""
    moved: Callable[[Resolved, ConfigFiles, ConfigRelease, ConfigRelease], Iterable[Moved]]
    """Where a later release is expected to have each value of an earlier one."""
    set_values: Callable[[ConfigFiles], Mapping[str, Any]]
    """What files set, by the keys of those values."""
