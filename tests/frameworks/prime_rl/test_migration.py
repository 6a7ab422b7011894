"""Configs of each generation, converted to the next ones. `RECORD=1` writes what comes out as expected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rltui.base.toml import edit
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.migration import Migrated, MigratedFile
from rltui.frameworks.prime_rl import configs, migration

CASES = sorted((Path(__file__).parents[2] / "data" / "prime_rl" / "migrations").iterdir())
in_each_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)


def read(paths: list[Path]) -> list[ConfigFile]:
    parsed = [(str(path), edit.parse(path.read_text(), str(path))) for path in paths]
    roles = migration.roles_of(parsed)
    assert roles is not None
    return [
        ConfigFile(role, path, data, content=Path(path).read_bytes())
        for role, (path, data) in zip(roles, parsed, strict=True)
    ]


def migrate(files: list[ConfigFile], to: str) -> Migrated:
    release = migration.find(to)
    assert release is not None
    return migration.migrate(files, release)


def again(file: MigratedFile) -> ConfigFile:
    data = edit.parse(file.text, file.path)
    return ConfigFile(file.role, file.path, data, content=file.text.encode())


def described(file: MigratedFile) -> str:
    """What was done, a line each, below the new text."""
    lines = [
        f"# {change.kind}: {change.key} → {change.to} {change.value}".rstrip() for change in file.changes
    ]
    return f"{file.text.rstrip()}\n\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize("to", ["B", "C", "D"])
@in_each_case
def test_each_key_goes_where_the_release_has_it(case: Path, to: str) -> None:
    files = read(sorted(path for path in case.glob("*.toml") if not path.name.startswith("to_")))
    expected = case / f"to_{to}.toml"
    if case.name.startswith("c_") and to < "C":
        with pytest.raises(ConfigError, match="later than B"):
            migrate(files, to)
        return
    (file,) = migrate(files, to).files
    if os.environ.get("RECORD"):
        expected.write_text(described(file))
    assert described(file) == expected.read_text()
    assert file.schema.misfit_count(edit.parse(file.text, ""), configs.FREE) == case.name.count("everything")
    assert migrate([again(file)], to).files[0].text == file.text, "it is for that release already"


@in_each_case
def test_one_way_to_d_is_that_over_all_generations(case: Path) -> None:
    files = read(sorted(path for path in case.glob("*.toml") if not path.name.startswith("to_")))
    (direct,) = migrate(files, "D").files
    for release in migration.MIGRATION.releases[1:]:
        if migration.source_of(files).day <= release.day:
            files = [again(file) for file in migration.migrate(files, release).files]
    assert files[0].data == edit.parse(direct.text, "")
