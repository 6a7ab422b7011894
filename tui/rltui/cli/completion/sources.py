"""Possible values of arguments on this machine now: names, components, knobs, steps, files.

`completes="components"` in the declaration of an argument names a function here: it takes what is typed of
the word, and the values before it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.client.transports.unix import Wire
from rltui.core.experiment.states import component_badge
from rltui.core.runs.state import state_text
from rltui.errors import RltuiError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.journal import read_entries
from rltui.services.experiment.registry import (
    experiment_above,
    find_experiment,
    find_socket,
    known_experiments,
    names_with_socket,
)
from rltui.services.own_files import read_regular
from rltui.services.runs.catalog import record_of
from rltui.services.runs.index import IndexedState, RunIndex
from rltui.services.runs.queue_states import beside_entry, saved_entries
from rltui.services.runs.references import find_run

TypedValues = dict[str, list[str]]
"""`dest` of an argument → values that are typed already."""
Words = Iterable[tuple[str, str]]
"""Words, each with what it means or nothing."""

_TIMEOUT_S = 0.3
"""Timeout of a supervisor: a person waits for the tab."""
_FRAMEWORK = re.compile(r'^framework = "([\w-]+)"', re.MULTILINE)


def openable(prefix: str) -> Iterator[tuple[str, str]]:
    """Experiments and config files that `rltui WORD` opens."""
    yield from experiments("", {})
    yield from configs(prefix, {})


def benches(_: str, __: TypedValues) -> Iterator[tuple[str, str]]:
    yield from ((entry.stem, "") for entry in paths.bench_folder().glob("*.json"))


def hosts() -> Iterator[tuple[str, str]]:
    """Machines that `--host` may name: those of the settings, and of the user's ssh."""
    with suppress(OSError, ValueError):
        hosts_of_settings = tomllib.loads(paths.settings_file().read_text(encoding="utf-8")).get("hosts")
        yield from ((name, "") for name in (hosts_of_settings if isinstance(hosts_of_settings, dict) else ()))
    with suppress(OSError, ValueError):
        for line in (Path.home() / ".ssh" / "config").read_text(encoding="utf-8").splitlines():
            tokens = line.split()
            if tokens and tokens[0].lower() == "host":
                yield from (
                    (name, "from ~/.ssh/config") for name in tokens[1:] if not set(name) & {"*", "?", "!"}
                )


def experiments(_: str, __: TypedValues) -> Words:
    return [(record.name, record.output_dir) for record in known_experiments()]


def runs(prefix: str, values: TypedValues) -> Words:
    """Names of runs; after a run's name and a slash, its components; folders."""
    run, slash, _ = prefix.rpartition("/")
    if slash:
        words = [(f"{run}/{name}", text) for name, text in components("", {**values, "run": [run]})]
        return words or folders(prefix, values)
    queued, living = saved_entries(), names_with_socket()
    known = [
        # of one whose supervisor was killed, the index knows no more than that it ran
        (run.name, "" if run.is_alive and run.name not in living else _run_state(run, queued.get(run.entry)))
        for run in RunIndex().states()
    ]
    return [*known, ("@best", "the highest reward")]


def _run_state(run: IndexedState, entry: Mapping[str, Any] | None) -> str:
    verdict = run.verdict if run.is_alive else beside_entry(run.verdict, entry)
    return state_text(*verdict)


def _records(values: TypedValues) -> list[ExperimentRecord]:
    """The experiment that is named; else that of this folder, else those that are alive, or all."""
    names = [*values.get("name", ()), *values.get("experiment", ()), *values.get("run", ())]
    if names := [name for name in names if "=" not in name and not name.endswith(".toml")]:
        name = names[-1].partition("/")[0]
        with suppress(RltuiError):
            return [find_experiment(name) or record_of(find_run(RunIndex(), name))]
        return []
    if (here := experiment_above(Path.cwd())) is not None:
        return [here]
    sockets = names_with_socket()
    records = known_experiments()
    return [record for record in records if record.name in sockets] or records


def _answer(record: ExperimentRecord, method: str) -> dict[str, Any] | None:
    """Answer of the supervisor; `None` where none lives."""
    with suppress(RltuiError, OSError), Wire(find_socket(record), timeout_s=_TIMEOUT_S) as wire:
        return wire.call(method, timeout_s=_TIMEOUT_S)
    return None


