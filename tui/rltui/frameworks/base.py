"""The interface of a framework: a class whose methods have defaults, and the values that they return."""

# ruff: noqa: ARG002 - defaults look at nothing that they are given

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltui.core.batch import BatchKnobs
from rltui.core.bottleneck import BottleneckKnobs
from rltui.core.config_data import value_at
from rltui.core.config_report import DerivedValue, Problem
from rltui.core.config_schema import ConfigSchema
from rltui.core.failure_cause import FailurePattern
from rltui.core.json_schema import Json
from rltui.core.knobs import Knob, KnobValue
from rltui.core.layout import Layout
from rltui.core.plan import RestartRule
from rltui.core.servers import ServerAddress
from rltui.core.template import Missing, TemplateValue
from rltui.errors import UsageError
from rltui.frameworks.evaluation import Evaluation
from rltui.frameworks.failures import COMMON
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, Parsed, RunContext
from rltui.frameworks.progress import Progress
from rltui.frameworks.run_settings import RunFiles, RunSettings


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


@dataclass(frozen=True, slots=True)
class Checkout:
    """Identification of the user's own checkout of the framework."""

    project: str
    """`name` in the `[project]` table of its `pyproject.toml`."""
    variable: str
    """Environment variable that names the folder: `RLTUI_PRIME_RL`."""
    programs: tuple[str, ...]
    """Console scripts. If all are on the path and there is no checkout, they are run from there."""
    generations: tuple[tuple[str, str], ...] = ()
    """(path in the tree, id of the framework that a checkout with it is), newest first; the first that exists
    counts."""
    dependents: tuple[str, ...] = ()
    """Names of packages: a project that depends on one of them counts as a checkout too."""
    lacking: Callable[[Mapping[str, str]], str] | None = None
    """Takes the versions of all installed packages, returns the reason why they lack such programs; empty if
    they have them.
    """
    instead: str = ""
    merges_tables: str = ""
    """Path in the tree whose programs do not merge several config files key by key: a later file replaces
    whole tables.
    """
    traits: tuple[tuple[str, str, str], ...] = ()
    """(name, path in the tree, text that stands in that file): abilities of its own programs in which
    releases differ.
    """


@dataclass(frozen=True, slots=True)
class ConfigModels:
    """Locations of the framework's own config models, for a query in its interpreter."""

    models: Mapping[str, tuple[str, ...]]
    """Role → possible locations of its model, as `module:Class`, newest first; the first that can be
    imported counts. `package/folder/file.py:Class`: without the imports of its package.
    """
    sources: tuple[str, ...] = ()
    """Patterns of the files below the checkout that define the models."""
    packages: tuple[str, ...] = ()
    """Packages whose versions are reported, if they are installed."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Role → table of its file that the model describes, if that is not the whole file."""
    stand_ins: str = ""
    """Absolute path of a program's file, whose `stand_ins(model)` is a context in which packages that a
    config asks for may be missing; it gives the reasons. Empty: there is none.
    """


@dataclass(frozen=True, slots=True)
class Converted:
    text: str
    """The config as TOML."""
    notes: tuple[str, ...]
    """Keys that have no counterpart there, or mean something else, in words."""


