"""Configs of each generation, converted to the next ones. `RECORD=1` writes what comes out as expected."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rltui.base.toml import edit
from rltui.base.toml.scan import BOM
from rltui.base.toml.values import format_value
from rltui.core.config.data import apply_edits, leaves
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


def misfits(file: MigratedFile, to: str) -> int:
    release = migration.find(to)
    assert release is not None
    return configs.fit(configs.snapshot(release.day, file.role), edit.parse(file.text, "")).strange


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
    assert misfits(file, to) == case.name.count("everything")
    assert migrate([again(file)], to).files[0].text == file.text, "it is for that release already"
    of_windows = [replace(one, content=BOM.encode() + one.content.replace(b"\n", b"\r\n")) for one in files]
    text = file.text.replace("\n", "\r\n")
    assert migrate(of_windows, to).files[0].text == (text if len(files) > 1 else BOM + text)


@in_each_case
def test_one_way_to_d_is_that_over_all_generations(case: Path) -> None:
    files = read(sorted(path for path in case.glob("*.toml") if not path.name.startswith("to_")))
    (direct,) = migrate(files, "D").files
    for release in migration.RELEASES[1:]:
        if migration.source_of(files).day <= release.day:
            files = [again(file) for file in migration.migrate(files, release).files]
    assert files[0].data == edit.parse(direct.text, "")


def test_releases_have_letters_and_dates() -> None:
    words = {"b": "B", "2026-05": "B", "2026-08": "C", "2026-08-01": "B", "2026-10-03": "D"}
    assert {word: found.name for word in words if (found := migration.find(word))} == words
    assert [migration.find(word) for word in ("", "3", "2026", "E", "2025-01")] == [None] * 5


def test_ratios_go_to_the_environments_as_far_as_there_are_some() -> None:
    text = "[orchestrator.buffer]\nenv_ratios = [1, 2, 3]\n" + '[[orchestrator.env]]\nid = "a"\n' * 2
    file = ConfigFile("rl", "/x/rl.toml", edit.parse(text, ""), content=text.encode())
    (done,) = migrate([file], "D").files
    sources = edit.parse(done.text, "")["orchestrator"]["train"]["source"]
    assert [source["ratio"] for source in sources] == [1, 2]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("[orchestrator]\n[trainer.optim]\nlr = 1e-5\n", "C or D, taken as C (August 2026, run folders),"),
        ("[orchestrator]\n[trainer.optim]\nweight_decay = 0.1\n", "C (August 2026, run folders)"),
    ],
)
def test_a_file_of_either_release_says_so_if_that_matters(text: str, source: str) -> None:
    file = ConfigFile("rl", "/x/rl.toml", edit.parse(text, ""), content=text.encode())
    assert migrate([file], "D").source_words == source


# --- any config ---------------------------------------------------------------------------------------------


def example(kind: str, default: object, choices: tuple[str, ...]) -> object:
    """A value that is not the default, if possible."""
    if choices:
        return choices[-1]
    if default not in (None, {}, []):
        return default
    return {"int": 4, "float": 0.5, "bool": True, "str": "text", "list": ["a"]}.get(kind)


@st.composite
def any_config(draw: st.DrawFn) -> tuple[str, str, str]:
    """Day of a release, role of the file, its text: some keys that it can have, each with comments."""
    day = draw(st.sampled_from(sorted(configs.DAYS)[:-1]))
    role = draw(st.sampled_from(["rl", "sft"]))
    base = {"orchestrator": {}, "trainer": {}, "inference": {}} if role == "rl" else {"data": {"seq_len": 8}}
    schema = configs.snapshot(day, role)
    knobs = {knob.key: knob for knob in schema.read(base, role=role).knobs}
    data: dict[str, object] = dict(base)
    for key in draw(st.lists(st.sampled_from(sorted(knobs)), min_size=1, max_size=12, unique=True)):
        value = example(knobs[key].kind, knobs[key].default, knobs[key].choices)
        if value is not None:
            data = apply_edits(data, {key: value})
    assume(schema.misfit_count(data, configs.FREE) == 0)
    tables: dict[str, list[str]] = {"": [], **{table: [] for table in base}}
    for key, value in leaves(data):
        table, _, name = key.rpartition(".")
        if value != {}:
            tables.setdefault(table, []).append(f"# above {key}\n{name} = {format_value(value)} # of {key}\n")
    return (
        day,
        role,
        "".join((f"[{table}]\n" if table else "") + "".join(lines) for table, lines in tables.items()),
    )


@given(any_config())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_config_fits_the_next_release(config: tuple[str, str, str]) -> None:
    day, role, text = config
    target = sorted(configs.DAYS)[sorted(configs.DAYS).index(day) + 1]
    file = ConfigFile(role, "/x/rl.toml", edit.parse(text, ""), content=text.encode())
    (done,) = migrate([file], target).files
    assert misfits(done, target) == 0, done.text
    gone = [change.key for change in done.changes if change.kind in ("dropped", "merged")]
    for key, _ in leaves(file.data):
        if not any(f"{key}.".startswith(f"{table}.") for table in gone) and f"# of {key}\n" in text:
            assert f"# of {key}\n" in done.text
            assert f"# above {key}\n" in done.text
