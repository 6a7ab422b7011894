"""The layout file: which components make an experiment, how they start and stop, what the screen shows."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

ComponentId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


def address_fault(name: str, text: str) -> str | None:
    """What is wrong with the filled-in `http`, `metrics` or `tcp`, and what to do; `None`: nothing."""
    is_url = name != "tcp"
    try:
        parts = urlsplit(text if is_url else f"tcp://{text}")
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        if known if is_url else parts.port:
            return None
    except ValueError:  # no port number
        pass
    example = "a URL such as http://127.0.0.1:8000/health" if is_url else "host:port, such as 127.0.0.1:8000"
    return f"{name} is {text!r}; use {example}"


class Section(BaseModel):
    """Base of the tables in a layout: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


PROBES = ("http", "tcp", "log", "file")
"""Ways to ask whether a component is ready."""


class Ready(Section):
    """When a component counts as ready. Without a probe: as soon as its process runs.

    Of several, whose placeholders may be empty, the first counts that is not.
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
    """A component that is not ready by then has failed, and is stopped."""

    @model_validator(mode="after")
    def _one_probe(self) -> Ready:
        probes = {name: text for name in PROBES if (text := getattr(self, name)) is not None}
        if not probes or (len(probes) > 1 and not all("{" in text for text in probes.values())):
            named = ", ".join(probes) or "none"
            raise ValueError(f"set exactly one of http, tcp, log, file (set: {named})")
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
            raise ValueError(f"{text!r} is no regular expression: {error}") from error
        return text


class Stop(Section):
    """How a component is asked to end."""

    signal: str = "SIGTERM"
    grace_s: float = Field(default=20.0, ge=0)
    """After this the whole tree gets SIGTERM, and seconds later SIGKILL."""
    leftovers: Literal["end", "keep"] = "end"
    """What becomes of processes that outlive an attempt which ended by itself: ended at once, or kept and
    listed until a person ends them. A stop on request always ends them."""

    @field_validator("signal")
    @classmethod
    def _known_signal(cls, name: str) -> str:
        if name not in signal.Signals.__members__:
            raise ValueError(f"unknown signal {name!r}; use a name such as SIGTERM or SIGINT")
        return name


class Restart(Section):
    """What is done when a component ends by itself."""

    policy: Literal["never", "on-failure", "always"] = "never"
    """`always` also starts a job again that ended with code 0. A config error or an out-of-memory error is
    never answered with another start."""
    backoff_s: tuple[float, float] = (1.0, 300.0)
    """First and longest pause before a start; each is twice the one before."""
    max_failures: int = Field(default=3, ge=1)
    """So many failures within `window_s` and it stays failed."""
    window_s: float = Field(default=3600.0, gt=0)
    healthy_s: float = Field(default=600.0, gt=0)
    """Having been ready for so long, earlier failures are forgiven."""
    together: tuple[ComponentId, ...] = ()
    """Living components that must restart when this one does, besides those that the framework names."""
    because: str = "the layout says so"
    """Why `together`, for the plan."""

    @field_validator("backoff_s")
    @classmethod
    def _rising(cls, pauses: tuple[float, float]) -> tuple[float, float]:
        if not 0 < pauses[0] <= pauses[1]:
            raise ValueError(f"backoff_s is {list(pauses)}; use [first, longest] in seconds, both above 0")
        return pauses


class Stall(Section):
    """When a living component counts as stalled."""

    silence_s: float = Field(default=300.0, ge=0)
    """Shortest silence (no output, metrics, or tokens while requests run) that counts; 0: never stalled.
    A service without `metrics` may just have nothing to do: its output is watched only where this is set."""
    factor: float = Field(default=10.0, gt=1)
    """A silence must also be so many times the median pause of the component's own signs of life."""
    dump: bool = True
    """Write down its stacks with `py-spy dump`, where py-spy is installed."""


