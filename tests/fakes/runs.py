"""Runs that tests make up: a row needs no more than its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tests.fakes.experiment import NOW, FakeExperiment
from tests.fakes.series import FakeSeries

from rltui.client.runs import Runs
from rltui.client.settings_text import Setting, SettingsText
from rltui.core.metrics.series import SeriesSource
from rltui.core.rollouts.batches import RolloutSource
from rltui.core.runs.bench import Bench
from rltui.core.runs.compare import Comparison, compared_metrics, comparison
from rltui.core.runs.forks import ForkPlan, ForkRequest, fork_name
from rltui.core.runs.queue import QueueAction, RunQueue
from rltui.core.runs.row import RunChange, RunRow
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.runs.query import QueryableRuns, RunQuery
from rltui.views.report import Draw


def run_row(name: str, **values: Any) -> RunRow:
    """Finished an hour ago, unless `values` say otherwise."""
    usual: dict[str, Any] = {
        "id": f"id-{name}",
        "created_at": NOW - 7200.0,
        "folder": f"/runs/{name}",
        "control": f"/runs/{name}/.rltui",
        "run_dir": f"/runs/{name}",
        "framework": "prime-rl",
        "state": "done",
        "started_at": NOW - 7200.0,
        "ended_at": NOW - 3600.0,
        "seconds": 3600.0,
        "attempts": 1,
        "step": 100,
        "max_steps": 100,
    }
    return RunRow(name=name, **(usual | values))


def running_row(name: str, **values: Any) -> RunRow:
    """The row of a run that is half way."""
    usual: dict[str, Any] = {
        "state": "running",
        "is_alive": True,
        "ended_at": None,
        "step": 50,
        "supervisor": (4711, NOW),
    }
    return run_row(name, **(usual | values))


def selected(
    query: RunQuery, rows: Sequence[RunRow], configs: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> list[RunRow]:
    """Those of the rows that a query means, in its order."""
    by_id: dict[str, RunRow] = {row.id: row for row in rows}
    ids = QueryableRuns().select(query, rows, lambda ids: {id_: configs.get(id_, {}) for id_ in ids})
    return [by_id[id_] for id_ in ids]


def _when(is_so: bool | None, before: float | None) -> float | None:
    return before if is_so is None else NOW if is_so else None


class FakeRuns(Runs):
    """Runs that a test names."""

    host = ""
    trouble = ""
    hosts: tuple[str, ...] = ()

    def __init__(self, *rows: RunRow, readonly: bool = False) -> None:
        self.readonly = readonly
        self.known = rows
        """Assign others: the next look finds them."""
        self.told: tuple[str, ...] = ()
        """Messages of the next `catch_up`."""
        self.flat_configs: dict[str, dict[str, Any]] = {}
        self.experiments: dict[str, FakeExperiment] = {}
        """Run id → experiment; a missing one is made when it is opened."""
        self.series: dict[str, FakeSeries] = {}
        """Run id → its series."""
        self.rollouts: dict[str, RolloutSource] = {}
        self.exported: list[tuple[str, int, int]] = []
        """Id, how many curves, how many rollouts."""
        self.forked: list[tuple[str, ForkRequest]] = []
        self.opened: list[str] = []
        """Ids, with `again` behind those that were to be supervised."""
        self.changes: list[tuple[str, RunChange]] = []
        self.saved_values: dict[str, Mapping[str, Any]] = {}
        """Owner → values, as screens save them."""
        self.has_tmux = False
        self.given_to_tmux: str | None = None
        self.kept_copy: str | None = None
        self.settings_text = SettingsText(
            "/home/me/.config/rltui/settings.toml",
            "[alerts]\nbell = false\n",
            False,
            (Setting("alerts.bell", "false", "ring the terminal", 2),),
        )
        self.edited: list[tuple[str, int]] = []
        """Texts that an editor was opened with, and at which line."""
        self.typed: list[str] = []
        """Texts that come out of the editor, in turn; the given text where none is left."""
        self.queued = RunQueue()
        self.made_benches: tuple[Bench, ...] = ()
        self.queue_requests: list[tuple[str, str, str]] = []
        """(action, entry, position) of each request to the queue."""
        self.paused = ""
        """Who has paused agents; empty: nobody."""
        self.looks = 0
        self.error: RltuiError | None = None
        self.demo_error: RltuiError | None = None

    def rows(self) -> tuple[RunRow, ...]:
        self.looks += 1
        if self.error:
            raise self.error
        return self.known

    def select(self, query: RunQuery) -> Sequence[str]:
        return self._queryable.select(query, self.known, self.configs)

    def catch_up(self) -> tuple[str, ...]:
        if self.error:
            raise self.error
        return self.told

    def configs(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        return {id_: self.flat_configs.get(id_, {}) for id_ in ids}

    def change(self, id_: str, change: RunChange) -> RunRow:
        if self.error:
            raise self.error
        row = next(known_row for known_row in self.known if known_row.id == id_)
        tags = ({*row.tags} | {*change.add_tags}) - {*change.remove_tags}
        new_row = replace(
            row,
            tags=tuple(sorted(tags)),
            note=row.note if change.note is None else change.note,
            is_best=row.is_best if change.is_best is None else change.is_best,
            archived_at=_when(change.is_archived, row.archived_at),
            trashed_at=_when(change.is_trashed, row.trashed_at),
        )
        self.known = tuple(new_row if known_row.id == id_ else known_row for known_row in self.known)
        self.changes.append((id_, change))
        return new_row

    def view_state(self, owner: str) -> Mapping[str, Any]:
        return self.saved_values.get(owner, {})

    def save_view_state(self, owner: str, values: Mapping[str, Any]) -> None:
        self.saved_values[owner] = values

    def copy_to_tmux(self, text: str) -> bool:
        self.given_to_tmux = text
        return self.has_tmux

    def save_copy(self, text: str) -> str:
        self.kept_copy = text
        return "/state/rltui/copied.txt"

    def settings(self) -> SettingsText:
        return self.settings_text

    def edit_settings(self, text: str, line: int) -> str:
        self.edited.append((text, line))
        return self.typed.pop(0) if self.typed else text

    def replace_settings(self, seen: SettingsText, text: str) -> None:
        if "typo" in text:
            raise ConfigError("settings.toml:1:1: typo: unknown key")
        self.settings_text = replace(seen, text=text, is_new=False)

    def open(self, id_: str, *, again: bool = False) -> FakeExperiment:
        if self.error:
            raise self.error
        row = next((known_row for known_row in self.known if known_row.id == id_), None)
        if row is None:
            raise UsageError("that run is no longer in the index")
        self.opened.append(f"{id_} again" if again else id_)
        if id_ not in self.experiments:
            self.experiments[id_] = FakeExperiment(readonly=self.readonly)
            self.experiments[id_].name = row.name
        return self.experiments[id_]

    def compare(self, ids: Sequence[str], metrics: Sequence[str] = ()) -> Comparison:
        rows = [next(row for row in self.known if row.id == id_) for id_ in ids]
        metrics_of_runs = compared_metrics(rows, [self.series.get(id_) for id_ in ids], metrics)
        return comparison(rows, self.flat_configs, metrics_of_runs)

    def plan_fork(self, id_: str, wish: ForkRequest) -> ForkPlan:
        if self.error:
            raise self.error
        row = next(known_row for known_row in self.known if known_row.id == id_)
        if "typo" in wish.edits:
            raise ConfigError("unknown knob typo", hint="did you mean type?")
        step = wish.begin if isinstance(wish.begin, int) else max(row.checkpoints) if wish.begin else None
        name = wish.name or fork_name(row.name, wish, step)
        diff = "".join(f"-{key} = 1\n+{key} = {value}\n" for key, value in wish.edits.items())
        copied = () if step is None else (f"checkpoints/step_{step}",)
        return ForkPlan(row.name, name, f"/runs/{name}", diff, step, copied, 3 << 30 if copied else 0)

    def fork(self, id_: str, wish: ForkRequest) -> tuple[str, ...]:
        self.plan_fork(id_, wish)
        self.forked.append((id_, wish))
        return ()

    def start_demo(self) -> str:
        if self.demo_error:
            raise self.demo_error
        self.known = (*self.known, running_row("demo"))
        return "id-demo"

    def open_series(self, id_: str) -> SeriesSource:
        return self.series.get(id_, FakeSeries())

    def open_rollouts(self, id_: str) -> RolloutSource:
        return self.rollouts[id_]

    def export(self, id_: str, folder: str, draw: Draw, *, samples: int) -> str:
        if self.error:
            raise self.error
        files = draw(self.open_series(id_), id_, ())
        self.exported.append((id_, len(files), samples))
        return folder or f"/work/{id_}-report"

    def benches(self) -> tuple[Bench, ...]:
        return self.made_benches

    def pause_agents(self) -> str:
        self.paused = "" if self.paused else "agents were paused by ada at 02:14"
        return self.paused

    def queue(self) -> RunQueue:
        if self.error:
            raise self.error
        return self.queued

    def change_queue(self, action: QueueAction, entry: str = "", *, place: str = "") -> None:
        if self.error:
            raise self.error
        self.queue_requests.append((action, entry, place))
        if action in ("pause", "resume"):
            paused = "by hand" if action == "pause" else ""
            self.queued = self.queued.replace(paused=paused)
