"""The launch of a framework's programs: a record of functions, and the values that they return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltui.base.template import TemplateValue
from rltui.core.config.knobs import KnobValue
from rltui.core.experiment.plan import RestartRule
from rltui.frameworks.answers import no, no_items, no_values
from rltui.frameworks.inputs import ConfigFiles, RunContext

CONFIG = "config."
"""Prefix of placeholders of config files."""


@dataclass(frozen=True, slots=True)
class PortKnob:
    """A TCP port for which rltui may choose another, with an option on the command lines."""

    component: str
    """Component that listens on it; in words if several do."""
    knob: str
    """Name of the knob that holds it, which is also the name of the option."""
    port: int
    readers: tuple[str, ...]
    """Components whose command lines need the option."""
    by_option: bool = False
    """True: the readers get it as an option; else the framework's `resolutions` put it into their files."""
    more: tuple[int, ...] = ()
    """Further ports that must be free and move with it, as offsets above it."""


def standing(
    ports: Sequence[PortKnob], chosen: Mapping[str, int | str], instead_of: Mapping[str, int | str]
) -> dict[str, int | str]:
    """The values that rltui chose, by knob name, whose knob still has the value of that time.

    Once a person writes another value into the config, that one counts.
    """
    return {
        item.knob: chosen[item.knob]
        for item in ports
        if item.knob in chosen and instead_of.get(item.knob) == item.port
    }


@dataclass(frozen=True, slots=True)
class Resolution:
    """A recipe for files of the framework's programs, made from the files that a person wrote.

    rltui writes an edited copy of each config file as `<role>.toml` into an empty scratch folder, runs a
    command there, and stores its outputs. Never in the run's folder: some generations delete things there,
    even if they only resolve. Without a command the copies themselves are stored.
    """

    edits: Mapping[str, Mapping[str, KnobValue]]
    """Role → dotted key → value that the copy gets; `None` removes the key, or a whole table, and comes
    first. `{scratch}` in a text stands for the scratch folder."""
    outputs: Mapping[str, tuple[str, ...]]
    """Name → locations below the scratch folder at which the file may be, TOML or JSON: the first existing
    one counts. `*` in a file's name stands for one or more files, whose stems then follow the name:
    `env.train` and `envs/train/*.json` give `env.train.<stem>`; in a folder's, for the greatest number:
    `attempt_*`. Layouts refer to them as `{config.<name>}`.
    """
    commands: tuple[tuple[str, ...], ...] = ()
    """Argument lists after `RunContext.run`, tried in this order: a later one only if the previous one does
    not know an option (exit code 2). `{input.<role>}` stands for the copy of that file, `{scratch}` for
    the scratch folder. They run in the workspace.
    """
    optional: frozenset[str] = frozenset()
    """Names of outputs that may be missing."""
    unless_unknown: frozenset[str] = frozenset()
    """Keys of edits that not every generation has: without those that a refusal names, it is tried again."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Name → absolute path of another copy, for programs that look for one another's files in one folder;
    `*` as in `outputs`. Later attempts replace them.
    """
    folders: tuple[str, ...] = ()
    """Absolute paths of folders that its programs expect to exist."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Text → text, replaced in every string of the outputs, longest first: `{scratch}` → the real folder."""
    moves: str = ""
    """Dotted key of an edit to a whole number that may be another one by the start, such as the step to go
    on from, and that the outputs hold at the same key. If only it has changed, it is put into the
    existing outputs.
    """
    notes: tuple[str, ...] = ()
    """Unexpected effects of the edits, in words, for the journal."""
    unsupported: str = ""
    """Advice if the checkout knows the options of no command, or writes other files."""
    timeout_s: float = 180.0

    def is_many(self, output: str) -> bool:
        """Whether the output may be several files, each with its stem after the name."""
        return any("*" in location.rpartition("/")[2] for location in self.outputs[output])

    def makes(self, requested: Collection[str]) -> bool:
        """Whether one of the `requested` names is among its outputs."""
        return any(
            output in requested
            or (self.is_many(output) and any(name.startswith(f"{output}.") for name in requested))
            for output in self.outputs
        )


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """An HTTP request to a running service, before others start against it again."""

    component: str
    """The service; the call is left out if it is not alive."""
    url: str
    why: str
    """Purpose, for the journal: `resume paused engines`."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """JSON body of the POST request."""
    required: bool = False
    """A failed call fails the plan. Otherwise it is only reported: older servers may not know the route."""
    timeout_s: float = 60.0
    key_variable: str = ""
    """Environment variable with the key of its API."""


def common_values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
    """`python`, `run`, `workspace`, `output_dir`, `run_dir`, `name`, and `config.<role>` for each file."""
    return {
        "python": context.python,
        "run": context.run,
        "workspace": context.workspace,
        "output_dir": context.output_dir,
        "run_dir": context.run_folder,
        "name": context.name,
        **{f"{CONFIG}{role}": file.path for role, file in files.items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSide:
    """The answers about a start. The default is a framework whose programs get the values of the layout."""

    template_values: Callable[[ConfigFiles, RunContext], Mapping[str, TemplateValue]] = common_values
    """Values for the layout's placeholders: `config.<role>`, `port.<component>`, `gpus.<component>` …"""
    resolutions: Callable[[ConfigFiles, RunContext], Sequence[Resolution]] = no_items
    """Recipes for the config of each process. Only those with an output that a component's layout entry
    names are executed. Empty: the processes read the user's files (copies of them).
    """
    passed: Callable[[str, ConfigFiles, RunContext], Mapping[str, Mapping[str, KnobValue]]] = no_values
    """Role → dotted key → value that precedes the config's if a command has this placeholder."""
    instances: Callable[[ConfigFiles], Mapping[str, tuple[str, ...]]] = no_values
    """The instances for `each = "<name>"` in a layout, such as the env servers."""
    environment: Callable[[str, ConfigFiles, RunContext], Mapping[str, str]] = no_values
    """Environment variables that the framework's own launcher would set for a component, or that the
    config names. The layout's precede them.
    """
    ports: Callable[[ConfigFiles], tuple[PortKnob, ...]] = no_items
    """Ports for which another may be chosen if they are busy; not those that the config names twice."""
    service_calls: Callable[[ConfigFiles, RunContext], tuple[ServiceCall, ...]] = no_items
    """Calls to living services before the run's jobs start against them again."""
    restart_rules: Callable[[ConfigFiles], Sequence[RestartRule]] = no_items
    """Legal restarts with this config: applied until nothing changes. Empty: components restart alone,
    unless the layout says otherwise.
    """
    fresh_rules: Callable[[ConfigFiles], Sequence[RestartRule]] = no_items
    """Further rules for a run that begins again although steps were done: services hold the results of
    those.
    """
    asks_for_cluster: Callable[[ConfigFiles], bool] = no
    """The config itself says that the run is to be submitted to SLURM."""
