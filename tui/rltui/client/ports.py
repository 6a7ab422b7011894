"""Ports for a new experiment: those of its config, or the next free ones where the framework allows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rltui.base.template import render
from rltui.base.text import parse_whole_number
from rltui.client import launch
from rltui.errors import ConfigError, UsageError
from rltui.frameworks.base import Framework
from rltui.frameworks.launch import standing
from rltui.services import processes
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import run_context_of
from rltui.services.experiment.ports import LAST_PORT, takes_options
from rltui.services.experiment.probes import served_model
from rltui.services.experiment.registry import known_experiments
from rltui.services.runs.observed import setup_of

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  (asked about, not listened on)


def with_ports(record: ExperimentRecord) -> tuple[ExperimentRecord, tuple[str, ...]]:
    """The record with a port override for each port that something else holds, and why, in words.

    An override that `record` has already is kept while its port is free. A port that the framework or the
    layout cannot change stays: the start then waits for it and names who holds it.
    """
    layout, framework, files = setup_of(record)
    ports = [item for item in framework.launch.ports(files) if takes_options(layout, item)]
    before = standing(ports, record.overrides, record.overridden)
    ports_in_use = _UsedPorts(record)
    new_ports: dict[str, int | str] = {}
    notes: list[str] = []
    for item in ports:
        desired_port = int(before.get(item.knob, item.port))
        busy = ports_in_use.first_blocked(desired_port, item.more)
        port = desired_port if busy is None else ports_in_use.next_free(item.port, item.more)
        if port is None or port == item.port:
            continue
        new_ports[item.knob] = port
        ports_in_use.claim(port, item.more)
        if busy is not None:
            # everybody knows the server by its port
            component = "" if item.component == "inference" else f" for {item.component}"
            notes.append(f"port {busy[0]} is {busy[1]}; this experiment uses {port}{component}")
            if (model := served_model(busy[0])) is not None:
                use = _way_to_use(framework, f"http://127.0.0.1:{busy[0]}")
                notes.append(f"a server already serves {model} there{use}")
        else:
            notes.append(f"{item.component} uses port {port}, as before; the config says {item.port}")
    instead_of = {item.knob: item.port for item in ports if item.knob in new_ports}
    return replace(record, overrides=new_ports, overridden=instead_of), tuple(notes)


def listening_ports(record: ExperimentRecord) -> tuple[int, ...]:
    """Ports that its components listen on when they run.

    Raises:
        ConfigError: if its config or layout cannot be read any more.
    """
    if record.observed:
        return ()
    layout, framework, files = setup_of(record)
    knobs = framework.launch.ports(files)
    still = standing(knobs, record.overrides, record.overridden)
    values = framework.launch.template_values(files, run_context_of(record, framework, files))
    port_texts = [
        render(spec.port, values, where=record.layout_file) for spec in layout.automatic if spec.port
    ]
    port_numbers = {port for text in port_texts if (port := parse_whole_number(text)) is not None}
    for item in knobs:
        port_numbers.update(int(still.get(item.knob, item.port)) + above for above in (0, *item.more))
    return tuple(sorted(port_numbers))


def inference_url(record: ExperimentRecord) -> str:
    """URL of an experiment's inference server for clients on this machine.

    Raises:
        ConfigError: if its config or layout cannot be read any more, or it has no such server.
    """
    layout, framework, files = setup_of(record)
    values = framework.launch.template_values(files, run_context_of(record, framework, files))
    specs = [spec for spec in layout.automatic if spec.id == "inference" and spec.port]
    if not specs:
        elsewhere = f"{record.name} itself uses {record.inference[0]}" if record.inference else ""
        raise ConfigError(f"{record.name} has no inference server of its own", hint=elsewhere)
    # Past a router, which hands no weights on.
    engine, host = values.get("port.engine"), values.get("host.inference")
    port = engine if isinstance(engine, str) else render(specs[0].port, values, where=record.layout_file)
    return f"http://{host if isinstance(host, str) else '127.0.0.1'}:{port}/v1"


class _UsedPorts:
    """Ports that an experiment cannot use; each port is checked once."""

    def __init__(self, record: ExperimentRecord) -> None:
        self._record = record
        other_experiments = (
            experiment for experiment in known_experiments() if experiment.name != record.name
        )
        self._owners = dict(_claims(launch.running_experiments(other_experiments, idle=True)))

    def blocker(self, port: int) -> str | None:
        """The reason why `port` cannot be used, as a sentence."""
        holder = processes.port_holder(port, _ANY_ADDRESS)
        if holder is not None and not self._is_own(holder):
            return f"in use by {holder}"
        return f"reserved for the experiment {self._owners[port]}" if port in self._owners else None

    def first_blocked(self, port: int, more: tuple[int, ...] = ()) -> tuple[int, str] | None:
        """The first that cannot be used of `port` and those so far above it, and why."""
        holders = ((port + above, self.blocker(port + above)) for above in (0, *more))
        return next(((candidate, reason) for candidate, reason in holders if reason is not None), None)

    def claim(self, port: int, more: tuple[int, ...] = ()) -> None:
        """Reserve the ports against other components of the same experiment."""
        self._owners.update((port + above, self._record.name) for above in (0, *more))

    def next_free(self, port: int, more: tuple[int, ...] = ()) -> int | None:
        """`port`, or the first above it that is free together with those that belong to it."""
        last = LAST_PORT - max(more, default=0)
        return next((p for p in range(port, last + 1) if self.first_blocked(p, more) is None), None)

    def _is_own(self, holder: processes.PortHolder) -> bool:
        """A leftover of an earlier attempt of this experiment, which is ended before the next start."""
        tag, folders = self._record.tag, self._record.control.newest_attempts()
        records = processes.ProcessOwners().records(folders, tag)
        return any(leftover.id == holder.process for leftover in processes.leftovers(tag, records))


def _way_to_use(framework: Framework, url: str) -> str:
    """Empty where the programs cannot be sent to another server."""
    try:
        framework.sent_to((url,))
    except UsageError:
        return ""
    return f"; to use it: --inference {url}"


def _claims(records: Iterable[ExperimentRecord]) -> Iterator[tuple[int, str]]:
    for record in records:
        try:
            yield from ((port, record.name) for port in listening_ports(record))
        except ConfigError:
            continue  # its config is broken or gone; the ports it holds now are seen all the same