class Framework:
    """All knowledge of one RL framework, in one of its generations if those differ. `run`, `gpu_needs`,
    `evaluation` and `progress` are parts with modules of their own.

    A subclass overrides the differences from this default: a framework that is only chosen by name, whose
    configs say nothing, and whose programs get the values of the layout.
    """

    id: str
    title: str
    generation_title: str = ""
    """The title, if it is a generation of a framework; empty: that has only one."""
    layouts: Mapping[str, str] = {}
    """Role → name of the shipped layout that runs a config with such a file; the first role present wins."""
    cluster_layouts: Mapping[str, str] = {}
    """Role → name of the shipped layout that runs it as SLURM jobs; the first role present wins."""
    job_on_one_gpu: tuple[str, ...] = ()
    """Options with which the launcher that writes a job's script has all components share one GPU."""
    run_roles: frozenset[str] = frozenset()
    """Layout ids of the programs that write the run. Others are not part of it, unless the layout says so."""
    resume_keys: tuple[str, ...] = ()
    """Dotted keys, in any file, that name the checkpoint to continue from."""
    resume_elsewhere: tuple[str, ...] = ()
    """Dotted keys that place that checkpoint outside the run's own folder."""
    required: tuple[frozenset[str], ...] = ()
    """Roles without which nothing can be run: all of one of these sets, the default one first."""
    companions: Mapping[str, str] = {}
    """Further files that are read if they lie in the folder of the config: role → file name."""
    checkout: Checkout | None = None
    config_models: ConfigModels | None = None
    own_packages: tuple[str, ...] = ()
    """Packages that its programs need in the interpreter of rltui, which runs them."""
    files: RunFiles = RunFiles()
    """Locations of a run's own files, if nothing is known of its config."""
    progress: Progress = Progress()
    failures: Sequence[FailurePattern] = COMMON
    signs: tuple[str, ...] = ()
    """Names in the output folder, with `/` and wildcards, any of which shows that this framework wrote a run
    there.
    """

    # --- detection, and what else decides about the answers ---

    def role(self, path: str, data: Mapping[str, Any]) -> str | None:
        """The role of a file with this content, `None` if it is none of this framework's."""
        return None

    def fit(self, parsed: Parsed) -> int | None:
        """Number of keys of the files that it does not know; `None`: they are not for it."""
        return None

    def with_schemas(self, schemas: Mapping[str, ConfigSchema]) -> Framework:
        """The same framework for files that will be read with these schemas, by role."""
        return self

    def fitted(self, layout: Layout) -> Framework:
        """The same framework with facts that only the layout tells."""
        return self

    def schema_dates(self, files: ConfigFiles) -> tuple[str, ...]:
        """Dates of the shipped schemas that the files are checked by, in words, the newest first; empty where
        the program that reads them reported its own.
        """
        return ()

    def asks_for_cluster(self, files: ConfigFiles) -> bool:
        """The config itself says that the run is to be submitted to SLURM."""
        return False

    def sent_to(self, urls: Sequence[str], *, is_lent: bool = False) -> Framework:
        """The same framework for a run that is to use the inference servers at these addresses, whatever its
        config says.

        `is_lent`: another experiment's on this machine, such as the config would start itself.

        Raises:
            UsageError: if it is unknown how to send its programs there.
        """
        raise UsageError(
            f"cannot send a run of {self.title} to the inference server at {' and '.join(urls)}",
            hint="set the address in its own config, and remove its inference server from the layout",
        )

    def file_schema(self, role: str, document: Json) -> Json:
        """The schema of a whole file, from the one of its model that `config_models` return."""
        return document

    # --- what the config files say ---

    def merges_deeply(self, data: Mapping[str, Any]) -> bool:
        """Whether its programs merge several files with such content key by key, rather than table by table;
        used if no checkout tells.
        """
        return True

    def none_text(self, file: ConfigFile) -> str | None:
        """The text that stands for no value if that is not the default; `None`: no text does."""
        return None

    def knobs(self, files: ConfigFiles) -> tuple[Knob, ...]:
        """Every value that can be set in these files, those that are turned from day to day first."""
        return ()

    def renamed(self, files: ConfigFiles) -> Mapping[str, str]:
        """Dotted key of another generation → explanation for a person who uses it here."""
        return {}

    def defaults(self, files: ConfigFiles) -> Mapping[str, Any]:
        """Knob name → default that follows from other values; it precedes `Knob.default`."""
        return {}

    def check(self, files: ConfigFiles) -> tuple[Problem, ...]:
        """Types, bounds, unknown keys and cross-knob rules. `Problem.file` is the file's path."""
        return ()

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        """Derived values of a step. Empty while a value has a wrong type or is out of bounds."""
        return ()

    def batch_knobs(self, files: ConfigFiles) -> BatchKnobs | None:
        return None

    def bottleneck_knobs(self, files: ConfigFiles) -> BottleneckKnobs:
        return BottleneckKnobs()

    def inference_servers(self, files: ConfigFiles) -> tuple[ServerAddress, ...]:
        """The inference servers that the run uses and somebody else runs; none if it has its own.

        Raises:
            ConfigError: if the config names no address.
        """
        return ()

    def weights_by(self, files: ConfigFiles) -> str:
        """Transport of new weights to the inference server, which is configured for it; empty if it accepts
        any.
        """
        return ""

    def advice(self, files: ConfigFiles) -> Mapping[str, str]:
        """Id of a health rule → advice for this config, in words."""
        return {}

    def external(self, files: ConfigFiles) -> tuple[str, ...]:
        """Components of layouts that somebody else runs, or nobody. Raises like `inference_servers`."""
        return ("inference",) if self.inference_servers(files) else ()

    @property
    def run(self) -> RunSettings:
        return RunSettings(self.files)

    @property
    def gpu_needs(self) -> GpuNeeds:
        return GpuNeeds()

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation(self.title)

    # --- how it is run ---

    def template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """Values for the layout's placeholders: `config.<role>`, `port.<component>`, `gpus.<component>` …"""
        return {}

    def resolutions(self, files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
        """Recipes for the config of each process. Only those with an output that a component's layout entry
        names are executed. Empty: the processes read the user's files (copies of them).
        """
        return ()

    def passed(
        self, placeholder: str, files: ConfigFiles, context: RunContext
    ) -> Mapping[str, Mapping[str, KnobValue]]:
        """Role → dotted key → value that precedes the config's if a command has this placeholder."""
        return {}

    def instances(self, files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
        """The instances for `each = "<name>"` in a layout, such as the env servers."""
        return {}

    def environment(self, component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
        """Environment variables that the framework's own launcher would set for a component, or that the
        config names. The layout's precede them.
        """
        return {}

    def ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        """Ports for which another may be chosen if they are busy; not those that the config names twice."""
        return ()

    def service_calls(self, files: ConfigFiles, context: RunContext) -> tuple[ServiceCall, ...]:
        """Calls to living services before the run's jobs start against them again."""
        return ()

    def weights_reset(
        self, files: ConfigFiles, context: RunContext, root: str
    ) -> ServiceCall | Missing | None:
        """Call to a server that was trained with before another run begins with it, at `root`; `None` if the
        run itself resets it, `Missing` if nothing does.
        """
        return None

    def names_model(self, key: str) -> bool:
        """Return whether the value of the dotted key is the model that a run begins with."""
        return key == "model" or f".{key}".endswith(".model.name")

    def restart_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        """Legal restarts with this config: applied until nothing changes. Empty: components restart alone,
        unless the layout says otherwise.
        """
        return ()

    def fresh_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        """Further rules for a run that begins again although steps were done: services hold the results of
        those.
        """
        return ()

    def converted(self, files: ConfigFiles, to: Framework) -> Converted | None:
        """The equivalent config for another framework; `None` if that is unknown, or a value is faulty."""
        return None


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


def values_of(knobs: Iterable[Knob], files: ConfigFiles, framework: Framework) -> dict[str, Any]:
    """Knob name → effective value in `files`; `None` for a knob that these files cannot have."""
    known_knobs = {knob.name: knob for knob in framework.knobs(files)}
    defaults = framework.defaults(files)
    values: dict[str, Any] = {}
    for knob in knobs:
        own_value = value_at(files[knob.file].data, knob.key) if knob.file in files else None
        default = known_knobs[knob.name].default if knob.name in known_knobs else None
        values[knob.name] = own_value if own_value is not None else defaults.get(knob.name, default)
    return values
