"""The layout file: which components make an experiment, how they start and stop, what the screen shows."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from rltui.base.kinds import parse_pattern
from rltui.base.tables import TomlTable
from rltui.core.experiment.description import Panels, ScreenLayout
from rltui.core.hosts.options import HostOptions
from rltui.core.hosts.specs import HOST_TABLES, HostSpec, NodeSpec, PodSpec, SlurmSpec

ComponentId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


def address_fault(name: str, text: str) -> str | None:
    """The error in a filled-in `http`, `metrics` or `tcp`, and what to do; `None` if there is none."""
    is_url = name != "tcp"
    try:
        url = urlsplit(text if is_url else f"tcp://{text}")
        is_web_address = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        is_sound = is_web_address if is_url else bool(url.port)
    except ValueError:  # no port number
        is_sound = False
    if is_sound:
        return None
    example = "a URL such as http://127.0.0.1:8000/health" if is_url else "host:port, such as 127.0.0.1:8000"
    return f"{name} must be {example}, not {text!r}"


PROBES = ("http", "tcp", "log", "file")
"""Fields of `Ready` that are probes."""


class Ready(TomlTable):
    """When a component counts as ready. Without a probe: as soon as its process runs.

    If several are set, the first one whose placeholders are not empty is used.
    """

    http: str | None = None
    """A URL, http or https, that answers with status 200."""
    tcp: str | None = None
    """`host:port` that accepts connections."""
    log: str | None = None
    """A regular expression that a line of its output matches."""
    file: str | None = None
    """A path that exists. One in rltui's own folder is removed before the component starts."""
    timeout_s: float = Field(default=600.0, gt=0)
    """A component that is not ready by then is stopped, as failed."""

    @model_validator(mode="after")
    def _one_probe(self) -> Ready:
        probes = {name: text for name in PROBES if (text := getattr(self, name)) is not None}
        if not probes or (len(probes) > 1 and not all("{" in text for text in probes.values())):
            names = ", ".join(probes) or "none"
            raise ValueError(f"set exactly one of http, tcp, log, file (set: {names})")
        for name in ("http", "tcp"):
            text = getattr(self, name)
            if text is not None and "{" not in text and (fault := address_fault(name, text)):
                raise ValueError(fault)
        return self

    @field_validator("log")
    @classmethod
    def _is_pattern(cls, text: str | None) -> str | None:
        try:
            re.compile((text or "").encode())
        except re.error as error:
            raise ValueError(f"invalid regular expression {text!r}: {error}") from error
        return text


class Stop(TomlTable):
    """How a component is stopped."""

    signal: str = "SIGTERM"
    grace_s: float = Field(default=20.0, ge=0)
    """Then the whole process tree gets SIGTERM, and seconds later SIGKILL."""
    again_s: float | None = Field(default=None, gt=0)
    """Then the signal is sent again, within the grace period: many programs shut down gracefully at the
    first SIGINT, which may take forever, and at once at the second. A launcher's SLURM job: first its
    script gets the signal, then all of its processes."""
    leftovers: Literal["end", "keep"] = "end"
    """What happens to processes that outlive an attempt that exited by itself: end them, or keep and list
    them. A stop on request always ends them."""

    @field_validator("signal")
    @classmethod
    def _known_signal(cls, name: str) -> str:
        if name not in signal.Signals.__members__:
            raise ValueError(f"unknown signal {name!r}; use a name such as SIGTERM or SIGINT")
        return name


class Restart(TomlTable):
    """Whether a component that exited restarts automatically."""

    policy: Literal["never", "on-failure", "always"] = "never"
    """`always` also restarts a job that exited with 0. A config or out-of-memory error never leads to a
    restart."""
    backoff_s: tuple[float, float] = (1.0, 300.0)
    """First and longest pause before a restart; the pause doubles each time."""
    max_failures: int = Field(default=3, ge=1)
    """After this many failures within `window_s` it stays failed."""
    window_s: float = Field(default=3600.0, gt=0)
    healthy_s: float = Field(default=600.0, gt=0)
    """After being ready for this long, earlier failures no longer count."""
    together: tuple[ComponentId, ...] = ()
    """Running components that must restart with it, in addition to those of the framework."""
    because: str = "required by the layout"
    """Why `together`, for the plan."""

    @field_validator("backoff_s")
    @classmethod
    def _rising(cls, pauses: tuple[float, float]) -> tuple[float, float]:
        if not 0 < pauses[0] <= pauses[1]:
            raise ValueError(
                f"backoff_s must be [first, longest] in seconds, both above 0, not {list(pauses)}"
            )
        return pauses


