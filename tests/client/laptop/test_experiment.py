"""What is seen of experiments and runs of another machine is what is seen on that machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.fakes.machine import Machine, opened, wait_for_connections
from tests.fakes.past_run import write_finished_run
from tests.waiting import retry_until

from rltui.client.experiment import Event, Experiment
from rltui.client.laptop.runs import AllRuns, RemoteRuns
from rltui.client.local_runs import LocalRuns
from rltui.client.runs import Runs
from rltui.client.transports.ssh import HostLink
from rltui.core.config.report import KnobTable
from rltui.core.experiment.api import Request, Status
from rltui.core.runs.forks import ForkRequest
from rltui.core.runs.row import RunChange, RunRow
from rltui.errors import ConfigError, LinkDownError, NotFoundError, RltuiError, UsageError


@pytest.fixture
def there(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> LocalRuns:
    """All runs, as a program on that machine sees them."""
    for name in ("state_home", "config_home", "cache_home"):
        monkeypatch.setenv(f"XDG_{name.upper()}", str(machine.root / name))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.root / "run"))
    runs = LocalRuns()
    runs.catch_up()
    return runs


@pytest.fixture
def runs(link: HostLink, own_user: Path) -> RemoteRuns:
    return RemoteRuns(link)


def by_name(runs: Runs) -> dict[str, RunRow]:
    return {row.name: row for row in runs.rows()}


def listed(runs: RemoteRuns) -> dict[str, RunRow]:
    runs.catch_up()
    return retry_until(lambda: by_name(runs) if {"alpha", "beta"} <= by_name(runs).keys() else {})


@pytest.fixture
def alpha(runs: RemoteRuns) -> Experiment:
    return runs.open(listed(runs)["alpha"].id)


async def first(experiment: Experiment, *kinds: type[Event]) -> tuple[Event, ...]:
    """The first of each kind: how many others come before is a matter of time."""
    by_kind: dict[type[Event], Event] = {}
    events: AsyncIterator[Event] = experiment.events()
    async with contextlib.aclosing(events):  # type: ignore[type-var]
        async for event in events:
            by_kind.setdefault(type(event), event)
            if by_kind.keys() >= {*kinds}:
                break
    return tuple(by_kind[kind] for kind in kinds)


def test_rows_are_those_of_that_machine_and_kept_up_to_date(runs: RemoteRuns, there: LocalRuns) -> None:
    as_protocol: Runs = runs
    alpha = listed(runs)["alpha"]
    assert (alpha.host, runs.host, runs.trouble, runs.hosts) == ("gpubox", "gpubox", "", ())
    assert as_protocol.rows() is as_protocol.rows()
    changed = runs.change(alpha.id, RunChange(add_tags=("remote",), note="seen from afar"))
    assert (changed.tags, changed.note, changed.host) == (("remote",), "seen from afar", "gpubox")
    assert {row.tags for row in there.rows() if row.id == alpha.id} == {("remote",)}
    retry_until(lambda: by_name(runs)["alpha"].note == "seen from afar")
    runs.change(alpha.id, RunChange(remove_tags=("remote",), note=""))
    assert runs.configs([alpha.id])[alpha.id] == there.configs([alpha.id])[alpha.id]
    assert runs.queue() == there.queue()


def test_a_finished_run_is_as_it_is_there(alpha: Experiment, there: LocalRuns) -> None:
    row = next(row for row in there.rows() if row.name == "alpha")
    own = there.open(row.id)
    assert own.finished
    assert alpha.description == own.description
    assert (alpha.run_id, alpha.host, own.host) == (row.id, "gpubox", "")
    status, table = asyncio.run(first(alpha, Status, KnobTable))
    assert isinstance(status, Status)
    assert isinstance(table, KnobTable)
    assert (status, table) == asyncio.run(first(own, Status, KnobTable))
    assert alpha.logs() == own.logs()
    path = table.files[0]
    assert alpha.read_config(path) == own.read_config(path)
    assert asyncio.run(alpha.checkpoints()).archive == asyncio.run(own.checkpoints()).archive != ""
    assert asyncio.run(alpha.evals()) == asyncio.run(own.evals())
    assert asyncio.run(alpha.convert("tokens")) == asyncio.run(own.convert("tokens"))
    alpha.save_pins(["reward", "loss"])
    assert alpha.pins() == own.pins() == ("reward", "loss")


def test_the_journal_grows_by_what_is_new(alpha: Experiment) -> None:
    before = asyncio.run(alpha.journal())
    entry = asyncio.run(alpha.note("tried from the train"))
    assert asyncio.run(alpha.journal()) == (*before, entry)
    assert asyncio.run(alpha.journal())[-1].text == "tried from the train"


def test_refusals_come_as_the_errors_they_were(alpha: Experiment, runs: RemoteRuns) -> None:
    with pytest.raises(UsageError, match="alpha is not running") as caught:
        asyncio.run(alpha.plan(Request(action="start")))
    assert "start its supervisor: S" in caught.value.hint
    with pytest.raises(NotFoundError, match=r"^file not found: /no-such.toml$"):
        alpha.read_config("/no-such.toml")
    with pytest.raises(UsageError, match="alpa"):
        runs.link.call("server.open", {"of": None, "arguments": {"word": "alpa", "readonly": False}})
    with pytest.raises(UsageError, match="no longer in the index"):
        runs.open("nothing")


def test_what_is_opened_comes_along_with_the_hello(
    runs: RemoteRuns, machine: Machine, own_user: Path
) -> None:
    nothing = {"of": None, "arguments": {"word": "", "readonly": False}}
    assert runs.opened(runs.link.call("server.open", nothing)) is None, "none lives"
    link = HostLink(machine.host)
    try:
        with pytest.raises(RltuiError, match="alpha has no supervisor"):
            link.open(lambda _: None, "alpha", readonly=True).result()
    finally:
        link.close()


def test_runs_are_compared_and_forked_there(runs: RemoteRuns, there: LocalRuns) -> None:
    ids = [listed(runs)[name].id for name in ("alpha", "beta")]
    assert runs.compare(ids) == there.compare(ids)
    for wish in (ForkRequest(edits={"seed": "7"}), ForkRequest(edits={"no_such_knob": "1"})):
        sentences = []
        for side in (runs, there):
            with pytest.raises(ConfigError) as caught:
                side.plan_fork(ids[0], wish)
            sentences.append(str(caught.value))
        assert sentences[0] == sentences[1]
    with pytest.raises(UsageError, match="written on the run's machine, gpubox"):
        runs.export(ids[0], "", lambda *_: (), samples=1)


def test_what_is_the_persons_own_stays_here(
    alpha: Experiment, runs: RemoteRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    runs.save_view_state("app", {"tour": "seen"})
    assert LocalRuns().view_state("app") == {"tour": "seen"}
    monkeypatch.chdir(tmp_path)
    assert alpha.save("loss curve.csv", "1,2\n") == str(tmp_path / "loss-curve.csv")
    assert alpha.save("loss curve.csv", "3\n") == str(tmp_path / "loss-curve-2.csv")
    assert (tmp_path / "loss-curve.csv").read_text() == "1,2\n"
    assert alpha.attach_command("trainer") == [
        str(machine.way),
        f"{machine.root}/rltui attach alpha -c trainer --readonly",
    ]
    assert alpha.pager_command("/a b")[-1] == "less '/a b'"


@pytest.mark.slow
def test_an_experiment_is_the_same_after_the_link_was_cut(machine: Machine, own_user: Path) -> None:
    with opened(machine) as link:
        runs = RemoteRuns(link)
        alpha = runs.open(listed(runs)["alpha"].id)

        async def watched() -> None:
            events: AsyncIterator[Event] = alpha.events()
            async with contextlib.aclosing(events):  # type: ignore[type-var]
                status = await anext(events)
                machine.cut()
                with pytest.raises(LinkDownError, match="connection lost"):
                    async for _ in events:
                        pass
            retry_until(lambda: link.is_up, timeout_s=10)
            assert await first(alpha, Status) == (status,)

        before = runs.rows()
        asyncio.run(watched())
        wait_for_connections(link, 2)
        assert alpha.logs()
        assert {row.id for row in runs.rows()} == {row.id for row in before}


# --- several machines ---------------------------------------------------------------------------------------


@pytest.fixture
def several(runs: RemoteRuns, own_user: Path, tmp_path: Path) -> AllRuns:
    write_finished_run(tmp_path / "mine" / "gamma", steps=4)
    all_runs = AllRuns(LocalRuns(), [runs])
    all_runs.catch_up()
    retry_until(lambda: {"alpha", "beta", "gamma"} <= by_name(all_runs).keys())
    return all_runs


def test_runs_of_several_machines_are_one_list(several: AllRuns, runs: RemoteRuns) -> None:
    rows = by_name(several)
    assert [rows[name].host == "gpubox" for name in ("alpha", "beta", "gamma")] == [True, True, False]
    assert (several.hosts, several.host, several.trouble) == (("gpubox",), "", "")
    assert several.rows() is several.rows()
    assert several.open(rows["alpha"].id).host == "gpubox"
    assert several.open(rows["gamma"].id).host == ""
    assert several.change(rows["alpha"].id, RunChange(is_best=True)).is_best
    assert several.change(rows["gamma"].id, RunChange(is_best=True)).is_best
    several.change(rows["alpha"].id, RunChange(is_best=False))
    configs = several.configs([rows["alpha"].id, rows["gamma"].id])
    assert all(configs.values())


def test_runs_of_several_machines_are_compared_here(several: AllRuns) -> None:
    rows = by_name(several)
    comparison = several.compare([rows["alpha"].id, rows["gamma"].id])
    assert [row.name for row in comparison.runs] == ["alpha", "gamma"]
    assert comparison.differing == ()
    assert several.compare([rows["alpha"].id, rows["beta"].id]).runs[0].name == "alpha"


def test_a_machine_that_cannot_be_reached_is_told_and_the_others_are_listed(
    own_user: Path, tmp_path: Path, machine: Machine
) -> None:
    write_finished_run(tmp_path / "mine" / "gamma", steps=4)
    own = LocalRuns()
    own.catch_up()
    link = HostLink(machine.host)
    all_runs = AllRuns(own, [RemoteRuns(link)])
    machine.way.chmod(0o400)
    try:
        assert [row.name for row in all_runs.rows()] == ["gamma"]
        retry_until(lambda: "Permission denied" in all_runs.trouble)
        assert all_runs.catch_up() == ()
        assert all_runs.open(all_runs.rows()[0].id).name == "gamma"
    finally:
        machine.mend()
        link.close()


def test_a_list_that_nobody_looks_at_is_not_told_any_more(
    runs: RemoteRuns, there: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha = listed(runs)["alpha"]
    monkeypatch.setattr("rltui.client.laptop.runs._UNSEEN_S", 0.0)
    there.change(alpha.id, RunChange(note="one"))
    retry_until(lambda: runs._channel == 0)
    there.change(alpha.id, RunChange(note="two"))
    monkeypatch.undo()
    retry_until(lambda: by_name(runs)["alpha"].note == "two")
    there.change(alpha.id, RunChange(note=""))


@pytest.fixture(autouse=True)
def is_left_up(link: HostLink) -> Iterator[None]:
    yield
    assert link.is_up
