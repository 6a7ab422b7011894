"""What a reference means, among runs of which some are archived, trashed, or have the same beginning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run

from rltui.core.runs.row import RunId, RunRow
from rltui.errors import UsageError
from rltui.services.experiment.registry import experiment_above
from rltui.services.runs import catalog
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run


def _row(name: str, age: int, reward: float | None, **fields: object) -> RunRow:
    metrics = {} if reward is None else {"reward": (reward, reward)}
    row = RunRow(
        id=RunId(f"{name[:2]}{age:08}"),
        name=name,
        folder=f"/runs/{name}",
        created_at=100.0 - age,
        metrics=metrics,
    )
    return replace(row, **fields)  # type: ignore[arg-type]


@pytest.fixture
def index(own_user: Path) -> RunIndex:
    index = RunIndex()
    rows = [
        _row("demo", 4, 0.9),
        _row("demo-2", 3, 0.5),
        _row("high", 2, 0.9),
        _row("newest", 1, None),
        _row("archived", 0, 2.0, archived_at=1.0),
        _row("hidden", 5, 3.0, trashed_at=1.0),
        _row("results", 0, 4.0, kind="evaluation", id=RunId("high000000")),
    ]
    index.put([(row, None) for row in rows])
    return index


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("demo", "demo"),  # an exact name before a prefix of others
        ("demo-", "demo-2"),
        ("de00000003", "demo-2"),
        ("ne000", "newest"),
        ("-1", "newest"),
        ("-2", "high"),
        ("@best", "high"),  # as good as demo, and newer
        ("hi", "high"),  # what is in the trash comes last
        ("hid", "hidden"),
        ("arch", "archived"),
        ("hig", "high"),  # and not the run whose id begins so
    ],
)
def test_a_reference_means_one_run(index: RunIndex, reference: str, name: str) -> None:
    assert find_run(index, reference).name == name


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("de", "de is ambiguous: demo-2 or demo\n→ type more of the name"),
        ("dmo", "run not found: dmo\n→ did you mean demo?"),
        ("zzzz", "run not found: zzzz\n→ available: archived, results, newest, high, demo-2 and demo"),
        ("-9", "run not found: -9\n→ list the 5 runs: rltui runs"),
        ("./nowhere", "run not found: ./nowhere"),
    ],
)
def test_an_error_names_what_it_could_be(index: RunIndex, reference: str, text: str) -> None:
    with pytest.raises(UsageError) as raised:
        find_run(index, reference)
    assert text in str(raised.value)


def test_a_folder_means_the_run_that_it_is_in(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_finished_run(tmp_path / "out" / "a")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    (tmp_path / "out/a/checkpoints").mkdir(exist_ok=True)
    index = RunIndex()
    catalog.catch_up(index)
    monkeypatch.chdir(tmp_path)
    for reference in ("out/a", "out/a/checkpoints", "link/a/", str(tmp_path / "out/a")):
        assert find_run(index, reference).name == "a", reference
    with pytest.raises(UsageError, match="run not found: out/"):
        find_run(index, "out/")
    monkeypatch.chdir(tmp_path / "out/a/checkpoints")
    assert find_run(index, ".").name == "a"
    assert (record := experiment_above(Path.cwd())) is not None
    assert record.name == "a"
    assert experiment_above(tmp_path / "out") is None
