"""Explains the state of a run, a component or an entry of the queue: cause, evidence, and what helps.

The newest edit is blamed only where the order of times, the readers of its keys and the kind of the failure
all fit; what speaks against it is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from rltui.base.text import duration, join_words, truncate, unknown_name
from rltui.base.values import InvalidValueError
from rltui.client import launch
from rltui.client.queue.commands import entries_of
from rltui.client.reader import ExperimentReader
from rltui.client.statuses import row_of
from rltui.core import hints
from rltui.core.config.edit_log import EditRecord
from rltui.core.experiment.api import ComponentStatus, HealthIssue, Status
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.reason_codes import REASON_CODES, ReasonCode
from rltui.core.experiment.states import ALIVE_STATES, RUN_STATES, ComponentState, Reason
from rltui.core.experiment.why import Evidence, ExplainedReason, FittingEdit, Why
from rltui.errors import ConfigError
from rltui.services import processes
from rltui.services.experiment.attempt_end import cause_of_end, numbered_lines, saved_host_oom
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.journal import read_journal
from rltui.services.experiment.registry import name_if_needed
from rltui.services.processes import AttemptRecord
from rltui.services.redaction import without_secrets
from rltui.services.runs.observed import framework_of
from rltui.services.runs.queue_file import read_queue

_SOON_S = 600.0
"""A start that lives longer has survived its edits, unless it runs out of memory."""
_LINES, _LINE_WIDTH, _TEXT_WIDTH = 3, 120, 300
_CODES = {
    ComponentState.STOPPED: "never_started",
    ComponentState.WAITING: "on_the_way",
    ComponentState.STARTING: "on_the_way",
    ComponentState.STOPPING: "stop_requested",
    ComponentState.EXITED: "finished",
}
"""Code of a state that needs no explanation, as its component gives none."""
_DEAD_STATES = (ComponentState.FAILED, ComponentState.BACKOFF)


def explain(record: ExperimentRecord, component: str | None = None) -> Why:
    """Explain the state of the run, or of its `component`; of a run, by the worst state of its parts.

    Raises:
        UsageError: if it has no such component.
    """
    had_supervisor = launch.has_supervisor(record)
    row = row_of(record)
    if "problem" in row:
        return _answer(record, None, row["state"], Reason(**row["reason"]))
    status = Status.from_plain(row)
    if component is not None:
        by_id = {part.id: part for part in status.components}
        if component not in by_id:
            raise unknown_name("component", component, by_id)
        return _Explainer(record, status).of_component(by_id[component])
    answer = _Explainer(record, status).of_run()
    if status.alive and not had_supervisor and answer.reason.code == status.reason.code == "jobs_run":
        text = "its supervisor had ended; another one has taken over, and all components went on"
        return answer.replace(reason=ExplainedReason(code="supervisor_gone", text=text))
    return answer


def explain_entry(name: str) -> Why:
    """Explain the state of the queue entry of that name or id, if its run does not exist yet.

    Raises:
        UsageError: if there is none.
    """
    entry = entries_of(read_queue(), name)[0]
    reason = ExplainedReason(code="queue", text=entry.why or entry.failure)
    command = hints.QUEUE_RETRY(entry=entry.name) if RUN_STATES[entry.state].is_failure else str(hints.QUEUE)
    return Why(experiment=entry.name, state=entry.state, reason=reason, command=command)


class _Explainer:
    def __init__(self, record: ExperimentRecord, status: Status) -> None:
        self._record, self._status = record, status
        self._name = name_if_needed(record.name)

    def of_run(self) -> Why:
        """Explain its first failed or silent component, else its worst health issue, else the run itself."""
        status = self._status
        parts = {part.id: part for part in status.components}
        named = [parts[id_] for id_ in status.reason.components if id_ in parts]
        failed = [part for part in named if part.state in _DEAD_STATES or part.lost]
        if status.state in ("failed", "lost", "starting", "stalled") and named:
            part = next((part for part in failed if part.code != "dependency_failed"), named[0])
            if status.state != "starting" or part in failed or part.code:
                return self.of_component(part)
        if status.alive and status.progress.concerns:
            return self._of_issue(status.progress.concerns[0])
        reason = status.reason
        if reason.code != "jobs_run":
            return _answer(self._record, None, status.state, reason)
        return self._of_healthy_run()

    def of_component(self, part: ComponentStatus) -> Why:
        if part.stalled:
            reason = Reason("no_progress", part.evidence or "no sign of progress")
        else:
            reason = Reason(part.code or _CODES.get(part.state, "jobs_run"), part.reason or "")
        answer = _answer(self._record, part, part.state, reason)
        if part.stalled:
            return answer.replace(reason=answer.reason.replace(evidence=self._last_lines(part)))
        if part.state not in _DEAD_STATES:
            if part.concerns:
                return self._of_issue(part.concerns[0])
            return answer
        answer = answer.replace(reason=answer.reason.replace(evidence=self._evidence(part)))
        if part.remedies:
            words = hints.edit_words(part.remedies[0].edits)
            command = hints.SET_RESTART(words=words, name=self._name)
            answer = answer.replace(todo=part.remedies[0].title, command=command)
        return self._with_edit(answer, part)

    def _of_issue(self, issue: HealthIssue) -> Why:
        """A health issue names the edit that fits, if any, by itself."""
        back, command = issue.back, ""
        if back is not None and back.resume_step is not None:
            command = hints.back_command(back.resume_step, back.edit, back.edits, name=self._name)
        newest, edit = self._newest_edit, None
        if newest is not None and back is not None and back.edit == newest[1].words:
            edit = _fitting(*newest)
        against: tuple[str, ...] = ()
        if newest is not None and edit is None:
            against = (f"the newest edit ({newest[1].words}) did not take effect shortly before",)
        return Why(
            experiment=self._record.name,
            component=issue.component,
            state=self._status.state,
            reason=ExplainedReason(code=issue.id, text=f"{issue.word}: {issue.evidence}"),
            edit=edit,
            against=against,
            todo=issue.advice,
            command=command,
        )

    def _of_healthy_run(self) -> Why:
        status, progress = self._status, self._status.progress
        parts = [part.id for part in status.components if not part.manual]
        step = "no step yet" if status.step is None else f"step {status.step}"
        of_steps = f"{step} of {status.max_steps}" if status.max_steps else step
        reward = "" if status.reward is None else f", reward {status.reward:.3g}"
        looked_at = (f"components: {join_words(parts)}", f"health rules over {len(progress.rewards)} steps")
        answer = _answer(
            self._record, None, status.state, Reason("jobs_run", f"nothing is wrong: {of_steps}{reward}")
        )
        return answer.replace(looked_at=looked_at)

    # --- evidence -----------------------------------------------------------------------------------------

    def _evidence(self, part: ComponentStatus) -> tuple[Evidence, ...]:
        """The lines of its log that show the cause; for a kill, the record of its end."""
        attempt = self._attempt(part)
        if attempt is None or part.log is None:
            return ()
        folder, log = self._record.control.attempt_dir(part.id, part.attempt or 0), Path(part.log)
        if part.code in ("killed_outside", "killed_by_signal") and attempt.signal:
            asked = "a stop was requested" if attempt.stop_requested else "rltui requested no stop"
            return (Evidence(file=str(folder / "attempt.json"), text=f"ended by {attempt.signal}; {asked}"),)
        cause = None
        with suppress(ValueError, OverflowError):
            cause = cause_of_end(
                log,
                exit_code=attempt.exit_code,
                signal=attempt.signal,
                patterns=framework_of(self._record).failures,
                host_oom=saved_host_oom(folder),
            )
        return self._last_lines(part, () if cause is None else cause.lines)

    def _last_lines(self, part: ComponentStatus, indices: Sequence[int] = ()) -> tuple[Evidence, ...]:
        """The lines of these indices within the end of its log; without any, the last one with a text."""
        if part.log is None:
            return ()
        lines = numbered_lines(Path(part.log), end=part.log_end)
        chosen = [lines[index] for index in indices] or [line for line in lines if line[1].strip()][-1:]
        return tuple(
            Evidence(file=part.log, line=number, text=truncate(without_secrets(text.strip()), _LINE_WIDTH))
            for number, text in chosen[:_LINES]
        )

    def _attempt(self, part: ComponentStatus) -> AttemptRecord | None:
        if part.attempt is None:
            return None
        return processes.read_attempt(self._record.control.attempt_dir(part.id, part.attempt))

    # --- edits --------------------------------------------------------------------------------------------

    @cached_property
    def _newest_edit(self) -> tuple[JournalEntry, EditRecord] | None:
        for entry in reversed(read_journal(self._record.control.journal_file)):
            if entry.kind == "edit":
                with suppress(InvalidValueError):  # another version wrote it
                    record = EditRecord.from_plain(entry.data)
                    if not record.is_birth:
                        return entry, record
        return None

    def _with_edit(self, answer: Why, part: ComponentStatus) -> Why:
        """Add the newest edit to `answer` if that may be the cause, else what speaks against it."""
        if self._newest_edit is None:
            return answer
        entry, record = self._newest_edit
        if objection := self._objection(answer.reason.code, part, entry, record):
            what = "undo" if record.action == "undo" else "newest edit"
            return answer.replace(against=(f"the {what} ({record.words}) is not the cause: {objection}",))
        answer = answer.replace(edit=_fitting(entry, record))
        if record.action == "undo" or part.remedies:
            return answer
        return answer.replace(todo="undo the edit", command=hints.UNDO_RESTART(name=self._name))

    def _objection(self, code: str, part: ComponentStatus, entry: JournalEntry, record: EditRecord) -> str:
        """Say why the edit cannot be the cause, or is unlikely to be; empty: it fits."""
        row, attempt = REASON_CODES.get(code, ReasonCode("")), self._attempt(part)
        if not row.from_edit:
            return f"{row.text or code}"
        if attempt is None:
            return "" if code == "invalid_config" else "the component has not been started since"
        if attempt.started_at < entry.at:
            return "the component was started before it"
        lived_s = (attempt.ended_at or attempt.started_at) - attempt.started_at
        if lived_s > _SOON_S and not code.startswith("oom_"):
            return f"the component ran {duration(lived_s)} with it"
        return "" if self._reads(part.id, record) else f"{part.id} does not read its keys"

    def _reads(self, component: str, record: EditRecord) -> bool:
        keys = {key for file in record.files for key in file.keys}
        try:
            table = ExperimentReader(self._record).knobs()
        except ConfigError:
            return True
        readers = [knob.readers for knob in (*table.knobs, *table.others) if knob.key in keys]
        return not readers or any(component in ids or not ids for ids in readers)


def _answer(record: ExperimentRecord, part: ComponentStatus | None, state: str, reason: Reason) -> Why:
    """The reason, and the remedy of its code."""
    row = REASON_CODES.get(reason.code, ReasonCode(""))
    values: dict[str, object] = {"name": name_if_needed(record.name), "lines": None}
    if part is not None:
        values |= {"component": part.id, "components": [part.id]}
    elif row.hint in (hints.DOWN, hints.OPEN):
        values["name"] = record.name
    text = reason.text or row.text
    if row.text and text == "; ".join(reason.components):
        text = f"{row.text}: {text}"
    is_alive = part is not None and part.state in ALIVE_STATES and reason.code != "no_progress"
    return Why(
        experiment=record.name,
        component=None if part is None else part.id,
        state=state,
        reason=ExplainedReason(code=reason.code, text=truncate(text, _TEXT_WIDTH)),
        todo=row.todo,
        command="" if row.hint is None or is_alive else row.hint(**values),
    )


def _fitting(entry: JournalEntry, record: EditRecord) -> FittingEdit:
    return FittingEdit(
        number=record.number,
        text=truncate(entry.text, _LINE_WIDTH),
        at=entry.at,
        by=record.by if entry.by is None else entry.by.text,
    )