class Stall(TomlTable):
    """When a running component counts as stalled."""

    silence_s: float = Field(default=300.0, ge=0)
    """Shortest silence (no output, metrics, or tokens while requests run) that counts; 0: never stalled. A
    service without `metrics` may simply be idle: its output is only watched if this is set."""
    factor: float = Field(default=10.0, gt=1)
    """The silence must also be this many times the median pause between the component's signs of life."""
    dump: bool = True
    """Record its stacks with `py-spy dump`, if py-spy is installed."""


class ComponentSpec(TomlTable):
    """One supervised process tree."""

    id: ComponentId
    command: tuple[str, ...] = Field(min_length=1)
    """List of arguments, never a shell line. `{name}` is filled in by the framework; an argument that is
    just a placeholder may become several arguments, or none."""
    kind: Literal["service", "job"] = "job"
    """A service must not exit by itself; a job may end with code 0."""
    start: Literal["auto", "manual"] = "auto"
    """`manual`: only on request, such as an evaluation or a shell. Such a component is never part of the
    run or of a restart set, and only shown while it is running."""
    tty: bool = False
    """It gets a terminal of its own, for interactive programs: `rltui attach -c ID`; ctrl+] leaves. Its
    output is logged as well. It is never stalled, and never fails, whatever its exit code."""
    like: str = ""
    """Id of the component whose folder, variables and devices it uses, unless it has its own. It does not
    count as a user of these devices."""
    launches: tuple[str, ...] = ()
    """Programs that it starts itself, by their ids in other layouts: it reads what they read of the
    config."""
    cwd: str = "{workspace}"
    env: dict[str, str] = Field(default={})
    each: str = ""
    """One component per instance of this kind that the framework names, such as `env_servers`. The ids are
    `<id>-<instance>`; `{instance}` in its values is the name of the instance, also inside another
    placeholder. If the config names other instances later, use `rltui up --resume`. With `nodes` or
    `nodes.GROUP`, one per `[[node]]`, which runs there: `{rank}` is its number from 0, `{nodes}` their
    count, `{head.address}` the address of the first; they restart together."""
    gpus: str = ""
    """Its devices, written like `CUDA_VISIBLE_DEVICES` with the numbers of nvidia-smi; usually
    `{gpus.<id>}`. Empty: those of `CUDA_VISIBLE_DEVICES` in `env`, if set."""
    port: str = ""
    """TCP port it listens on; must be free before it starts. Usually `{port.<id>}`."""
    ports: tuple[str, ...] = ()
    """More ports that must be free before it starts, on the machine where it runs, such as those of a
    rendezvous or of vLLM's data-parallel RPC."""
    gpu_memory: str = ""
    """Makes it an inference engine: the fraction of the memory of each of its `gpus` that it takes and that
    must be free before it starts (vLLM's `gpu_memory_utilization`)."""
    wait_s: float = Field(default=60.0, ge=0)
    """How long a start waits for its port, its GPU memory and the leftovers of earlier attempts."""
    metrics: str = ""
    """URL of its Prometheus metrics, such as vLLM's `/metrics`; shows whether requests make progress."""
    after: tuple[ComponentId, ...] = ()
    """It starts after these services are ready and these jobs are done."""
    reads: tuple[str, ...] | None = None
    """The part of the config that it reads, for frameworks that do not say so (`generic`): config files, as
    in `{config.NAME}`, or keys and tables such as `trainer.lr` and `trainer`. An edit restarts only its
    readers. Default: the files that its own values name, or all files if no component names any."""
    progress: tuple[str, ...] = ()
    """Regular expressions for lines of its output, for the framework `generic`. `(?P<step>…)` is the step
    of the line; `reward`, `loss`, `tokens_per_s` and `step_time` are the headline figures; every other
    group is a metric of that name."""
    creates: str = ""
    """A path that this job makes. If it exists already, the job does not run."""
    check: tuple[str, ...] = ()
    """A command that must succeed within a minute before it starts, such as a check for a login. If it
    fails, its last line is the reason."""
    outcome: str = ""
    """Regular expression for the end of its output, once it has exited with 0: the last match is its
    result, such as the URL of an upload."""
    part_of_run: bool | None = None
    """Whether this job writes the run: ends with it, resumes from its checkpoints, makes restarts set files
    aside. Default: the jobs that the framework knows by their ids, or every job if it knows none of them."""
    ready: Ready | None = None
    node: str = ""
    """Name of the `[[node]]` on which it runs; `{instance}` with `each = "nodes"`. Empty: this machine."""
    slurm: SlurmSpec | None = None
    """It runs as a SLURM job."""
    pod: PodSpec | None = None
    """It runs in an existing Kubernetes pod."""
    forward: tuple[str, ...] = ()
    """Ports of this machine that are forwarded to it while it runs, `PORT` or `HERE:THERE`, if its node or
    pod cannot be reached otherwise; `ready` and `metrics` may use them."""
    stop: Stop = Stop()
    restart: Restart = Restart()
    stall: Stall = Stall()

    @model_validator(mode="after")
    def _has_one_host(self) -> ComponentSpec:
        names = [name for name in HOST_TABLES if getattr(self, name)]
        if len(names) > 1:
            raise ValueError(f"a component runs in one place: set only one of {', '.join(names)}")
        if self.is_remote and self.stop.leftovers == "keep":
            raise ValueError(
                'stop.leftovers = "keep" works on this machine only; elsewhere leftovers are always ended'
            )
        return self

    @property
    def is_remote(self) -> bool:
        """True if its processes run on another machine. A component with a terminal is the local command
        that leads there.
        """
        return not self.tty and any(getattr(self, name) for name in HOST_TABLES)

    @property
    def own_host(self) -> HostSpec | None:
        """The host that a table of its own describes."""
        tables = (getattr(self, name) for name in HOST_TABLES)
        return next((table for table in tables if isinstance(table, HostSpec)), None)

    @property
    def is_submitted(self) -> bool:
        """True if it is a job that waits in the queue of a cluster."""
        return self.own_host is not None and self.own_host.is_submitted

    @field_validator("outcome")
    @classmethod
    def _is_pattern(cls, text: str) -> str:
        return parse_pattern(text).pattern

    @field_validator("progress")
    @classmethod
    def _tell_steps(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for text in patterns:
            if "step" not in parse_pattern(text).groupindex:
                raise ValueError(f"{text!r} has no group (?P<step>…)")
        return patterns

    @model_validator(mode="after")
    def _starts_and_ends_alone(self) -> ComponentSpec:
        if not self.is_manual:
            return self
        if self.part_of_run or self.creates or self.restart.policy != "never":
            raise ValueError(
                'start = "manual" cannot be combined with part_of_run, creates or a restart policy'
            )
        return self

    @property
    def is_manual(self) -> bool:
        """Only a request that names it starts it."""
        return self.start == "manual"

    @property
    def templates(self) -> tuple[str, ...]:
        """The values that may hold placeholders."""
        ready = () if self.ready is None else (self.ready.http, self.ready.tcp, self.ready.file)
        single = (self.cwd, self.like, self.gpus, self.port, self.gpu_memory, self.metrics, self.creates)
        several = (*self.command, *self.check, *self.env.values(), *self.ports, *self.forward)
        several += () if self.own_host is None else self.own_host.templates
        return (*several, *single, *filter(None, ready))

    @field_validator("metrics")
    @classmethod
    def _is_address(cls, text: str) -> str:
        if text and "{" not in text and (fault := address_fault("metrics", text)):
            raise ValueError(fault)
        return text


class LogSpec(TomlTable):
    """A log file that no component prints; a pane follows it."""

    id: ComponentId
    files: tuple[str, ...] = Field(min_length=1)
    """Paths relative to the run's folder, with `*` and `?`. The first one with a match is used; of several
    files the newest is followed, even if it appears later."""
    title: str = ""

    @field_validator("files")
    @classmethod
    def _relative(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        if invalid := [name for name in files if not name or name.startswith("/")]:
            raise ValueError(f"{invalid[0]!r} is not a path inside the run's folder")
        return files


class GpuSourceSpec(TomlTable):
    """Another machine whose GPUs are shown with those of this one."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Name under which its GPUs are shown."""
    command: tuple[str, ...] = Field(min_length=1)
    """List of arguments that prints what `rltui gpus --json` prints, once (it runs again every 10 s) or,
    with `--watch`, one document per line. Never a shell line; placeholders as in components."""


class Screen(TomlTable):
    """Which panels the overview has, and where."""

    columns: tuple[tuple[str, ...], ...] = ()
    """Ids of components and logs, and the panels `gpus` and `knobs`, from top to bottom. Empty: components
    and logs left, panels right."""
    widths: tuple[str, ...] = ()
    """Width of each column, such as `2fr`."""
    ask_to_start: bool = True
    """If nothing is running yet, the screen asks whether to start everything."""


class Layout(TomlTable):
    """The keys of a layout file."""

    title: str = ""
    framework: str = ""
    """Id of the framework whose configs it runs. Empty: detected from the config, else `generic`."""
    run_dir: str = ""
    """Folder of the run, relative to the output folder, for programs that refuse a folder that is not
    empty. Empty: the output folder itself."""
    component: tuple[ComponentSpec, ...] = ()
    """Empty only if `log` panes watch a run that somebody else started."""
    log: tuple[LogSpec, ...] = ()
    gpu_source: tuple[GpuSourceSpec, ...] = ()
    node: tuple[NodeSpec, ...] = ()
    screen: Screen = Screen()

    @model_validator(mode="after")
    def _nodes_are_known(self) -> Layout:
        names = [node.name for node in self.node]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"node name {duplicates[0]!r} is used more than once")
        for spec in self.component:
            known_text = ", ".join(names) or "none; add a [[node]]"
            if spec.each.partition(".")[0] == _NODES and not self.nodes_of(spec.each):
                raise ValueError(f"component {spec.id!r} has each = {spec.each!r}, but no [[node]] matches")
            if spec.node and "{" not in spec.node and spec.node not in names:
                raise ValueError(
                    f"component {spec.id!r} runs on unknown node {spec.node!r}; known: {known_text}"
                )
            host = next((node for node in self.node if node.name == spec.node), None)
            if host is not None and spec.forward and host.reach[0].rpartition("/")[2] != "ssh":
                raise ValueError(f"component {spec.id!r}: forward requires a node reached by ssh")
        return self

    def node_values(self, component_id: str) -> dict[str, str]:
        """Values of the placeholders `node.NAME.address`, and of those of its own host, such as `workspace`
        and `python` as they are there.
        """
        host = self.host(component_id)
        addresses = {f"node.{node.name}.address": node.address or node.name for node in self.node}
        return {**addresses, **({} if host is None else host.placeholders)}

    def with_host_options(self, host_options: HostOptions) -> Layout:
        """The layout with the options of a command line for its hosts; lists are appended to its own.

        Raises:
            ValidationError: if one of them is no option of its kind of host.
        """
        if not host_options:
            return self

        def with_options(spec: ComponentSpec) -> ComponentSpec:
            host = spec.own_host
            if host is None or not (options := host_options.get(host.kind)):
                return spec
            key = next(key for key, table in HOST_TABLES.items() if isinstance(host, table))
            return spec.model_copy(update={key: host.with_given(options)})

        return self.model_copy(update={"component": tuple(map(with_options, self.component))})

    @property
    def run_here(self) -> tuple[ComponentSpec, ...]:
        """The automatic components whose programs are those of this machine."""
        return tuple(spec for spec in self.automatic if not spec.is_remote)

    @property
    def submits(self) -> bool:
        """True if some component of it is a job in the queue of a cluster."""
        return any(spec.is_submitted for spec in self.component)

    def nodes_of(self, selector: str) -> tuple[NodeSpec, ...]:
        """The nodes that `each = "nodes"` or `"nodes.GROUP"` selects; none for other words."""
        word, dot, group = selector.partition(".")
        return tuple(node for node in self.node if word == _NODES and (not dot or node.group == group))

    def host(self, component_id: str) -> HostSpec | None:
        """The host that the layout assigns; `None`: this machine."""
        spec = self[component_id]
        return next((node for node in self.node if node.name == spec.node), spec.own_host)

    @model_validator(mode="after")
    def _sources_have_names_of_their_own(self) -> Layout:
        names = [source.name for source in self.gpu_source]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"gpu_source name {repeated[0]!r} is used more than once")
        return self

    @model_validator(mode="after")
    def _references_exist(self) -> Layout:
        if not self.component and not self.log:
            raise ValueError("a layout needs at least one [[component]] or [[log]]")
        ids = [spec.id for spec in self.component]
        if repeated := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"component id {repeated[0]!r} is used more than once")
        for spec in self.component:
            if unknown := [name for name in spec.after if name not in ids]:
                raise ValueError(
                    f"component {spec.id!r} waits for unknown {unknown[0]!r}; known: {', '.join(ids)}"
                )
            if not spec.is_manual and (manual := [name for name in spec.after if self[name].is_manual]):
                raise ValueError(
                    f"component {spec.id!r} waits for {manual[0]!r}, which only starts on request"
                )
            if unknown := [name for name in spec.restart.together if name not in ids]:
                raise ValueError(
                    f"component {spec.id!r} restarts with unknown {unknown[0]!r}; known: {', '.join(ids)}"
                )
        if self.screen.widths and len(self.screen.widths) != len(self.screen.columns):
            raise ValueError(
                f"screen.widths has {len(self.screen.widths)} entries, "
                f"screen.columns {len(self.screen.columns)}"
            )
        logs = [spec.id for spec in self.log]
        if duplicates := sorted({name for name in logs if logs.count(name) > 1 or name in ids}):
            raise ValueError(f"log id {duplicates[0]!r} is used more than once")
        panels = {*ids, *logs, "gpus", "knobs"}
        for column in self.screen.columns:
            if unknown_panels := [name for name in column if name not in panels]:
                raise ValueError(
                    f"screen.columns names unknown {unknown_panels[0]!r}; known: {', '.join(sorted(panels))}"
                )
        self.start_order()
        return self

    def start_order(self) -> tuple[str, ...]:
        """Component ids, each after all that it waits for.

        Raises:
            ValueError: if components wait for each other in a circle.
        """
        order: list[str] = []
        waiting = {spec.id: set(spec.after) for spec in self.component}
        while waiting:
            startable = [name for name, needs in waiting.items() if needs <= set(order)]
            if not startable:
                raise ValueError(f"components wait for each other in a cycle: {', '.join(waiting)}")
            order.extend(startable)
            for name in startable:
                del waiting[name]
        return tuple(order)

    def needs(self, component_id: str) -> frozenset[str]:
        """Ids of its dependencies, direct and indirect."""
        after = self[component_id].after
        return frozenset(after).union(*(self.needs(name) for name in after))

    def run_jobs(self, roles: Collection[str]) -> frozenset[str]:
        """Jobs that write the run. `roles`: ids of such programs in the framework.

        A job that only creates something for the others is never one.
        """
        jobs = [spec for spec in self.automatic if spec.kind == "job" and not spec.creates]
        undecided = {spec.id: {spec.id, *spec.launches} for spec in jobs if spec.part_of_run is None}
        known_ids = {name for name, programs in undecided.items() if not programs.isdisjoint(roles)}
        return frozenset({spec.id for spec in jobs if spec.part_of_run} | (known_ids or undecided.keys()))

    @property
    def automatic(self) -> tuple[ComponentSpec, ...]:
        """Components that start with the experiment."""
        return tuple(spec for spec in self.component if not spec.is_manual)

    @property
    def panels(self) -> Panels:
        return Panels(
            screen=ScreenLayout(**self.screen.model_dump()),
            component_ids=tuple(spec.id for spec in self.automatic),
            log_ids=tuple(spec.id for spec in self.log),
        )

    @property
    def launched(self) -> Mapping[str, str]:
        """Program that is no component of its own → the component that starts it."""
        return {program: spec.id for spec in self.component for program in spec.launches}

    def restart_rules(self) -> tuple[tuple[frozenset[str], frozenset[str], str], ...]:
        """(if this restarts, these restart too, because …), from `restart.together`."""
        return tuple(
            (frozenset({spec.id}), frozenset(spec.restart.together), spec.restart.because)
            for spec in self.component
            if spec.restart.together
        )

    def __getitem__(self, component_id: str) -> ComponentSpec:
        """The component of that id; `KeyError` if there is none."""
        for spec in self.component:
            if spec.id == component_id:
                return spec
        raise KeyError(component_id)


_NODES = "nodes"
"""Value of `each` that selects the machines of the layout."""


def with_components(layout: Layout, components: Iterable[ComponentSpec]) -> Layout:
    """The layout, and at its end those `components` whose ids it does not use; of two with one id, the
    first.
    """
    taken_ids = {*(spec.id for spec in layout.component), *(spec.id for spec in layout.log)}
    new_components: dict[str, ComponentSpec] = {}
    for spec in components:
        if spec.id not in taken_ids:
            new_components.setdefault(spec.id, spec)
    if not new_components:
        return layout
    values = [spec.model_dump(exclude_unset=True) for spec in (*layout.component, *new_components.values())]
    return Layout.model_validate(layout.model_dump(exclude_unset=True) | {"component": values})
