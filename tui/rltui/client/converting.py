"""Config files written for another framework, or for a later release of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.text import join_words
from rltui.client import launch
from rltui.core import hints
from rltui.core.config.data import apply_edits, leaves
from rltui.core.config.report import ConvertedFile, Equivalence, ForeignConfig, Problem
from rltui.core.experiment.rights import Act
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.migration import ConfigRelease, Migrated, MigratedFile, Migration
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import parse_file, read_file
from rltui.services.config.document import ConfigDocument
from rltui.services.config.file_history import owner_of, recording
from rltui.services.config.files import detect, load_files, located
from rltui.services.config.meaning import Meanings
from rltui.services.config.models import informed
from rltui.services.config.writing import write_changes
from rltui.services.experiment.rights import require


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """Files as they would be written."""

    report: ForeignConfig
    changes: tuple[FileChange, ...]
    """Of those that are written in place."""
    new: Mapping[Path, str]
    """New file → its text."""


def converted(paths: Sequence[Path], to: str, output: Path | None) -> ConversionPlan:
    """The files written for `to`, a framework or `FRAMEWORK@RELEASE`; nothing is written.

    `output`: the new file, if they are not to be written in place.

    Raises:
        UsageError: if there is no such release.
        ConfigError: if they are not valid, or there is no way from their framework, or release, to that.
    """
    name, _, word = to.partition("@")
    target = registry.get(name)
    files = [read_file(path) for path in paths]
    _refuse_without_included(files, to)
    roles = target.migration.roles([(file.path, file.data) for file in files]) if target.migration else None
    if target.migration is None or roles is None or _is_of_another(paths, target):
        if len(paths) > 1:
            raise UsageError("only files of one framework can be converted together", hint="convert one file")
        return _foreign(paths[0], _release(target, word), target, output)
    files = [replace(file, role=role) for file, role in zip(files, roles, strict=True)]
    release = _release(target, word) or target.migration.releases[-1]
    return _migrated(target.migration, files, release, output)


def _is_of_another(paths: Sequence[Path], target: Framework) -> bool:
    """Return whether another framework, whose files look alike, knows more of their keys."""
    try:
        found = detect(paths, workspace=Path.cwd())
    except ConfigError:  # an overlay, or several generations fit
        return False
    return registry.family_of(found.id) != registry.family_of(target.id)


def _refuse_without_included(files: Sequence[ConfigFile], to: str) -> None:
    """Refuse a file without those that it includes: alone it does not show what it is for.

    Raises:
        UsageError: names the files that are missing.
    """
    paths = [Path(file.path).absolute() for file in files]
    for file, path in zip(files, paths, strict=True):
        included = file.data.get("toml_files")
        names = [name for name in included if isinstance(name, str)] if isinstance(included, list) else []
        if missing := [other for name in names if (other := path.parent / name) not in paths]:
            together = hints.CONVERT_RELEASE(to=to, files=[*missing, *paths])
            raise UsageError(
                f"{file.path} includes {join_words([*map(str, missing)])}",
                hint=f"convert them together: {together}",
            )


def write(converted: ConversionPlan) -> None:
    """Write the files: all or none of those that are changed in place, with their history.

    Raises:
        ConflictError: if one was changed meanwhile, exists already, or is in use by a run; nothing was
            written.
        RltuiError: if one cannot be written.
    """
    require(Act("convert"))
    for path, text in converted.new.items():
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise ConflictError(f"{path} exists already", hint="name another file with --output") from None
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    if converted.changes:
        for change in converted.changes:
            _refuse_running(change.path)
        words = f"converted from {converted.report.source} to {converted.report.target}"
        write_changes(converted.changes, recorded=recording(converted.changes, "write", words))


def _refuse_running(path: Path) -> None:
    if (record := owner_of(path)) is not None:
        with launch.connected(record) as wire:
            if wire is not None:
                raise ConflictError(
                    f"{record.name} is running with {path}", hint=str(hints.DOWN(name=record.name, host=None))
                )


def _release(target: Framework, word: str) -> ConfigRelease | None:
    """Find the release that was named; `None` without one."""
    migration = target.migration
    release = migration.find(word) if migration is not None and word else None
    if word and release is None:
        known = migration.releases if migration is not None else ()
        details = [f"{target.id}@{release.name}: {release.title}" for release in known]
        raise UsageError(f"no release of {target.id} is called {word}", details=details)
    return release


# --- another framework ------------------------------------------------------------------------------------


def _foreign(
    path: Path, release: ConfigRelease | None, named: Framework, output: Path | None
) -> ConversionPlan:
    """Convert for another framework; where a checkout of that is near, its own schemas count."""
    source = detect([path], workspace=Path.cwd())
    generation = named if release is None else registry.get(release.framework)
    new = (output or path.with_name(f"{path.stem}.{generation.id}.toml")).absolute()
    config = load_files([path], source)
    generation = informed(generation, Path.cwd(), [path], ask=True)
    convert = source.conversions.get(generation.id)
    conversion = None if convert is None else convert(config, generation)
    if conversion is None:
        faults = [problem.text for problem in ConfigDocument([path], source).problems() if problem.is_error]
        raise ConfigError(
            f"{path} ({source.title}) cannot be converted to {generation.title}",
            details=faults,
            hint="fix the file first" if faults else registry.conversions(),
        )
    after = parse_file(new, conversion.text.encode(), "rl")
    problems = generation.config.check({"rl": after})
    report = ForeignConfig(
        framework=generation.id,
        source=source.title,
        target=generation.title,
        path=str(new),
        text=conversion.text,
        files=(ConvertedFile(path=str(new), text=conversion.text, sources=(str(path),)),),
        diff=FileChange(config["rl"], after).diff(new.name),
        notes=conversion.notes,
        problems=problems,
        valid=not any(problem.is_error for problem in problems),
    )
    return ConversionPlan(report, (), {new: conversion.text})


# --- a later release --------------------------------------------------------------------------------------


def _migrated(
    migration: Migration, files: Sequence[ConfigFile], release: ConfigRelease, output: Path | None
) -> ConversionPlan:
    done = migration.migrate(files, release, None)
    if output is not None:
        if len(done.files) > 1:
            raise UsageError("--output is for one file", hint="without it, each file is written in place")
        done = replace(done, files=(replace(done.files[0], path=str(output.absolute())),))
    pairs = [(file, parse_file(file.path, file.text.encode(), file.role)) for file in done.files]
    changes = [FileChange(_before(file), after) for file, after in pairs]
    with closing(Meanings(migration, registry.get)) as meanings:
        problems, validator = _problems(meanings, done)
        compared = _compared(meanings, files, done)
    first = done.files[0]
    report = ForeignConfig(
        framework=migration.reader([file.role for file in done.files], release),
        source=done.source_words,
        target=release.label,
        path=first.path,
        text=first.text,
        files=tuple(
            ConvertedFile(
                path=file.path, text=file.text, sources=tuple(source.path for source in file.sources)
            )
            for file in done.files
        ),
        diff="".join(change.diff(Path(change.after.path).name) for change in changes),
        changes=tuple(change.replace(file=file.path) for file in done.files for change in file.changes),
        problems=problems,
        valid=not any(problem.is_error for problem in problems),
        validator=validator,
        compared=compared,
    )
    in_place = (change for (file, _), change in zip(pairs, changes, strict=True) if not file.is_new)
    return ConversionPlan(
        report,
        tuple(change for change in in_place if not change.is_empty),
        {Path(file.path): file.text for file in done.files if file.is_new},
    )


def _before(file: MigratedFile) -> ConfigFile:
    """Return what its diff begins with: the file, or all that a new one is made of."""
    if len(file.sources) == 1:
        return file.sources[0]
    content = b"\n".join(source.content.rstrip() + b"\n" for source in file.sources)
    return ConfigFile(file.role, file.path, {}, content=content)


def _problems(meanings: Meanings, done: Migrated) -> tuple[tuple[Problem, ...], str]:
    """Problems of the files for the release, and who says so: a checkout of it, or a shipped schema."""
    files = _together(done.files)
    near = meanings.near(files, done.target, Path.cwd()) if len(done.files) == 1 else iter(())
    if found := next(near, None):
        models = found[1]
        framework = models.informed([])
        ours = located(framework.config.check(files), files)
        if models.accepts(files):
            ours = tuple(problem for problem in ours if not problem.is_error)
        return (*ours, *models.problems(files, ours)), f"{framework.title}'s own validators"
    framework = meanings.shipped(files, done.target)
    problems = located(framework.config.check(files), files)
    return problems, f"the shipped schema of {join_words(framework.config.schema_dates(files))}"


def _compared(meanings: Meanings, files: Sequence[ConfigFile], done: Migrated) -> Equivalence | None:
    """Compare what they mean; `None` for several files of one program, which models are not asked for."""
    after = _together(done.files)
    if len(after) < len(done.files):
        return None
    before = {file.role: file for file in files}
    return meanings.compared(before, done.source, after, done.target, (Path.cwd(), Path.cwd()))


def _together(files: Sequence[MigratedFile]) -> ConfigFiles:
    """The files by their roles; a later one with the same role lies over the one before."""
    together: dict[str, ConfigFile] = {}
    for file in files:
        parsed = parse_file(file.path, file.text.encode(), file.role)
        if (base := together.get(file.role)) is not None:
            parsed = replace(parsed, data=apply_edits(base.data, dict(leaves(parsed.data))))
        together[file.role] = parsed
    return together
