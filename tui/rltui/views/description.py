"""Tells a run and its components in lines of a label and a text that can be copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rltui.base.text import duration, join_words
from rltui.base.times import date_text
from rltui.core import hints
from rltui.core.experiment.description import (
    AttemptDescription,
    ComponentDescription,
    Readiness,
    RunDescription,
)
from rltui.views.knob import toml_text


class Fact(NamedTuple):
    """A line. A label may repeat: one line for each variable, file and attempt."""

    label: str
    text: str
    """The text that `y` copies."""


def run_facts(run: RunDescription) -> list[Fact]:
    """Facts of the whole run; the command that starts it again comes first."""
    facts = [
        ("command", run.command),
        ("run id", run.run_id),
        ("framework", run.framework),
        ("layout", run.layout_file),
        ("created", date_text(run.created_at)),
        ("output folder", run.output_dir),
        ("run folder", run.run_dir if run.run_dir != run.output_dir else ""),
        ("workspace", run.workspace),
        *(("config", path) for path in run.config_files),
        ("weights", _weights_text(run)),
        ("supervisor log", run.supervisor_log),
        ("socket", run.socket),
        ("tmux", f"tmux -L {run.tmux_socket} attach -t {run.session}"),
    ]
    return [Fact(label, text) for label, text in facts if text]


def _weights_text(run: RunDescription) -> str:
    """Say `the engine serves v11; the trainer has done step 13`; empty: unknown."""
    if run.served is None:
        return ""
    return f"the engine serves v{run.served}; the trainer has done step {run.step}"


def component_facts(run: RunDescription, component: ComponentDescription, now: float) -> list[Fact]:
    """Facts of a component; its command comes first, then the same with folder and variables."""
    return [Fact(label, text) for label, text in _component_facts(run, component, now) if text]


def _component_facts(
    run: RunDescription, component: ComponentDescription, now: float
) -> Iterator[tuple[str, str]]:
    if component.argv:
        yield "command", component.command
        yield "shell line", component.pasted
    yield "problem", component.problem
    yield "folder", component.cwd
    for name, value in component.env.items():
        yield "variable", f"{name}={value}"
    yield "host", component.host
    if component.pid is not None:
        yield "pid", str(component.pid)
    if component.session:
        yield "terminal", hints.ATTACH(component=component.id, name=run.name)
    yield "ports", ", ".join(map(str, component.ports))
    yield "devices", component.devices
    yield "ready", ready_text(component.ready)
    yield "waits for", join_words(component.after)
    yield "dependents", join_words(component.restarts_with) or "none"
    yield from (("because", reason) for reason in component.because)
    policy = {"never": "never", "on-failure": "after a failure", "always": "after every exit"}
    yield "auto-restart", policy.get(component.restart_policy, component.restart_policy)
    yield from (("config", path) for path in component.config_files)
    for attempt in component.attempts:
        yield f"attempt {attempt.number}", attempt_text(attempt, now)
        yield "log", attempt.log
    if not component.attempts:
        yield "attempts", "none yet"


def value_facts(component: ComponentDescription) -> list[Fact]:
    """The knobs that it reads, with the values that it runs with."""
    return [Fact(key, f"{key} = {toml_text(value)}") for key, value in component.values.items()]


def ready_text(ready: Readiness | None) -> str:
    """When the component counts as ready."""
    if ready is None:
        return "when its process runs"
    probes = {
        "http": "{} answers with status 200",
        "tcp": "{} accepts connections",
        "log": "a line of its output matches {}",
        "file": "{} exists",
    }
    texts = [text.format(value) for name, text in probes.items() if (value := getattr(ready, name))]
    return f"{' or '.join(texts)}, within {duration(ready.timeout_s)}"


def attempt_text(attempt: AttemptDescription, now: float) -> str:
    """`2026-11-22 14:30, ran 12m, exit code 1`."""
    began = "" if attempt.started_at is None else date_text(attempt.started_at)
    if attempt.error:
        return f"{began}, could not be started: {attempt.error}".removeprefix(", ")
    if attempt.is_running and attempt.started_at is not None:
        return f"{began}, running for {duration(now - attempt.started_at)}"
    if attempt.started_at is None or attempt.ended_at is None:
        return f"{began}, end unknown".removeprefix(", ")
    end = attempt.signal or f"exit code {attempt.exit_code}"
    stopped = ", stopped on request" if attempt.stop_requested else ""
    return f"{began}, ran {duration(attempt.ended_at - attempt.started_at)}, {end}{stopped}"
