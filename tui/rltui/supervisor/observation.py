"""The run as its files show it: folder, logs, metrics, resume point, and activity of its servers."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rltui.core.experiment.api import Curve, Link, Progress
from rltui.core.metrics import names as metric_names
from rltui.core.metrics.engine import InferenceActivity
from rltui.core.metrics.non_finite import NonFinite, NonFiniteWatch
from rltui.core.metrics.progress import MetricSeries
from rltui.core.metrics.series import downsample
from rltui.core.metrics.tracks import RunTracks
from rltui.errors import ConfigError
from rltui.frameworks.run_settings import RunFiles
from rltui.services.config.files import load_files
from rltui.services.config.step_times import StepTimes
from rltui.services.experiment.journal import read_journal
from rltui.services.logs.followed import FollowedLogs
from rltui.services.logs.links import LinkFinder, links_in_journal, newest_links
from rltui.services.metrics.recorder import RunRecorder
from rltui.services.metrics.rows import MetricRows, MetricSources
from rltui.services.metrics.sources import earlier_logs
from rltui.services.own_files import read_own, write_atomically
from rltui.services.runs.folder import RunFolder
from rltui.supervisor.config import Setup
from rltui.supervisor.events import EventBus
from rltui.supervisor.metrics.health import RunHealth
from rltui.supervisor.metrics.sampling import RunSampler


class Observation:
    """The run of one experiment, observed through its files. Starts and ends no process."""

    def __init__(self, setup: Setup, events: EventBus) -> None:
        record = setup.record
        run_dir = Path(record.run_dir)
        self._setup = setup
        self._events = events
        self._attempt_logs: dict[str, Path] = {}
        """Component → output of its newest attempt."""
        self.folder = RunFolder(run_dir, _configured_files(setup), Path(record.output_dir))
        self.logs = FollowedLogs(run_dir, setup.layout.log)
        sources = MetricSources(
            self.folder.metrics,
            setup.framework,
            logs=self.present_logs,
            earlier_logs=lambda: earlier_logs(setup.control, setup.components),
        )
        self.recorder = RunRecorder(setup.control, sources)
        self.sampler = RunSampler(self.recorder.sample, setup.framework.engine.metrics)
        self.progress = ProgressTracker(sources, setup.components)
        events.journal.step = lambda: self.progress.series.completed or None
        self.times = StepTimes(setup.framework, setup.control, lambda: self.progress.series)
        self.health = RunHealth(
            None if record.observed else record.name,
            self.folder,
            setup.control.journal_file,
            events,
            self.progress.component_names,
        )
        self.link_finder = LinkFinder()
        journal = read_journal(setup.control.journal_file)
        self.links = links_in_journal(journal)
        starts = [entry for entry in journal if entry.kind == "start" and entry.component in setup.run_jobs]
        self.progress.resumed_before = starts[-1].step if starts else None
        self.activities: dict[str, InferenceActivity] = {}
        """Inference server → its last activity, while it lives."""
        self._engines: set[str] = set()
        """Inference servers that have ever reported it."""
        self._on_request = setup.parts.difference(setup.components)
        """Components whose engine, such as a teacher's, never has the weights of the policy."""
        self.resume_step = self.folder.latest_checkpoint()
        """Checkpoint that jobs started from now on continue from; `None`: the beginning."""
        self.run_id = ""
        """Changes only when the run begins again; empty before its first start."""
        with suppress(OSError, ValueError):  # none yet, or not readable: the next beginning writes one
            self.run_id = read_own(setup.control.run_id_file).decode()

    # --- processes of the run -----------------------------------------------------------------------------

    def follow(self, component: str, log: Path) -> None:
        self._attempt_logs[component] = log

    def attempt_started(self, component: str, log: Path, attempt: int) -> None:
        self.follow(component, log)
        self.sampler.started(component, attempt)
        self.progress.attempt_started(
            component, is_of_policy=component in self._setup.run_jobs | self._engines - self._on_request
        )

    def attempt_ended(self, component: str) -> None:
        self.activities.pop(component, None)

    def add_links(self, links: Iterable[Link]) -> None:
        """Keep new links to pages, found in logs, and journal each once."""
        for link in newest_links(links):
            if all(link.url != other.url for other in self.links):
                self.links = newest_links((*self.links, link))
                text = f"{link.title}: {link.url}"
                self._events.journal.add(
                    "link", text, component=link.component, title=link.title, url=link.url
                )
                self._events.changed("status")

    def set_activity(self, component: str, activity: InferenceActivity | None) -> None:
        """Set the present activity of an inference server; `None` where it does not report one."""
        previous = self.activities.get(component)
        if activity is None:
            self.activities.pop(component, None)
        else:
            self.activities[component] = activity
            self._engines.add(component)
        if activity != previous:
            self._events.changed("status")

    @property
    def current_progress(self) -> Progress:
        """The headline metrics and the issues of health, as of the last poll."""
        health = self.health
        beside = self.progress.curve_of(health.concept)
        more = {"concerns": health.concerns, "bottleneck": health.bottleneck, "beside": beside}
        return self.progress.progress.replace(**more)

    def title_details(self, component: str) -> tuple[str, ...]:
        """Short texts for the component's title."""
        activity, bottleneck = self.activities.get(component), self.health.bottleneck
        waits = (
            (f"waiting for {bottleneck.waits_for} {100 * bottleneck.share_frac:.0f} %",)
            if bottleneck is not None and bottleneck.waits == component
            else ()
        )
        load = activity.facts if activity is not None else ()
        has_weights = component in self.activities.keys() - self._on_request
        served = self.progress.series.served if has_weights else None
        weights = () if served is None else (f"weights v{served}",)
        return (*self.progress.title_details(component), *waits, *weights, *load)

    def requests(self) -> int | None:
        """Requests that the policy's servers work on; `None` where no server reports them."""
        if not self.activities:
            return None
        return sum(
            activity.requests for name, activity in self.activities.items() if name not in self._on_request
        )

    # --- where it goes on ---------------------------------------------------------------------------------

    def resume_from(self, step: int | None) -> None:
        """Prepare the run for a start from that checkpoint: move aside the files that its jobs must not see
        again.

        Raises:
            RltuiError: if files cannot be moved.
        """
        self.resume_step = step
        archive = self.folder.move_stale_aside(step)
        self.progress.rewind(step)
        self.recorder.resumed(step)
        if step is None or not self.run_id:
            self.run_id = uuid.uuid4().hex
            write_atomically(self._setup.control.run_id_file, self.run_id.encode())
        point = "the start" if step is None else f"checkpoint {step}"
        archive_text = f"; earlier files are in {archive}" if archive else ""
        self._events.journal.add("resume", f"from {point}{archive_text}", step=step)

    # --- what metrics are read from -----------------------------------------------------------------------

    def present_logs(self) -> Mapping[str, Path]:
        """Component or log id → the file that is written now."""
        return {**self._attempt_logs, **self.logs.paths}