def components(prefix: str, values: TypedValues) -> Words:
    """Components with their states; after a `#`, attempts."""
    id_, sign, _ = prefix.partition("#")
    if sign:
        attempts = (record.control.attempts(id_) for record in _records(values))
        return [(f"{id_}#{number}", "") for numbers in attempts for number in reversed(numbers)]
    states: dict[str, str] = {}
    used_ids = values.get("component", [])
    for record in _records(values):
        for folder in record.control.newest_attempts():
            states.setdefault(folder.parent.name, "")
        for component in (_answer(record, "status") or {}).get("components", ()):
            states[component["id"]] = component_badge(component).word
    return [(name, text) for name, text in sorted(states.items()) if name not in used_ids]


def _knob_rows(values: TypedValues) -> Iterator[Mapping[str, Any]]:
    """Rows with `key` and `value`, and with `help` and `choices` where a supervisor lives."""
    words = [word for name in ("run", "edit", "pattern", "config") for word in values.get(name, ())]
    if files := [Path(word) for word in words if word.endswith(".toml")]:
        for file in files:
            yield from _of_file(file)
        return
    for record in _records(values):
        table = _answer(record, "knobs")
        if table is not None:
            yield from (*table["knobs"], *table["others"])
            continue
        for name in record.config_files:
            yield from _of_file(Path(name))


def _of_file(path: Path) -> Iterator[Mapping[str, Any]]:
    with suppress(OSError, ValueError, RecursionError):
        yield from _leaves(tomllib.loads(read_regular(path).decode()), "")