class ComponentSpec(Section):
    """One supervised process tree."""

    id: ComponentId
    command: tuple[str, ...] = Field(min_length=1)
    """Argument list, never a shell line. `{name}` is filled from the framework; an argument that is
    nothing but one placeholder may become several arguments, or none."""
    kind: Literal["service", "job"] = "job"
    """A service must not exit by itself; a job may end with code 0."""
    launches: tuple[str, ...] = ()
    """Programs that it starts itself, by the ids they have as components elsewhere: what those read of the
    config, it reads."""
    cwd: str = "{workspace}"
    env: dict[str, str] = {}
    each: str = ""
    """One such component per instance that the framework names under this word, such as `env_servers`. The
    ids are `<id>-<instance>`, and `{instance}` in its values is the instance's name, also inside another
    placeholder. A config that names other instances later needs `rltui up --resume`."""
    gpus: str = ""
    """Its devices, in the grammar of `CUDA_VISIBLE_DEVICES`, numbers as NVML has them; usually `{gpus.<id>}`.
    Empty: those that its `CUDA_VISIBLE_DEVICES` in `env` names, if any."""
    port: str = ""
    """TCP port it listens on; must be free before it starts. Usually `{port.<id>}`."""
    gpu_memory: str = ""
    """Makes it an inference engine: the fraction of the memory of each of its `gpus` that it takes, and that
    must be free before it starts (vLLM's `gpu_memory_utilization`)."""
    wait_s: float = Field(default=60.0, ge=0)
    """How long a start waits for its port, its GPU memory and the leftovers of earlier attempts."""
    metrics: str = ""
    """URL of its Prometheus metrics, such as vLLM's `/metrics`; shows whether requests make progress."""
    after: tuple[ComponentId, ...] = ()
    """Waits until these services are ready and these jobs are done."""
    reads: tuple[str, ...] | None = None
    """What of the config it reads, for frameworks that do not say (`generic`): names of config files, as in
    `{config.NAME}`, or keys and tables such as `trainer` and `trainer.lr`. An edit restarts only its readers.
    Left out: the files that its own values name, or all where no component names any."""
    progress: tuple[str, ...] = ()
    """Regular expressions for lines of its output, for the framework `generic`. `(?P<step>…)` is the step
    that the line reports on, `reward`, `loss`, `tokens_per_s` and `step_time` are the headline figures, any
    other group is a metric under its own name."""
    creates: str = ""
    """A path this job makes. Where it exists already, the job is not run."""
    part_of_run: bool | None = None
    """Whether this job writes the run: ends with it, resumes from its checkpoints, is why files move aside.
    Left out: those jobs that the framework knows by their ids; where it knows none of them, every job."""
    ready: Ready | None = None
    stop: Stop = Stop()
    restart: Restart = Restart()
    stall: Stall = Stall()

    @field_validator("progress")
    @classmethod
    def _tell_steps(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                groups = re.compile(pattern).groupindex
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
            if "step" not in groups:
                raise ValueError(f"{pattern!r} has no group (?P<step>…)")
        return patterns

    @property
    def templates(self) -> tuple[str, ...]:
        """Its values that may hold placeholders."""
        ready = () if self.ready is None else (self.ready.http, self.ready.tcp, self.ready.file)
        single = (self.cwd, self.gpus, self.port, self.gpu_memory, self.metrics, self.creates)
        return (*self.command, *self.env.values(), *single, *filter(None, ready))

    @field_validator("metrics")
    @classmethod
    def _is_address(cls, text: str) -> str:
        if text and "{" not in text and (fault := address_fault("metrics", text)):
            raise ValueError(fault)
        return text


class LogSpec(Section):
    """A log file that no component of the experiment prints: a pane follows it."""

    id: ComponentId
    files: tuple[str, ...] = Field(min_length=1)
    """Paths relative to the run's folder, with `*` and `?`. The first that leads to a file counts; of several
    files, the newest is followed, also when it appears later."""
    title: str = ""

    @field_validator("files")
    @classmethod
    def _relative(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        if strange := [name for name in files if not name or name.startswith("/")]:
            raise ValueError(f"{strange[0]!r} is no path below the run's folder")
        return files


class GpuSourceSpec(Section):
    """Another machine whose GPUs are shown beside those of this one."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """What its GPUs are shown under."""
    command: tuple[str, ...] = Field(min_length=1)
    """Argument list that prints what `rltui gpus --json` prints, once (it is run again every 10 s) or, with
    `--watch`, a document per line. Never a shell line; placeholders as in components."""


class Screen(Section):
    """What the overview shows."""

    columns: tuple[tuple[str, ...], ...] = ()
    """Ids of components and logs, and the panels `gpus` and `knobs`, top to bottom.
    Empty: all components and logs left, panels right."""
    widths: tuple[str, ...] = ()
    """One Textual size per column, such as `2fr`."""


class Layout(Section):
    """A whole layout file."""

    title: str = ""
    framework: str = ""
    """Id of the framework whose configs it runs. Empty: the config tells; `generic` where none knows it."""
    run_dir: str = ""
    """The folder that the framework writes the run into, relative to the output folder: for programs that
    refuse a folder in which something lies already. Empty: the output folder itself."""
    component: tuple[ComponentSpec, ...] = ()
    """Empty only where `log` panes observe a run that somebody else started."""
    log: tuple[LogSpec, ...] = ()
    gpu_source: tuple[GpuSourceSpec, ...] = ()
    screen: Screen = Screen()

    @model_validator(mode="after")
    def _sources_have_names_of_their_own(self) -> Layout:
        names = [source.name for source in self.gpu_source]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"gpu_source name {repeated[0]!r} is used more than once")
        return self

    @model_validator(mode="after")
    def _references_exist(self) -> Layout:
        if not self.component and not self.log:
            raise ValueError("name at least one [[component]], or a [[log]] to follow")
        ids = [spec.id for spec in self.component]
        if repeated := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"component id {repeated[0]!r} is used more than once")
        for spec in self.component:
            if unknown := [name for name in spec.after if name not in ids]:
                raise ValueError(
                    f"component {spec.id!r} waits for unknown {unknown[0]!r}; known: {', '.join(ids)}"
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
        if twice := sorted({name for name in logs if logs.count(name) > 1 or name in ids}):
            raise ValueError(f"log id {twice[0]!r} is used more than once")
        panels = {*ids, *logs, "gpus", "knobs"}
        for column in self.screen.columns:
            if strange := [name for name in column if name not in panels]:
                raise ValueError(
                    f"screen.columns names unknown {strange[0]!r}; known: {', '.join(sorted(panels))}"
                )
        self.start_order()
        return self

    def start_order(self) -> tuple[str, ...]:
        """Component ids so that each comes behind all it waits for.

        Raises:
            ValueError: if components wait for each other in a circle.
        """
        order: list[str] = []
        waiting = {spec.id: set(spec.after) for spec in self.component}
        while waiting:
            free = [name for name, needs in waiting.items() if needs <= set(order)]
            if not free:
                raise ValueError(f"components wait for each other in a circle: {', '.join(waiting)}")
            order.extend(free)
            for name in free:
                del waiting[name]
        return tuple(order)

    def needs(self, component_id: str) -> frozenset[str]:
        """What it waits for, at first or second hand."""
        after = self[component_id].after
        return frozenset(after).union(*(self.needs(name) for name in after))

    def run_jobs(self, roles: Collection[str]) -> frozenset[str]:
        """Jobs that write the run. `roles`: ids that the framework knows such programs by.

        A job that only makes something the others need is never one.
        """
        jobs = [spec for spec in self.component if spec.kind == "job" and not spec.creates]
        undecided = {spec.id: {spec.id, *spec.launches} for spec in jobs if spec.part_of_run is None}
        known = {name for name, programs in undecided.items() if not programs.isdisjoint(roles)}
        return frozenset({spec.id for spec in jobs if spec.part_of_run} | (known or undecided.keys()))

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
        """The component of that id; `KeyError` where there is none."""
        for spec in self.component:
            if spec.id == component_id:
                return spec
        raise KeyError(component_id)
