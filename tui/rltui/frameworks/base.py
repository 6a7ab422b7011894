"""What a framework module answers. A module is one frozen `Framework` value plus pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rltui import paths
from rltui.core.config_data import edited, value_at
from rltui.core.config_report import DerivedValue, Problem
from rltui.core.config_schema import ConfigSchema
from rltui.core.failure_cause import FailurePattern
from rltui.core.gpu.budget import EngineMemory
from rltui.core.knobs import Knob, KnobValue
from rltui.core.metrics import MetricNames
from rltui.core.plan import RestartRule
from rltui.core.template import Missing, TemplateValue
from rltui.frameworks.failures import COMMON


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One parsed TOML file. `path` is absolute."""

    role: str
    """What the file is to its framework: `rl`, `sft` …"""
    path: str
    data: Mapping[str, Any]
    passed: Mapping[str, Any] = field(default_factory=dict)
    """Of the copy that a component was started with: dotted key → value that it got in place of the file's;
    `None` stands for a key that was taken out."""


ConfigFiles = Mapping[str, ConfigFile]
"""By role."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the command templates need besides the config."""

    workspace: str
    """Absolute folder in which components run."""
    output_dir: str
    """Absolute."""
    python: str
    """Interpreter of rltui itself."""
    name: str = "run"
    """The experiment's name."""
    run_dir: str = ""
    """Absolute folder that the framework writes this run into; empty: `output_dir`."""
    run: tuple[str, ...] | Missing = ()
    """What goes before the framework's own programs: `uv run`, `uv run --project DIR`, or nothing where
    they are on the path."""
    run_id: str = ""
    """Stays the same from the beginning of a run over all its resumes; empty outside a running experiment."""
    resolved: Mapping[str, str] = field(default_factory=dict)
    """By name, such as `trainer`: absolute path of the file that the framework made from the config for it;
    empty where nothing was resolved."""
    made: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the same names, what those files hold."""
    resume_step: int | None = None
    """Checkpoint to continue from; `None` starts from the beginning."""
    overrides: Mapping[str, int | str] = field(default_factory=dict)
    """By knob name, values that rltui chose for this experiment; they go before those of the config."""
    cuda_devices: tuple[str, ...] = ()
    """Devices that a process started now would see as `cuda:0`, `cuda:1` …, named as in
    `CUDA_VISIBLE_DEVICES`. Empty where there is no GPU, or the interpreter's torch cannot use one."""
    devices: tuple[str, ...] = ()
    """The same devices, whatever this interpreter's torch can do: for programs with an interpreter of their
    own. By NVML's number where numbers count so (older vLLM cannot read UUIDs), else by UUID."""

    @property
    def run_folder(self) -> str:
        """Where the framework writes this run."""
        return self.run_dir or self.output_dir

    @property
    def own_folder(self) -> str:
        """Rltui's own for this experiment."""
        return f"{self.output_dir}/{paths.STATE_FOLDER}"


@dataclass(frozen=True, slots=True)
class PortKnob:
    """A TCP port for which rltui may choose another, with an option on the command lines."""

    component: str
    """Listens on it; in words where several do."""
    knob: str
    """Name of the knob that holds it, which is also the name of the option."""
    port: int
    """What the config says."""
    readers: tuple[str, ...]
    """Components whose command lines need the option."""
    by_option: bool = True
    """False: the framework's `resolutions` put it into the files that are made; no option is needed."""
    more: tuple[int, ...] = ()
    """Further ports that must be free and move with it, by how much they are above."""


def figure(name: str, value: float | str | None, unit: str = "", text: str = "") -> DerivedValue:
    """A derived figure; `text` is the arithmetic in words."""
    return DerivedValue(name=name, value=value, unit=unit, text=text)