def _leaves(table: Mapping[str, Any], above: str) -> Iterator[Mapping[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield {"key": f"{above}{key}", "value": value}


def _named_rows(prefix: str, values: TypedValues) -> list[tuple[str, Mapping[str, Any]]]:
    """Knobs by their keys, and where a part of a name is typed, by the last parts that are clear."""
    rows = [*{row["key"]: row for row in _knob_rows(values)}.values()]
    rows_by_key = [(str(row["key"]), row) for row in rows]
    if prefix and "." not in prefix.partition("=")[0]:
        short = [(key.rpartition(".")[2], row) for key, row in rows_by_key]
        count = Counter(name for name, _ in short)
        rows_by_key += [(name, row) for name, row in short if count[name] == 1]
    return rows_by_key


def knobs(prefix: str, values: TypedValues) -> Words:
    return [(name, row.get("help", "")) for name, row in _named_rows(prefix, values)]


def assignments(prefix: str, values: TypedValues) -> Iterator[tuple[str, str]]:
    """Complete `KEY=` and, behind it, the possible values of the knob, or the current one."""
    key, equals, _ = prefix.partition("=")
    for name, row in _named_rows(prefix, values):
        value = row.get("value")
        if not equals:
            yield f"{name}=", f"{_text(value)}  {row.get('help', '')}".strip()
        elif name == key:
            choices = ("true", "false") if isinstance(value, bool) else row.get("choices") or (_text(value),)
            yield from ((f"{key}={choice}", "") for choice in choices)


def edits(prefix: str, values: TypedValues) -> Words:
    return chain(assignments(prefix, values), () if "=" in prefix else _files(prefix, ".toml"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def checkpoints(_: str, values: TypedValues) -> Iterator[tuple[str, str]]:
    """Steps of complete checkpoints, the newest first."""
    index = RunIndex()
    rows = [row for record in _records(values) if (row := index.in_folder(record.output_dir)) is not None]
    yield from ((str(step), f"checkpoint of {row.name}") for row in rows for step in row.checkpoints[::-1])


def set_aside(_: str, values: TypedValues) -> Words:
    """Folders that restarts moved aside, the newest first."""
    folders = (record.control.archive for record in _records(values))
    return [
        (name, f"set aside in {folder}")
        for folder in folders
        if folder.is_dir()
        for name in sorted((entry.name for entry in folder.iterdir()), reverse=True)
    ]


def starts(prefix: str, values: TypedValues) -> Words:
    return [("last", "the newest checkpoint"), ("best", "the highest reward"), *checkpoints(prefix, values)]


def configs(prefix: str, _: TypedValues) -> Words:
    return _files(prefix, ".toml")


def files(prefix: str, _: TypedValues) -> Words:
    return _files(prefix, "")


def folders(prefix: str, _: TypedValues) -> Words:
    return _files(prefix, None)


def _files(prefix: str, suffix: str | None) -> Iterator[tuple[str, str]]:
    """Folders, and files with this suffix."""
    above, _, name_prefix = prefix.rpartition("/")
    folder = f"{above}/" if "/" in prefix else ""
    with suppress(OSError), os.scandir(os.path.expanduser(folder) or ".") as entries:  # noqa: PTH111
        for entry in sorted(entries, key=lambda item: item.name):
            if entry.name.startswith(".") and not name_prefix.startswith("."):
                continue
            if entry.is_dir():
                yield f"{folder}{entry.name}/", ""
            elif suffix is not None and entry.name.endswith(suffix):
                yield f"{folder}{entry.name}", ""


def _layout_files() -> list[Path]:
    folders = (
        paths.config_dir() / "layouts",
        Path(paths.STATE_FOLDER) / "layouts",
        paths.shipped_dir("layouts"),
    )
    return [file for folder in folders for file in sorted(folder.glob("*.toml"))]


def layouts(prefix: str, _: TypedValues) -> Words:
    return chain(
        [(file.stem, "") for file in _layout_files()], _files(prefix, ".toml") if "/" in prefix else ()
    )


def frameworks(_: str, __: TypedValues) -> Words:
    names = {
        name for file in _layout_files() for name in _FRAMEWORK.findall(file.read_text(encoding="utf-8"))
    }
    return [(name, "") for name in sorted(names)]


def conversion_targets(prefix: str, values: TypedValues) -> Words:
    from rltui.frameworks import registry

    name = prefix.partition("@")[0]
    if "@" in prefix and name in registry.IDS and (migration := registry.get(name).migration) is not None:
        return [(f"{name}@{release.name}", release.title) for release in migration.releases]
    return frameworks(prefix, values)


def queue_entries(_: str, __: TypedValues) -> Words:
    entries, runs_by_entry = saved_entries(), {run.entry: run for run in RunIndex().states() if run.entry}
    names = [
        (entry["name"], _run_state(runs_by_entry[id_], entry) if id_ in runs_by_entry else entry["state"])
        for id_, entry in entries.items()
    ]
    return [*names, *((entry["group"], "sweep") for entry in entries.values() if entry.get("group"))]


def event_kinds(_: str, __: TypedValues) -> Words:
    from rltui.views.event import KINDS

    return [(kind, "") for kind in KINDS]


def authors(_: str, values: TypedValues) -> Iterator[tuple[str, str]]:
    """Kinds of actors, and the names that the journals have."""
    yield from (
        ("agent", "any agent"),
        ("tui", "people in the TUI"),
        ("cli", "people at a shell"),
        ("host", "people through --host"),
    )
    for record in _records(values):
        for entry in read_entries(record.control.journal_file):
            by = entry.get("by")
            if isinstance(by, dict) and isinstance(name := by.get("name"), str) and name:
                yield name, "agent" if by.get("kind") == "agent" else "person"


def proposals(_: str, values: TypedValues) -> Iterator[tuple[str, str]]:
    """Open proposals of agents in the run."""
    from rltui.services.experiment.proposals import read_proposals

    for record in _records(values):
        with suppress(RltuiError):
            found = read_proposals(record.control.path).proposals
            yield from ((proposal.id, proposal.text) for proposal in found if proposal.state == "open")


def agent_levels(_: str, __: TypedValues) -> Words:
    from rltui.core.experiment.rights import LEVELS

    return [*LEVELS.items(), ("default", "that of the settings")]


def log_levels(_: str, __: TypedValues) -> Words:
    from rltui.core.logs.lines import Level

    return [(level.value, "and above") for level in Level]


def metrics(_: str, __: TypedValues) -> Words:
    from rltui.core.metrics.names import CONCEPTS

    return [(concept.id, concept.title) for concept in CONCEPTS]


def run_columns(prefix: str, __: TypedValues) -> Words:
    from rltui.views.run import known_columns

    sign = "+" if prefix.startswith("+") else ""
    return [(f"{sign}{column.id}", column.about) for column in known_columns()]


def tags(_: str, __: TypedValues) -> Words:
    return [(tag, "") for tag in RunIndex().tags()]


def help_topics(_: str, __: TypedValues) -> Words:
    from rltui.cli.help_pages import topics

    return topics().items()


def slurm_partitions(_: str, __: TypedValues) -> Words:
    from rltui.services.hosts.slurm import partitions

    return [
        (partition.name, f"up to {partition.time_limit}, {partition.nodes} nodes")
        for partition in partitions(timeout_s=2.0)
    ]


def pod_roles(_: str, __: TypedValues) -> Words:
    return [(role, "") for role in ("inference", "orchestrator", "trainer")]


def conversions(prefix: str, values: TypedValues) -> Words:
    return [("tokens", ""), ("rollouts", ""), *configs(prefix, values)]
