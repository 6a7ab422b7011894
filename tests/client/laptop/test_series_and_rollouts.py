"""Metrics and rollouts over a link are those that are read on the machine itself."""

from __future__ import annotations

import re
from array import array
from pathlib import Path

import pytest
from tests.fakes.machine import Machine
from tests.fakes.rollouts import write_flat_run, write_stream_run
from tests.fakes.series import example_run

from rltui.client.laptop import columns
from rltui.client.laptop.rollouts import RemoteRollouts, new_rows, table_mark
from rltui.client.laptop.series import RemoteSeries
from rltui.client.transports.frames import Packet
from rltui.client.transports.ssh import HostLink
from rltui.core.logs.source import LogChange
from rltui.core.metrics.series import NO_STEP, Rewind, SeriesKey, SeriesSource
from rltui.core.rollouts.batches import BatchKey, RolloutSource, Sample, SampleTable
from rltui.errors import ConflictError
from rltui.services.metrics.store import SeriesReader, SeriesWriter
from rltui.services.rollouts import open_rollouts

LOSS = SeriesKey("trainer", "loss/mean")


def written(folder: Path, steps: int) -> SeriesWriter:
    """The series of a usual run, in a store."""
    writer = SeriesWriter(folder)
    for key, series in example_run(steps).series.items():
        for step, at, value in zip(series.steps, series.times, series.values, strict=True):
            writer.add(key.source, {key.name: value}, at=at, step=None if step == NO_STEP else step)
    assert writer.flush()
    return writer


def same(one: SeriesSource, other: SeriesSource) -> None:
    other.poll()
    assert one.keys() == other.keys()
    assert one.rewinds() == other.rewinds()
    one.prepare(one.keys())
    for key in other.keys():  # noqa: SIM118 - it is no mapping
        assert repr(one.read(key)) == repr(other.read(key)), key


def test_series_are_those_of_the_store_and_grow(link: HostLink, tmp_path: Path) -> None:
    writer = written(tmp_path / "metrics", 600)
    source, own = RemoteSeries(link, str(tmp_path / "metrics")), SeriesReader(tmp_path / "metrics")
    as_protocol: SeriesSource = source
    assert as_protocol.poll() is LogChange.RESET
    assert source.poll() is LogChange.NONE
    same(source, own)
    key = source.keys()[0]
    count = len(source.read(key))
    writer.add(key.source, {key.name: 0.5}, at=2e9, step=601)
    writer.rewind(20, 2e9)
    assert writer.flush()
    assert source.poll() is LogChange.GREW
    assert list(source.read(key, count).values) == [0.5]
    assert source.rewinds() == (Rewind(20, 2e9),)
    same(source, own)


def test_another_store_begins_anew(link: HostLink, tmp_path: Path) -> None:
    writer = written(tmp_path / "metrics", 600)
    source = RemoteSeries(link, str(tmp_path / "metrics"))
    source.poll()
    key = source.keys()[0]
    source.read(key)
    writer.begin_anew(tmp_path / "aside")
    writer.add("trainer", {"loss/mean": 1.0}, at=1.0, step=1)
    assert writer.flush()
    assert source.poll() is LogChange.RESET
    assert source.keys() == (LOSS,)
    assert list(source.read(LOSS).values) == [1.0]
    assert not len(source.read(SeriesKey("no", "such")))


def test_of_a_long_series_its_shape_comes_and_what_is_new_in_full(
    link: HostLink, tmp_path: Path, machine: Machine
) -> None:
    writer = SeriesWriter(tmp_path / "metrics")
    for step in range(1, 10_001):
        writer.add("trainer", {"loss/mean": 1.0 / step}, at=float(step), step=step)
    assert writer.flush()
    source = RemoteSeries(link, str(tmp_path / "metrics"))
    source.poll()
    points = source.read(LOSS)
    assert len(points) <= columns.MOST_POINTS
    assert (points.steps[0], points.steps[-1]) == (1, 10_000)
    for step in range(10_001, 10_004):
        writer.add("trainer", {"loss/mean": 0.0}, at=float(step), step=step)
    assert writer.flush()
    assert source.poll() is LogChange.GREW
    assert list(source.read(LOSS, len(points)).steps) == [10_001, 10_002, 10_003]


def test_all_that_is_shown_comes_by_one_question(
    link: HostLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "metrics", 600)
    source = RemoteSeries(link, str(tmp_path / "metrics"))
    source.poll()
    questions: list[str] = []
    call = link.call

    def noted(method: str, params: object = None) -> Packet:
        questions.append(method)
        return call(method, params)

    monkeypatch.setattr(link, "call", noted)
    source.prepare(source.keys()[:8])
    for key in source.keys()[:8]:
        assert len(source.read(key))
    assert questions == ["series.news"]