@dataclass(frozen=True, slots=True)
class Resolution:
    """How files for the framework's programs are made out of what a person wrote.

    rltui writes an edited copy of each config file as `<role>.toml` into an empty scratch folder, runs a
    command there, and keeps what it made. Never in the run's folder: some generations delete things there,
    even when they only resolve. Without a command the copies themselves are kept.
    """

    edits: Mapping[str, Mapping[str, KnobValue]]
    """Role → dotted key → value that the copy gets; `None` removes the key, or a whole table, and comes
    first. `{scratch}` in a text stands for the scratch folder."""
    outputs: Mapping[str, tuple[str, ...]]
    """Name → where below the scratch folder a file that it makes may be, TOML or JSON: the first place at
    which there is one counts. `*` in a file's name stands for one or more files, whose stems then follow the
    name: `env.train` and `envs/train/*.json` give `env.train.<stem>`; in a folder's, for the greatest number:
    `attempt_*`. Layouts ask for them as `{config.<name>}`."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Argument lists behind `RunContext.run`, tried in this order: a later one only where the one before does
    not know an option (exit code 2). `{input.<role>}` stands for the copy of that file, `{scratch}` for the
    scratch folder. They run in the workspace."""
    optional: frozenset[str] = frozenset()
    """Names of outputs that need not be there."""
    unless_unknown: frozenset[str] = frozenset()
    """Keys of edits that not every generation has: without those that a refusal names, it is tried again."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Name → absolute path of another copy, for programs that look for one another's files beside it; `*` as
    in `outputs`. Later attempts put theirs in its place."""
    folders: tuple[str, ...] = ()
    """Absolute paths of folders that its programs expect to be there."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Text → text, replaced in every string of the outputs, longest first: `{scratch}` → the real folder."""
    notes: tuple[str, ...] = ()
    """What the edits change that a person may not expect, in words, for the journal."""
    unsupported: str = ""
    """What to do where the checkout knows the options of no command, or writes other files."""
    timeout_s: float = 180.0


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """An HTTP request to a service that stays, before others start against it again."""

    component: str
    """The service; the call is left out where that is not alive."""
    url: str
    why: str
    """For the journal: `resume paused engines`."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Sent as JSON by POST."""
    required: bool = False
    """A failed call fails the plan. Else it is only told: older servers may not know the route."""
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class BatchKnobs:
    """Names of the knobs that decide how many rollouts make a batch, for the token-batch converter."""

    batch_size: str
    token_batch_size: str
    """Empty where a batch is always a number of rollouts."""
    group_size: str
    seq_len: str
    inflight: str | None = None
    """Needed beside `token_batch_size`; `None` where the framework finds that out by itself."""
    oversampling: str | None = None
    """In flight = batch_size * this; only allowed beside `batch_size`."""
    token_metric: str = ""
    """Metric whose value per step is the mean number of tokens of an accepted rollout."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """How the user's own checkout of the framework is found."""

    project: str
    """`name` in the `[project]` table of its `pyproject.toml`."""
    variable: str
    """Environment variable that names the folder: `RLTUI_PRIME_RL`."""
    programs: tuple[str, ...]
    """Its programs. Where all are on the path and there is no checkout, they are run from there."""
    generations: tuple[tuple[str, str], ...] = ()
    """(path in the tree, id of the framework that a checkout with it is), newest first; the first that exists
    counts."""


@dataclass(frozen=True, slots=True)
class OwnValidation:
    """How the framework's own config models are asked, in its interpreter."""

    models: Mapping[str, tuple[str, ...]]
    """Role → where its model may be, as `module:Class`, newest first; the first that can be imported
    counts."""
    sources: tuple[str, ...] = ()
    """Patterns of the files below the checkout that the models are made of."""
    packages: tuple[str, ...] = ()
    """Whose versions are told, where they are installed."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure for a pane's title, from the metrics file."""

    component: str
    metric: str
    template: str
    """Filled with the value: `{:.1f} s/step`."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where a run's files appear, relative to the output folder."""

    metrics: tuple[str, ...] = ("metrics.jsonl",)
    """Where the metrics may be: the first place that exists counts. JSONL rows with `step`, which may be
    null, and `time`; several rows a step, the last value of a key wins."""
    checkpoints: str = "checkpoints"
    """Folder of `step_<N>` folders."""
    checkpoint_marker: str = "STABLE"
    """File in a checkpoint's folder that makes it complete; empty: only `checkpoint_parts` count."""
    checkpoint_parts: tuple[str, ...] = ()
    """Paths, relative to the run's folder, that must all exist for a checkpoint to be complete; `{step}` is
    its step."""
    first_step: int = 1
    """Number of the first training step. Counted from 0, checkpoint N comes before step N; counted from 1,
    behind it."""
    stale_batches: tuple[str, ...] = ()
    """Folders of `step_<N>` folders named for training steps: a resume moves those of the steps to come
    aside."""
    stale_always: tuple[str, ...] = ()
    """Folders of `step_<N>` folders of which none may outlive a restart of the run's jobs."""
    artifacts: tuple[str, ...] = ("metrics.jsonl", "checkpoints", "rollouts", "broadcasts", "weights")
    """Any of these means: this folder holds an earlier run."""
    beats: Mapping[str, str] = field(default_factory=dict)
    """Component → file that it writes whenever it has done a step."""
    stale_after_resume: tuple[str, ...] = ()
    """Folders of `step_<N>` folders that must not outlive a resume: those beyond the step are moved aside."""


