"""Ports for a new experiment: those of its config, or the next free ones where the framework allows it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rltui.client import launch
from rltui.client.offline import open_store
from rltui.core.layout import Layout
from rltui.core.template import render
from rltui.errors import ConfigError
from rltui.frameworks import overrides, registry
from rltui.frameworks.base import ConfigFiles, PortKnob, RunContext
from rltui.services import layout_files, processes
from rltui.services.experiment_files import ControlFolder, ExperimentRecord, known_experiments

OVERRIDES = "{overrides}"
"""Placeholder of a layout for the options that rltui chose."""
LAST_PORT = 65535
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  (asked about, not listened on)


def with_ports(record: ExperimentRecord) -> tuple[ExperimentRecord, tuple[str, ...]]:
    """The record with a port override for each port that something else holds, and why, in words.

    An override that `record` has already is kept while its port is free. A port that the framework or the
    layout cannot change stays: the start then waits for it and names who holds it.
    """
    layout, files = _read(record)
    ports = [item for item in registry.get(record.framework).ports(files) if _takes_options(layout, item)]
    before = overrides.standing(ports, record.overrides, record.overridden)
    taken = _Taken(record)
    chosen: dict[str, int | str] = {}
    notes: list[str] = []
    for item in ports:
        wanted = int(before.get(item.knob, item.port))
        obstacle = taken.obstacle(wanted)
        port = wanted if obstacle is None else taken.next_free(item.port)
        if port is None or port == item.port:
            continue
        chosen[item.knob] = port
        taken.claim(port)
        if obstacle is not None:
            notes.append(f"port {wanted} is {obstacle}: this experiment uses {port}")
        else:
            notes.append(f"{item.component} uses port {port}, as before; the config says {item.port}")
    instead_of = {item.knob: item.port for item in ports if item.knob in chosen}
    return replace(record, overrides=chosen, overridden=instead_of), tuple(notes)


def listening_ports(record: ExperimentRecord) -> tuple[int, ...]:
    """Ports that its components listen on when they run.

    Raises:
        ConfigError: if its config or layout cannot be read any more.
    """
    if record.observed:
        return ()
    layout, files = _read(record)
    framework = registry.get(record.framework)
    context = RunContext(
        workspace=record.workspace,
        output_dir=record.output_dir,
        run_dir=record.run_dir,
        name=record.name,
        python=sys.executable,
        overrides=overrides.standing(framework.ports(files), record.overrides, record.overridden),
    )
    values = framework.template_values(files, context)
    texts = (render(spec.port, values, where=record.layout_file) for spec in layout.component if spec.port)
    return tuple(int(text) for text in texts if text.isdigit())


class _Taken:
    """What is in the way of an experiment's ports, looked at once each."""

    def __init__(self, record: ExperimentRecord) -> None:
        self._record = record
        others = (other for other in known_experiments() if other.name != record.name)
        self._owners = dict(_claims(other for other in others if launch.lives(other)))

    def obstacle(self, port: int) -> str | None:
        """Why `port` cannot be used, in words."""
        holder = processes.port_holder(port, ANY_ADDRESS)
        if holder is not None and not self._is_own(holder):
            return f"held by {holder}"
        return f"the experiment {self._owners[port]}'s" if port in self._owners else None

    def claim(self, port: int) -> None:
        """Not for another component of the same experiment."""
        self._owners[port] = self._record.name

    def next_free(self, port: int) -> int | None:
        """`port`, or the first above it that can be used."""
        return next((other for other in range(port, LAST_PORT + 1) if self.obstacle(other) is None), None)

    def _is_own(self, holder: processes.PortHolder) -> bool:
        """A leftover of an earlier attempt of this experiment, which is ended before the next start."""
        control = ControlFolder(Path(self._record.output_dir))
        attempts = (processes.read_attempt(folder) for folder in control.newest_attempts())
        records = [attempt for attempt in attempts if attempt is not None]
        return any(left.id == holder.process for left in processes.leftovers(self._record.tag, records))


def _claims(records: Iterable[ExperimentRecord]) -> Iterator[tuple[int, str]]:
    for record in records:
        try:
            yield from ((port, record.name) for port in listening_ports(record))
        except ConfigError:
            continue  # its config is broken or gone; the ports it holds now are seen all the same


def _read(record: ExperimentRecord) -> tuple[Layout, ConfigFiles]:
    store = open_store(record)
    return layout_files.load_for(record), store.load()


def _takes_options(layout: Layout, item: PortKnob) -> bool:
    """Whether every component that needs the option gets it, or needs none."""
    if not item.by_option:
        return True
    readers = [spec for spec in layout.component if spec.id in item.readers]
    return bool(readers) and all(OVERRIDES in spec.command for spec in readers)
