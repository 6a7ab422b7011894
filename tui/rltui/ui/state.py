"""State that the screens share: the newest values, collected edits, and saved settings of the view."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from textual.content import Content

from rltui.client.experiment import ConfigText, Experiment
from rltui.client.runs import Runs
from rltui.core.config.knobs import KnobValue
from rltui.core.config.report import KnobInfo, KnobTable
from rltui.core.experiment.api import Plan, Request, Status
from rltui.core.gpu.report import GpuReport
from rltui.errors import RltuiError
from rltui.ui.text import clean_line

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedEdits:
    """Edits that are not written yet, and the file contents that the person had seen when they decided."""

    edits: Mapping[str, Any] = field(default_factory=dict)
    """Dotted key to new value; `None` removes the key."""
    base: Mapping[str, str] = field(default_factory=dict)
    """See `Request.base`; the contents seen first count."""

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __len__(self) -> int:
        return len(self.edits)

    def adding(self, edits: Mapping[str, Any], base: Mapping[str, str]) -> StagedEdits:
        """A key that is there already gets the new value."""
        return StagedEdits({**self.edits, **edits}, {**base, **self.base})

    def dropping(self, key: str) -> StagedEdits:
        """The contents are forgotten with the last key."""
        rest = {other: value for other, value in self.edits.items() if other != key}
        return StagedEdits(rest, self.base if rest else {})

    def request(self) -> Request:
        return Request(action="set", edits=dict(self.edits), base=dict(self.base))


def edit_request(staged: StagedEdits, key: str, value: KnobValue, plan: Plan | None) -> Request:
    """A request that sets `key` together with what is collected. `plan`: the first plan the person saw of
    it.
    """
    return staged.adding({key: value}, {} if plan is None else plan.base).request()


@dataclass(frozen=True, slots=True)
class TextDraft:
    seen: ConfigText
    """The file as it was when it was first opened."""
    text: str


class UiStateStore:
    """The values of one owner (`Runs.view_state`). A caller that changes them calls `write` in the end."""

    def __init__(self, runs: Runs, owner: str) -> None:
        """Blocking: it reads a small file."""
        self._runs, self._owner = runs, owner
        self.values: Mapping[str, Any] = dict(runs.view_state(owner))
        self._changes: dict[str, Any] = {}

    def note(self, key: str, value: object) -> None:
        if self.values.get(key) != value:
            self.values = {**self.values, key: value}
            self._changes[key] = value

    async def write(self) -> None:
        """Keys that did not change are left alone: another rltui may have written them."""
        if self._changes:
            changes, self._changes = self._changes, {}
            await asyncio.to_thread(self._write, changes)

    def _write(self, changes: Mapping[str, Any]) -> None:
        try:
            self._runs.save_view_state(self._owner, {**self._runs.view_state(self._owner), **changes})
        except RltuiError as error:  # the screen is as it should be; the next one is as usual
            logger.warning("not kept: %s", error)


_MOST_RECENT = 20
"""Choices of the palette that are remembered."""
What = Literal["config", "gpus", "connection", "journal"]


class AppState:
    """It outlives the experiment that is open. One per app."""

    def __init__(self, runs: Runs, clock: Callable[[], float]) -> None:
        self.runs = runs
        self.clock = clock
        self.current: ExperimentState | None = None
        """State of the experiment that is open."""
        self.explained_keys: set[str] = set()
        """Keys that a person was told do nothing."""
        self.ui_state = UiStateStore(runs, "app")
        """Settings of the app, whatever experiment is open."""
        self.wants_tour = False
        """It is to be shown as soon as there is something to show it on."""

    @property
    def recent(self) -> list[str]:
        """The last one first."""
        names = self.ui_state.values.get("palette")
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def remember_used(self, name: str) -> None:
        other_names = [other for other in self.recent if other != name]
        self.ui_state.note("palette", [name, *other_names][:_MOST_RECENT])


class ExperimentState:
    """The newest values, and what was collected. One per experiment that is open: it survives its screens,
    which watch it.
    """

    def __init__(self, experiment: Experiment, app_state: AppState) -> None:
        self.experiment = experiment
        self.app_state = app_state
        self.clock = app_state.clock
        self.status: Status | None = None
        self.gpus: GpuReport | None = None
        self.table = KnobTable()
        self.connection_problem: str | None = None
        """The reason why values may be old; `None`: they are not."""
        self.staged = StagedEdits()
        self.edited: frozenset[str] = frozenset()
        """Keys that were edited since the run began, and may be as they were by now."""
        self.drafts: dict[str, TextDraft] = {}
        """Texts that came out of an editor and were not written, by file."""
        self._watchers: dict[What, list[Callable[[], None]]] = {
            "config": [],
            "gpus": [],
            "connection": [],
            "journal": [],
        }

    @property
    def full_name(self) -> str:
        """Name of the experiment, with its machine where that is another one: `gpubox:demo`."""
        host = self.experiment.host
        return f"{host}:{self.experiment.name}" if host else self.experiment.name

    def heading(self, *fragments: Content | tuple[str, str] | str, problem: str | None = None) -> Content:
        """The first line of a screen: whose it is, its name, facts (each as it is or with its style; empty
        ones are left out), and why what is shown may be old, or not all there is.
        """
        line: list[Content | tuple[str, str]] = [
            (" rltui ", "$accent"),
            (clean_line(self.full_name), "bold"),
        ]
        problems = dict.fromkeys(text for text in (problem, self.connection_problem) if text)
        troubles = [f"⚠ {clean_line(text)}" for text in problems]
        for fragment in (*fragments, *((text, "bold $text-warning") for text in troubles)):
            text, style = (fragment, "") if isinstance(fragment, str | Content) else fragment
            if isinstance(text, Content):
                line += [(" · ", ""), text]
            elif text:
                line.append((f" · {text}", style))
        return Content.assemble(*line)

    def watch(self, topic: What, watcher: Callable[[], None]) -> None:
        """`watcher` is called after each change. The config: `table` or `staged`."""
        self._watchers[topic].append(watcher)

    def show_gpus(self, report: GpuReport) -> None:
        self.gpus = report
        self._call_watchers("gpus")

    def show_connection(self, problem: str | None) -> None:
        """Say that what is shown may be old; `None`: it is not."""
        self.connection_problem = problem
        self._call_watchers("connection")

    def show_journal(self) -> None:
        self._call_watchers("journal")

    def show_table(self, table: KnobTable) -> None:
        if table != self.table:
            self.table = table
            self._call_watchers("config")

    def add_edited(self, keys: Iterable[str]) -> None:
        if new := set(keys) - self.edited:
            self.edited |= new
            self._call_watchers("config")

    def collect(self, edits: Mapping[str, Any], base: Mapping[str, str]) -> None:
        """Keep these edits, made on the content `base` of the files."""
        self.staged = self.staged.adding(edits, base)
        self._call_watchers("config")

    def drop(self, key: str) -> None:
        self.staged = self.staged.dropping(key)
        self._call_watchers("config")

    @property
    def knobs(self) -> tuple[KnobInfo, ...]:
        """The framework's knobs, then every other key of the files."""
        return (*self.table.knobs, *self.table.others)

    def _call_watchers(self, topic: What) -> None:
        for watcher in self._watchers[topic]:
            watcher()