def no_fit(parsed: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """A framework that is only chosen by name."""
    del parsed


def no_problems(files: ConfigFiles) -> tuple[Problem, ...]:
    """A framework without rules."""
    del files
    return ()


def nothing_derived(files: ConfigFiles) -> tuple[DerivedValue, ...]:
    """A framework without derived figures."""
    del files
    return ()


def no_knobs(files: ConfigFiles) -> tuple[Knob, ...]:
    """A framework without knobs."""
    del files
    return ()


def no_defaults(files: ConfigFiles) -> Mapping[str, Any]:
    """A framework whose defaults do not depend on the files."""
    del files
    return {}


def no_restart_rules(files: ConfigFiles) -> Sequence[RestartRule]:
    """A framework whose components restart alone, unless the layout says otherwise."""
    del files
    return ()


def no_ports(files: ConfigFiles) -> tuple[PortKnob, ...]:
    """A framework whose ports are what the config says."""
    del files
    return ()


def no_resolutions(files: ConfigFiles, context: RunContext) -> tuple[Resolution, ...]:
    """A framework whose programs read what a person wrote."""
    del files, context
    return ()


def no_instances(files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
    """A framework whose layouts name every component."""
    del files
    return {}


def no_calls(files: ConfigFiles, context: RunContext) -> tuple[ServiceCall, ...]:
    """A framework whose services need nothing said."""
    del files, context
    return ()


def no_environment(component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
    """A framework whose programs get what the layout says."""
    del component, files, context
    return {}


def nothing_passed(
    placeholder: str, files: ConfigFiles, context: RunContext
) -> Mapping[str, Mapping[str, KnobValue]]:
    """A framework whose programs are told by edited copies of the config, or not at all."""
    del placeholder, files, context
    return {}


def no_rows(component: str, line: str) -> None:
    """A framework that writes its metrics to a file."""
    del component, line


def no_engine(files: ConfigFiles) -> EngineMemory | None:
    """A framework whose configs say nothing of an inference engine."""
    del files
    return None


def nothing_configured(files: ConfigFiles) -> None:
    """A framework whose config does not say."""
    del files


@dataclass(frozen=True, slots=True)
class Framework:
    """Everything we know of one RL framework in one of its generations."""

    id: str
    title: str
    layouts: Mapping[str, str]
    """Role → name of the shipped layout that runs a config with such a file; the first role that is there
    counts."""
    roles: Callable[[str, Mapping[str, Any]], str | None]
    """The role of a file (path, content), `None` if it is none of this framework's: detection."""
    template_values: Callable[[ConfigFiles, RunContext], Mapping[str, TemplateValue]]
    """Values for the layout's placeholders: `config.<role>`, `port.<component>`, `gpus.<component>` …"""
    with_schemas: Callable[[Mapping[str, ConfigSchema]], Framework] | None = None
    """The same, but for files that will be read with these schemas, by role."""
    fit: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], int | None] = no_fit
    """How many keys of some files (path, content) it does not know; `None`: they are not for it."""
    knobs: Callable[[ConfigFiles], tuple[Knob, ...]] = no_knobs
    """Every value that can be set in these files, those that are turned from day to day first."""
    run_roles: frozenset[str] = frozenset()
    """Ids that the programs which write the run have in layouts. Others are not part of it, unless the layout
    says so."""
    resume_keys: tuple[str, ...] = ()
    """Dotted keys, in whatever file, that name the checkpoint to continue from."""
    resume_elsewhere: tuple[str, ...] = ()
    """Dotted keys with which that is no checkpoint in the run's own folder."""
    renamed: Callable[[ConfigFiles], Mapping[str, str]] = no_defaults
    """By dotted key of other generations: what to say to who asks for it here."""
    defaults: Callable[[ConfigFiles], Mapping[str, Any]] = no_defaults
    """Defaults that follow from other values, by knob name; they go before `Knob.default`."""
    required: tuple[frozenset[str], ...] = ()
    """Roles without which nothing can be run: all of one of these sets, the usual one first."""
    check: Callable[[ConfigFiles], tuple[Problem, ...]] = no_problems
    """Types, bounds, unknown keys and cross-knob rules. `Problem.file` is the file's path."""
    derive: Callable[[ConfigFiles], tuple[DerivedValue, ...]] = nothing_derived
    companions: Mapping[str, str] = field(default_factory=dict)
    """Further files that are read when they lie beside the config: role → file name."""
    restart_rules: Callable[[ConfigFiles], Sequence[RestartRule]] = no_restart_rules
    """Which restarts are legal with this config: applied until nothing changes."""
    fresh_rules: Callable[[ConfigFiles], Sequence[RestartRule]] = no_restart_rules
    """Further rules for a run that begins anew although steps were done: services hold what came of those."""
    ports: Callable[[ConfigFiles], tuple[PortKnob, ...]] = no_ports
    """Ports that may be chosen anew where they are busy; not those that the config names twice."""
    output_dir: Callable[[ConfigFiles], str | None] = nothing_configured
    """The output folder that the config names, relative to the workspace."""
    max_steps: Callable[[ConfigFiles], int | None] = nothing_configured
    resolutions: Callable[[ConfigFiles, RunContext], Sequence[Resolution]] = no_resolutions
    """How the config of each process comes to be. Only those are carried out whose outputs a component's
    layout entry asks for. None: they read the user's files (copies of them)."""
    instances: Callable[[ConfigFiles], Mapping[str, tuple[str, ...]]] = no_instances
    """For `each = "<name>"` in a layout: the instances there are, such as the names of the env servers."""
    service_calls: Callable[[ConfigFiles, RunContext], tuple[ServiceCall, ...]] = no_calls
    """What living services must be told before the run's jobs start against them again."""
    environment: Callable[[str, ConfigFiles, RunContext], Mapping[str, str]] = no_environment
    """By component id, environment variables that the framework's own launcher would set, or that the config
    names. The layout's go before them."""
    passed: Callable[[str, ConfigFiles, RunContext], Mapping[str, Mapping[str, KnobValue]]] = nothing_passed
    """Role → dotted key → value that goes before the config's where a command has this placeholder."""
    log_row: Callable[[str, str], Mapping[str, Any] | None] = no_rows
    """By component id and one line of its output without colours: a row for the metrics, as in a metrics
    file."""
    log_mark: str = ""
    """Text in every line of which `log_row` makes something: others are not even decoded."""
    batch_knobs: Callable[[ConfigFiles], BatchKnobs | None] = nothing_configured
    checkout: Checkout | None = None
    own_validation: OwnValidation | None = None
    engine_memory: Callable[[ConfigFiles], EngineMemory | None] = no_engine
    """What the inference engine will do with its devices' memory."""
    files: RunFiles = RunFiles()
    run_files: Callable[[ConfigFiles], RunFiles | None] = nothing_configured
    """Where the run's files appear with this config, if not as `files` says."""
    metrics: MetricNames = MetricNames()
    facts: tuple[Fact, ...] = ()
    failures: Sequence[FailurePattern] = COMMON
    """Texts in a component's output that tell why it failed."""

    def files_of(self, configs: ConfigFiles) -> RunFiles:
        """Where a run with these config files leaves its own."""
        return self.run_files(configs) or self.files


def values_of(knobs: Iterable[Knob], files: ConfigFiles, framework: Framework) -> dict[str, Any]:
    """By name, what each of `knobs` amounts to in `files`; `None` for one that these files cannot have."""
    here = {knob.name: knob for knob in framework.knobs(files)}
    defaults = framework.defaults(files)
    values: dict[str, Any] = {}
    for knob in knobs:
        held = value_at(files[knob.file].data, knob.key) if knob.file in files else None
        default = here[knob.name].default if knob.name in here else None
        values[knob.name] = held if held is not None else defaults.get(knob.name, default)
    return values


def as_passed(files: ConfigFiles) -> ConfigFiles:
    """What a component got: its copies of the files with what was passed in place of their values."""
    return {
        role: replace(file, data=edited(file.data, file.passed)) if file.passed else file
        for role, file in files.items()
    }