# --- rollouts -----------------------------------------------------------------------------------------------


def whole(source: RolloutSource, key: BatchKey | None = None) -> None:
    while source.poll(key):
        continue


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_flat_run(tmp_path)
    return tmp_path


def test_batches_and_samples_are_those_of_the_folder(link: HostLink, folder: Path) -> None:
    source, own = RemoteRollouts(link, str(folder)), open_rollouts(folder)
    as_protocol: RolloutSource = source
    for rollouts in (as_protocol, own):
        whole(rollouts)
    assert as_protocol.batches() == own.batches() != []
    for batch in own.batches():
        for rollouts in (as_protocol, own):
            whole(rollouts, batch.key)
        table = source.table(batch.key)
        assert repr([*table]) == repr([*own.table(batch.key)])
        for sample in table:
            opened = source.open(batch.key, sample)
            assert repr(opened) == repr(own.open(batch.key, sample))


def test_a_table_of_another_batch_is_asked_for(link: HostLink, folder: Path) -> None:
    before = RemoteRollouts(link, str(folder))
    whole(before)
    for batch in before.batches():
        whole(before, batch.key)
    source = RemoteRollouts(link, str(folder))
    whole(source)
    for batch in source.batches():
        assert len(source.table(batch.key)) == batch.samples
    assert not len(source.table(BatchKey("train", 99)))


def test_of_a_table_what_is_new_is_told_and_all_where_it_is_another_one() -> None:
    known = [Sample(at, group=f"g{at}", reward=at / 10) for at in range(3)]
    new = [Sample(3, group="g0", stop="length"), Sample(4, group="g4")]
    mark = table_mark(SampleTable(known))
    rows, _ = new_rows(SampleTable([*known, *new]), mark)
    assert (rows.is_new, rows.length, rows.texts) == (False, 2, ("length", "g4"))
    assert new_rows(SampleTable(known), mark)[0].length == 0
    for other in ([known[0]._replace(turns=2), *known[1:]], known[:2], []):
        rows, _ = new_rows(SampleTable(other), mark)
        assert (rows.is_new, rows.length) == (True, len(other))


def test_samples_that_do_not_belong_together_are_refused() -> None:
    table = SampleTable([Sample(0)])
    for name, column in (("at", array("d")), ("stop", array("i", [7]))):
        more = SampleTable([Sample(1)]).columns | {name: column}
        with pytest.raises(ValueError, match="are from different rollouts"):
            table.extend(more, [])
    assert len(table) == 1


def test_samples_are_searched_there(link: HostLink, folder: Path) -> None:
    source, own = RemoteRollouts(link, str(folder)), open_rollouts(folder)
    key = BatchKey("train", 2)
    for rollouts in (source, own):
        whole(rollouts, key)
    samples = [*own.table(key)] * 15
    pattern = re.compile("1", re.IGNORECASE)
    matches = list(source.search(key, samples, pattern))
    assert matches == list(own.search(key, samples, pattern))
    assert True in matches


def test_a_prompt_is_found_in_other_batches(link: HostLink, folder: Path) -> None:
    source, own = RemoteRollouts(link, str(folder)), open_rollouts(folder)
    key = BatchKey("train", 2)
    for rollouts in (source, own):
        whole(rollouts, key)
    transcript = own.open(key, own.table(key)[0])
    matches = [match for match in source.same_prompt(key, transcript) if match[1] is not None]
    assert repr(matches) == repr(
        [match for match in own.same_prompt(key, transcript) if match[1] is not None]
    )
    assert matches


def test_live_samples_come(link: HostLink, tmp_path: Path) -> None:
    write_stream_run(tmp_path)
    source, own = RemoteRollouts(link, str(tmp_path)), open_rollouts(tmp_path)
    for rollouts in (source, own):
        whole(rollouts)
    assert source.batches() == own.batches()
    for batch in own.batches():
        whole(source, batch.key)
        assert repr([*source.table(batch.key)]) == repr([*own.table(batch.key)]), batch.key


def test_what_is_exported_is_written_here(
    link: HostLink, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = RemoteRollouts(link, str(folder))
    key = BatchKey("train", 2)
    whole(source, key)
    transcripts = [source.open(key, sample) for sample in source.table(key)]
    monkeypatch.chdir(folder)
    path = source.keep(transcripts, "md")
    assert path.parent == folder
    assert path.read_text().startswith("## ")
    with pytest.raises(ConflictError):
        source.export(transcripts, path)
