"""Config files of one generation written for a later one, each key with what became of it and why.

What was renamed is in `data/concepts.toml`, what else has changed in `data/migration.toml`, and which keys a
release has in its schema. A file goes through all releases with a schema, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from rltui.base.toml import edit
from rltui.base.toml.rearrange import nested, unnested
from rltui.base.toml.scan import BOM
from rltui.core.config.schema import ConfigSchema
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFile, Parsed
from rltui.frameworks.migration import ConfigRelease, Migrated, MigratedFile
from rltui.frameworks.prime_rl import configs
from rltui.frameworks.prime_rl.rewrite import FileRewrite
from rltui.frameworks.verifiers.files import is_vf_rl

RELEASES = (
    ConfigRelease("A", "until January 2026, three files", "2025-09", "2025-12-01", configs.SPLIT),
    ConfigRelease("B", "until August 2026, one file", "2026-02", "2026-04-25", configs.MERGED),
    ConfigRelease("C", "August 2026, run folders", "2026-08-08", "2026-08-21", configs.CURRENT),
    ConfigRelease("D", "since September 2026", "2026-09", "2026-11-01", configs.CURRENT),
)


def find(word: str) -> ConfigRelease | None:
    """Find a generation by its letter, by a date in its time, or by the day of a schema."""
    if word in configs.DAYS:
        return _release_of(word)
    if re.fullmatch(r"20\d\d-\d\d(-\d\d)?", word):
        named = [known for known in RELEASES if known.since <= word or known.since.startswith(word)]
    else:
        named = [known for known in RELEASES if known.name == word.upper()]
    return named[-1] if named else None


def _release_of(day: str) -> ConfigRelease:
    """The release of a schema: a generation, or a state within one."""
    for known in RELEASES:
        if known.day == day:
            return known
    letter = next(known for known in RELEASES if known.framework == configs.generation_of(day))
    return replace(letter, title=f"as of {date.fromisoformat(day):%-d %B %Y}", day=day)


def roles_of(parsed: Parsed) -> tuple[str, ...] | None:
    """Files of several programs, or each file for itself; a file of few keys goes with the one before it."""
    if len(parsed) > 1:
        parts = [configs.role_in(configs.SPLIT, path, data) for path, data in parsed]
        if None not in parts and len(set(parts)) == len(parts) and set(parts) <= set(configs.PARTS):
            return tuple(map(str, parts))
    roles: list[str] = []
    for path, data in parsed:
        role = configs.role_in(configs.CURRENT, path, data)
        if role is None and not is_vf_rl(data):
            role = roles[-1] if roles else configs.role_in(configs.SPLIT, path, data)
        if role is None:
            return None
        roles.append(role)
    return tuple(roles)


def of_schemas(schemas: Mapping[str, ConfigSchema]) -> ConfigRelease | None:
    """The generation whose shipped schemas lack the fewest keys of a checkout's; of equals the newest."""
    lacking = {
        known: sum(
            len(schema.keys - configs.snapshot(known.day, role).keys) for role, schema in schemas.items()
        )
        for known in reversed(RELEASES)
    }
    return min(lacking, key=lacking.__getitem__) if schemas else None


def reader(roles: Iterable[str], release: ConfigRelease) -> str:
    """Id of the framework whose programs read files of these roles."""
    return configs.SPLIT if set(roles) <= set(configs.PARTS) else release.framework


def source_of(files: Sequence[ConfigFile], until: str = configs.NEVER) -> ConfigRelease:
    """The release that the files fit best: of equals the newest, but not one after a day if possible."""
    return _release_of(
        min(_fitting(files), key=lambda day: (day > until, configs.snapshot(day, "rl").partial))
    )


def _fitting(files: Sequence[ConfigFile]) -> list[str]:
    """The days whose schemas the files fit best, the newest first."""
    if _are_parts(files):
        return [RELEASES[0].day]
    misfits = {
        day: sum(configs.fit(configs.snapshot(day, file.role), file.data).strange for file in files)
        for day in configs.DAYS
    }
    return [day for day in configs.DAYS if misfits[day] == min(misfits.values())]


def _are_parts(files: Sequence[ConfigFile]) -> bool:
    """They are the files of the first generation, which belong together."""
    return len(files) > 1 and {file.role for file in files} <= set(configs.PARTS)


def migrate(
    files: Sequence[ConfigFile], target: ConfigRelease, source: ConfigRelease | None = None
) -> Migrated:
    """The files as they would be for a later release; nothing is written. `source`: as in `Migration`.

    Raises:
        ConfigError: if they are for a later one already, or cannot be rewritten without loss.
    """
    if source is not None:
        return Migrated(source, target, _all_migrated(files, source, target))
    source = source_of(files, until=target.day)
    done = _all_migrated(files, source, target)
    fitting = {known.name: known for known in map(_release_of, reversed(_fitting(files)))}
    others = (
        known
        for name, known in fitting.items()
        if name != source.name and known.day <= target.day
        if [file.text for file in _all_migrated(files, known, target)] != [file.text for file in done]
    )
    return Migrated(source, target, done, tuple(others))


def _all_migrated(
    files: Sequence[ConfigFile], source: ConfigRelease, target: ConfigRelease
) -> tuple[MigratedFile, ...]:
    if source.day > target.day:
        raise ConfigError(
            f"the config is for {source.label}, which is later than {target.name}",
            hint="a config is only converted to a later generation",
        )
    if _are_parts(files) and source is RELEASES[0] and target is not source:
        return (_merged(files, target),)
    roles = [file.role for file in files]
    return tuple(
        _migrated(file, source, target, is_overlay=file.role in roles[:index])
        for index, file in enumerate(files)
    )


def _migrated(
    file: ConfigFile, source: ConfigRelease, target: ConfigRelease, *, is_overlay: bool
) -> MigratedFile:
    """Convert one file. `is_overlay`: it changes values of another file, and leaves others as they are."""
    is_part = file.role in configs.PARTS
    mark = BOM if file.text.startswith(BOM) else ""
    content = file.text.removeprefix(mark)
    text = nested(content, file.role) if is_part else content
    work = FileRewrite(file.role, edit.parse(text, file.path), is_overlay=is_overlay)
    work.advance(source.day, target.day)
    if is_part:
        work.keep_within()
    changed = work.text(text, file.path)
    if is_part:
        changed = unnested(changed, file.role)
    new_text = mark + changed if work.is_changed else file.text
    return MigratedFile(file.path, file.role, (file,), new_text, work.report())


def _merged(files: Sequence[ConfigFile], target: ConfigRelease) -> MigratedFile:
    """The files of the three programs as one, with what is the same for all at its top."""
    by_role = {file.role: file for file in files}
    parts = [by_role[role] for role in reversed(configs.PARTS) if role in by_role]
    newline = edit.newline_of(parts[0].text)
    contents = (nested(file.text.removeprefix(BOM), file.role) for file in parts)
    text = newline.join(f"{content.rstrip()}{newline}" for content in contents)
    path = f"{parts[0].path.rpartition('/')[0]}/rl.toml"
    work = FileRewrite("rl", edit.parse(text, path))
    work.share([file.role for file in parts], RELEASES[0].day)
    work.advance(RELEASES[0].day, target.day)
    return MigratedFile(path, "rl", tuple(parts), work.text(text, path), work.report())