def _configured_files(setup: Setup) -> RunFiles:
    """Names of the run's files, by the config; the framework's defaults where that cannot be read."""
    framework = setup.framework
    try:
        return framework.run.files(load_files(setup.record.config_paths, framework))
    except ConfigError:  # reported with the first knob table
        return framework.run.locations


_CURVE_POINTS = 200


class ProgressTracker:
    """Reads new metric rows when polled."""

    def __init__(self, sources: MetricSources, components: Collection[str] | None = None) -> None:
        """`components`: those of the layout; `None`: all that the framework names."""
        self._framework = framework = sources.framework
        self._new_rows = MetricRows(sources)
        self.series = self._new_series()
        self.concept_metrics = self._new_concept_metrics()
        """The metrics of the whole run by their concept, for health."""
        self.max_steps: int | None = None
        # keys that name the writer of a row: others (`time/step`) are written by several components
        names = framework.progress.names
        identifying = {
            names.reward: (names.reward, names.reward_of_seats),
            names.trainer_step: (names.trainer_step,),
        }
        self._owners = tuple(
            (metric, fact.component)
            for fact in framework.progress.facts
            if components is None or fact.component in components
            for metric in identifying.get(fact.metric, ())
        )
        self.resumed_before: int | None = None
        """Steps that were done at the last start before this supervisor; `None`: unknown, or taken in."""
        self._resumed_step = 0
        """Step that the run was last resumed from; 0: the beginning."""
        self._rows = {component: (0, 0) for _, component in self._owners}
        self._rows_at_start: dict[str, int] = {}
        """Component → its number of rows when its present attempt began."""
        self._curve: Curve | None = None
        self._curve_state: tuple[str, int, int] | None = None
        """Concept, number of values and newest step of the curve that was made last."""
        self._non_finite = NonFiniteWatch(self._writer)
        self._cancelled_evals: list[tuple[str, int, float]] = []

    @property
    def progress(self) -> Progress:
        """The headline metrics as of the last `poll`."""
        return self.series.progress(self.max_steps)

    def curve_of(self, concept: str) -> Curve | None:
        """The curve of a metric; `None` below two values."""
        track = self.concept_metrics.track(concept)
        state = (concept, len(track), track.steps[-1] if track else 0)
        if state != self._curve_state:
            pairs = zip(track.steps, track.values, strict=True)
            points = tuple(downsample([pair for pair in pairs if math.isfinite(pair[1])], _CURVE_POINTS))
            metric = metric_names.concept_of(concept)
            self._curve_state, self._curve = state, None
            if metric is not None and len(points) > 1:
                self._curve = Curve(title=metric.title.lower(), unit=metric.unit, points=points)
        return self._curve

    @property
    def component_names(self) -> Mapping[str, str]:
        """Role → component that writes the trainer's or the orchestrator's rows."""
        metrics = self._framework.progress.names
        roles = {metrics.reward: "orchestrator", metrics.trainer_step: "trainer"}
        return {roles[metric]: component for metric, component in self._owners if metric in roles}

    def attempt_started(self, component: str, *, is_of_policy: bool) -> None:
        """Called when an attempt of `component` starts: rows of earlier ones do not count in its title.

        `is_of_policy`: it trains the weights, or samples with them.
        """
        self._rows_at_start[component] = self._rows.get(component, (0, 0))[0]
        if is_of_policy:
            self.concept_metrics.restarted()

    def poll(self) -> bool:
        """Read appended rows. Returns whether there were any."""
        has_grown = self._read_piece()
        while self._new_rows.is_behind:
            has_grown |= self._read_piece()
        if self.resumed_before is not None:
            self.concept_metrics.resumed, self.resumed_before = self.resumed_before, None
        return has_grown

    def _read_piece(self) -> bool:
        rows = [row for row in self._new_rows.read() if not row.is_gap]
        if self._new_rows.restarted:  # a resumed run may write a new file, whose first row comes later
            self.series, self.concept_metrics = self._new_series(), self._new_concept_metrics()
            self.series.completed = self.concept_metrics.resumed = self._resumed_step
            self._non_finite.now.clear()
        now = time.time()
        for row in rows:
            # printed values without a step are of the newest one
            values = row.values if row.step is None else {"step": row.step, **row.values}
            self.series.add(values)
            self.concept_metrics.add(values, math.nan if row.kind == "earlier" else now)
            if row.kind != "earlier":
                self._count(values)
        return bool(rows) or self._new_rows.restarted

    def _count(self, row: Mapping[str, Any]) -> None:
        """Take in a row of the present attempts."""
        self._non_finite.add(row)
        step = row.get("step")
        if isinstance(step, int):
            cancelled = metric_names.cancelled_evals(row)
            self._cancelled_evals += [(env, step, share) for env, share in cancelled.items()]
        for component in {component for metric, component in self._owners if metric in row}:
            if isinstance(step, int):
                self._rows[component] = (self._rows[component][0] + 1, step)

    def rewind(self, step: int | None) -> None:
        """Drop rows beyond `step`, from which the run resumes; `None`: the beginning."""
        self._resumed_step = step or 0
        self.series.rewind(step or 0)
        self.concept_metrics.rewind(step or 0)
        self._non_finite.now.clear()
        self._new_rows.rewind((step or 0) - 1 + self.series.first_step)

    @property
    def non_finite_now(self) -> tuple[NonFinite, ...]:
        return tuple(self._non_finite.now.values())

    def take_non_finite(self) -> tuple[NonFinite, ...]:
        """The metrics that turned NaN or infinite since the last call, in the order they did."""
        return self._non_finite.take()

    def take_cancelled_evals(self) -> list[tuple[str, int, float]]:
        """Environment, step, and unfinished share of the evaluations that a newer checkpoint cancelled since
        the last call.
        """
        cancelled, self._cancelled_evals = self._cancelled_evals, []
        return cancelled

    def rows(self, component: str) -> tuple[int, int] | None:
        """Number of metric rows that `component` has written so far, and the step of the newest.

        `None` where the framework does not say which rows are its own.
        """
        return self._rows.get(component)

    def title_details(self, component: str) -> tuple[str, ...]:
        """Short texts for the component's title; none from rows of an earlier attempt."""
        if component in self._rows and self._rows_at_start.get(component) == self._rows[component][0]:
            return ()
        values = ((fact, self.series.newest(fact.metric)) for fact in self._framework.progress.facts)
        return tuple(
            fact.template.format(value)
            for fact, value in values
            if fact.component == component and value is not None
        )

    def _new_series(self) -> MetricSeries:
        return MetricSeries(self._framework.progress.names, self._framework.run.locations.first_step)

    def _new_concept_metrics(self) -> RunTracks:
        return RunTracks(
            self._framework.progress.names.trainer_step, self._framework.run.locations.first_step
        )

    def _writer(self, row: Mapping[str, Any]) -> str | None:
        return next((component for metric, component in self._owners if metric in row), None)
