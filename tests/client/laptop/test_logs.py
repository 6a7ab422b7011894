"""Logs over a link: what is shown in the end is what is in the file, and painting never waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.machine import Machine, opened, wait_for_connections
from tests.waiting import retry_until

from rltui.client.experiment import Experiment
from rltui.client.laptop.log_feed import KnownLine, LogFeed
from rltui.client.laptop.logs import RemoteLog
from rltui.client.laptop.runs import RemoteRuns
from rltui.client.transports.ssh import HostLink
from rltui.core.logs.lines import Level
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogChange, LogEntry, LogSource
from rltui.errors import RltuiError
from rltui.services.logs.index import LogFile

LINES = 60_000


@pytest.fixture(scope="session")
def log(machine: Machine) -> Path:
    path = machine.root / "big.log"
    path.write_text("".join(f"12:00:{n % 60:02d} INFO line {n} of the log\n" for n in range(LINES)))
    return path


@pytest.fixture
def experiment(link: HostLink, own_user: Path) -> Experiment:
    return opened_run(link)


def opened_run(link: HostLink) -> Experiment:
    runs = RemoteRuns(link)
    runs.catch_up()
    row = retry_until(lambda: next((row for row in runs.rows() if row.name == "alpha"), None))
    return runs.open(row.id)


def polled(source: LogSource, is_so: Callable[[], object], *, timeout_s: float = 10.0) -> list[LogChange]:
    """Poll until it is so, and return what the polls said."""
    changes = []

    def is_there() -> object:
        changes.append(source.poll(may_skip=True))
        return is_so()

    retry_until(is_there, timeout_s=timeout_s, interval_s=0.02)
    return changes


@pytest.fixture
def shown(experiment: Experiment, log: Path) -> Iterator[LogSource]:
    source = experiment.open_log(str(log))
    assert (source.start, source.stop, source.problem) == (0, 0, "reading…")
    assert LogChange.RESET in polled(source, lambda: source.stop)
    yield source
    source.close()


def test_the_end_is_told_first(shown: LogSource, log: Path) -> None:
    assert shown.line(shown.stop - 1) == f"12:00:59 INFO line {LINES - 1} of the log"
    assert shown.offset(shown.stop - 1) == log.stat().st_size - len(shown.line(shown.stop - 1)) - 1
    assert shown.problem is None
    assert not shown.is_waiting


def test_painting_does_not_wait_and_older_lines_come(shown: LogSource) -> None:
    number = shown.stop - 5000
    began = time.perf_counter()
    assert shown.line(number) == ""
    assert time.perf_counter() - began < 0.05
    assert LogChange.FILLED in polled(shown, lambda: shown.line(number))
    assert shown.line(number) == f"12:00:40 INFO line {LINES - 5000} of the log"
    assert shown.number_at(shown.offset(number)) == number


def test_the_start_is_found(shown: LogSource) -> None:
    while shown.load_older():
        polled(shown, lambda: True)
    assert shown.stop - shown.start == LINES
    polled(shown, lambda: shown.line(shown.start))
    assert shown.line(shown.start) == "12:00:00 INFO line 0 of the log"
    assert shown.offset(shown.start) == 0


def test_a_place_far_away_is_found(shown: LogSource, log: Path) -> None:
    whole = log.read_bytes()
    offset = whole.index(b"12:00:17 INFO line 1217 ")
    assert shown.number_at(offset) is None
    assert shown.is_waiting
    polled(shown, lambda: shown.number_at(offset))
    number = shown.number_at(offset)
    assert number is not None
    assert not shown.is_waiting
    assert shown.line(number) == "12:00:17 INFO line 1217 of the log"
    assert shown.line_at(offset) == shown.line(number)
    assert [shown.offset(line) for line in range(number, number + 3)] == sorted(
        {offset, *(whole.index(b"\n", shown.offset(number + at)) + 1 for at in (0, 1))}
    )


def test_what_is_written_comes_and_an_unfinished_line_is_finished(
    experiment: Experiment, machine: Machine
) -> None:
    path = machine.root / "growing.log"
    path.write_text("one\ntw")
    source = experiment.open_log(str(path))
    polled(source, lambda: source.stop == 2)
    assert source.line(1) == "tw"
    with path.open("a") as file:
        file.write("o\nthree\n")
    changes = polled(source, lambda: source.stop == 3)
    assert LogChange.GREW in changes
    assert [source.line(number) for number in range(3)] == ["one", "two", "three"]
    path.write_text("anew\n")
    assert LogChange.RESET in polled(source, lambda: source.stop == 1 and source.line(0) == "anew")
    path.unlink()
    source.close()


def test_a_log_that_cannot_be_read_is_told_as_there(experiment: Experiment, machine: Machine) -> None:
    for path in ("/no/such.log", str(machine.root)):
        source = experiment.open_log(path)
        polled(source, lambda: source.problem != "reading…")  # noqa: B023
        assert (source.problem, source.stop) == (LogFile(Path(path)).problem, 0)
        source.close()


def test_a_flood_is_told_by_its_end_and_the_rest_where_it_is_looked_at(
    experiment: Experiment, machine: Machine
) -> None:
    path = machine.root / "flood.log"
    path.write_text("begin\n")
    source = experiment.open_log(str(path))
    polled(source, lambda: source.stop == 1)
    with path.open("ab", buffering=0) as file:  # at once: read in parts, all of it would come
        file.write(b"".join(b"%d\n" % number for number in range(50_000)))
    polled(source, lambda: source.stop == 50_001)
    assert source.line(50_000) == "49999"
    assert source.line(25_000) == ""
    polled(source, lambda: source.line(25_000))
    assert (source.line(25_000), source.line(0)) == ("24999", "begin")
    source.close()


def test_lines_that_are_too_many_are_forgotten_and_come_again(
    shown: LogSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltui.client.laptop.logs._MOST_CACHED", 400)
    monkeypatch.setattr("rltui.client.laptop.logs._CACHED_AROUND", 150)
    assert isinstance(shown, RemoteLog)
    for back in range(500, 4500, 500):
        polled(shown, lambda back=back: shown.line(shown.stop - back))  # type: ignore[misc]
    assert len(shown._lines.numbers) <= 700
    assert shown.line(shown.stop - 1)
    assert shown.line(shown.stop - 500) == ""
    polled(shown, lambda: shown.line(shown.stop - 500))


def test_a_log_that_nobody_looks_at_is_not_told_and_goes_on_when_it_is(
    experiment: Experiment, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.root / "hidden.log"
    path.write_text("".join(f"{number}\n" for number in range(10)))
    source = experiment.open_log(str(path))
    assert isinstance(source, RemoteLog)
    polled(source, lambda: source.stop == 10)
    monkeypatch.setattr("rltui.client.laptop.logs._UNSEEN_S", -1.0)
    with path.open("a") as file:
        file.write("10\n")
    retry_until(lambda: source._channel == 0)
    monkeypatch.undo()
    with path.open("a") as file:
        file.write("11\n")
    changes = polled(source, lambda: source.stop == 12)
    assert LogChange.RESET not in changes
    assert [source.line(number) for number in range(12)] == [str(number) for number in range(12)]
    source.close()


@pytest.mark.slow
def test_numbers_go_on_after_the_link_was_cut(machine: Machine, own_user: Path) -> None:
    path = machine.root / "cut.log"
    path.write_text("".join(f"line {number}\n" for number in range(30_000)))
    with opened(machine) as link:
        source = opened_run(link).open_log(str(path))
        polled(source, lambda: source.stop)
        last = source.stop - 1
        machine.cut()
        retry_until(lambda: not link.is_up)
        assert source.line(last) == "line 29999"
        assert not source.load_older()
        with path.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(30_000, 130_000))
        wait_for_connections(link, 2)
        changes = polled(source, lambda: source.stop > last + 1)
        assert LogChange.RESET not in changes
        assert source.stop == last + 1 + 100_000
        assert source.line(last) == "line 29999"
        assert source.line(source.stop - 1) == "line 129999"
        source.close()


def test_another_file_in_its_place_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\nthree\n")
    for known, is_reset in (
        (KnownLine(101, 4, "two"), False),
        (KnownLine(101, 4, "other"), True),
        (KnownLine(101, 400, "two"), True),
    ):
        feed = LogFeed(LogFile(path), known)
        news = feed.news()
        assert news is not None
        assert news.reset is is_reset
        assert news.lines is not None
        assert news.lines.texts[-1] == "three"
        assert news.lines.first + len(news.lines.texts) == (3 if is_reset else 103)
        feed.close()


def test_several_logs_come_as_one(experiment: Experiment, machine: Machine) -> None:
    logs = []
    for name, second in (("trainer", 1), ("orchestrator", 0)):
        path = machine.root / f"{name}.log"
        path.write_text("".join(f"2027-01-15 08:{n:02d}:0{second} INFO {name} {n}\n" for n in range(60)))
        logs.append(LogEntry(name, 1, str(path), 1.8e9))
    source = experiment.open_merged(logs)
    own = KnownMerged(logs)
    polled(source, lambda: source.stop > source.start)
    assert [source.line(n) for n in range(-120, 0)] == own.lines
    assert source.label(-1) == "trainer      "
    at = time.mktime((2027, 1, 15, 8, 30, 0, 0, 0, -1))
    assert source.number_near(at) is None
    assert source.is_waiting
    polled(source, lambda: source.number_near(at) is not None)
    number = source.number_near(at)
    assert number is not None
    assert source.line(number).endswith("orchestrator 30")
    source.close()


class KnownMerged:
    """The same, merged here."""

    def __init__(self, logs: list[LogEntry]) -> None:
        from rltui.services.logs.merged import MergedLog

        source = MergedLog(logs)
        self.lines = [source.line(number) for number in range(source.start, source.stop)]
        source.close()


# --- searching ----------------------------------------------------------------------------------------------


def test_a_log_is_searched_there(experiment: Experiment, log: Path) -> None:
    searching = experiment.search_log(str(log), Query.from_text(r"line \d*77 of"), None, 0)
    hits = [hit for batch in searching.batches() for hit in batch]
    assert len(hits) == LINES // 100
    assert hits[3].text == "12:00:17 INFO line 377 of the log"
    assert log.read_bytes()[hits[3].offset :].startswith(b"12:00:17 INFO line 377 of")
    assert searching.size == log.stat().st_size
    bare = experiment.search_log(str(log), Query.from_text(r"line \d*77 of"), None, 0, with_text=False)
    bare_hits = [hit for batch in bare.batches() for hit in batch]
    assert [hit.offset for hit in bare_hits] == [hit.offset for hit in hits]
    assert {hit.text for hit in bare_hits} == {""}


def test_errors_are_searched_there_from_a_place_on(experiment: Experiment, machine: Machine) -> None:
    path = machine.root / "errors.log"
    path.write_text("ERROR one\nINFO two\nERROR three\n  more of it\nINFO four\n")
    searching = experiment.search_log(str(path), None, Level.ERROR, 10)
    assert [hit.text for batch in searching.batches() for hit in batch] == ["ERROR three", "  more of it"]


def test_a_search_is_ended_and_its_failure_told(experiment: Experiment, log: Path) -> None:
    with pytest.raises(RltuiError, match=r"cannot read /no/such\.log"):
        list(experiment.search_log("/no/such.log", Query.from_text("x"), None, 0).batches())
    searching = experiment.search_log(str(log), Query.from_text("line"), None, 0)
    batches = searching.batches()
    assert next(batches)
    searching.cancel()
    assert list(batches) == []


def test_nothing_of_a_search_that_was_ended_is_left(log: Path, machine: Machine, own_user: Path) -> None:
    with opened(machine) as link:
        pid = int((machine.root / "pid").read_text())
        searching = opened_run(link).search_log(str(log), Query.from_text("line"), None, 0)
        next(searching.batches())
        searching.cancel()
        retry_until(lambda: not children_of(pid))


def children_of(pid: int) -> str:
    """Of all its threads."""
    return "".join(children.read_text() for children in Path(f"/proc/{pid}/task").glob("*/children"))
