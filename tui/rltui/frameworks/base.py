"""What every framework answers: a class whose methods have defaults, and the values that they answer with."""

# ruff: noqa: ARG002 - defaults look at nothing that they are given

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rltui import paths
from rltui.core import hints
from rltui.core.batch import BatchKnobs
from rltui.core.bottleneck import BottleneckKnobs
from rltui.core.config_data import apply_edits, value_at
from rltui.core.config_report import DerivedValue, Problem
from rltui.core.config_schema import ConfigSchema
from rltui.core.evals import EvalRequest, EvalTarget, TargetKind
from rltui.core.failure_cause import FailurePattern
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.training import Training
from rltui.core.json_schema import Json
from rltui.core.knobs import Knob, KnobValue
from rltui.core.layout import Layout
from rltui.core.metrics import MetricNames
from rltui.core.plan import RestartRule
from rltui.core.servers import ServerAddress
from rltui.core.template import Missing, TemplateValue
from rltui.errors import ConfigError, UsageError
from rltui.frameworks.failures import COMMON

EVAL_HINT = f"{hints.EVAL_MODEL(model='FOLDER')} evaluates any folder of weights; --now what the server has"


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
Parsed = Sequence[tuple[str, Mapping[str, Any]]]
"""Path and content of some files."""


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
    run_dir: str = ""
    """Absolute folder that the framework writes this run into; empty: `output_dir`."""
    run: tuple[str, ...] | Missing = ()
    """What goes before the framework's own programs: `uv run`, `uv run --project DIR`, or nothing where
    they are on the path."""
    traits: frozenset[str] | None = None
    """Names of those of `Checkout.traits` that the checkout has; `None` where there is no checkout."""
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
    submits: bool = False
    """The layout runs something as a SLURM job: a launcher that gets a config is to write a script."""
    devices: tuple[str, ...] = ()
    """The same devices, whatever this interpreter's torch can do: for programs with an interpreter of their
    own. By NVML's number where numbers count so (older vLLM cannot read UUIDs), else by UUID."""

    @property
    def run_folder(self) -> str:
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
    readers: tuple[str, ...]
    """Components whose command lines need the option."""
    by_option: bool = True
    """False: the framework's `resolutions` put it into the files that are made; no option is needed."""
    more: tuple[int, ...] = ()
    """Further ports that must be free and move with it, by how much they are above."""


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
    moves: str = ""
    """Dotted key of an edit to a whole number that may be another one by the start, such as the step to go on
    from, and that the outputs hold at the same key. Where only it has changed, it is put into what was made.
    """
    notes: tuple[str, ...] = ()
    """What the edits change that a person may not expect, in words, for the journal."""
    unsupported: str = ""
    """What to do where the checkout knows the options of no command, or writes other files."""
    timeout_s: float = 180.0

    def is_many(self, output: str) -> bool:
        """Whether several files may go by that name, each with its stem behind it."""
        return any("*" in place.rpartition("/")[2] for place in self.outputs[output])

    def makes(self, wanted: Collection[str]) -> bool:
        """Whether one of the `wanted` names is among its outputs."""
        return any(
            output in wanted
            or (self.is_many(output) and any(name.startswith(f"{output}.") for name in wanted))
            for output in self.outputs
        )


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
    key_variable: str = ""
    """Environment variable with the key of its API."""


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
    dependents: tuple[str, ...] = ()
    """Names of packages: a project that depends on one of them counts as a checkout too."""
    lacking: Callable[[Mapping[str, str]], str] | None = None
    """By the versions of all packages that are installed there: why those have no such programs; empty where
    they have."""
    instead: str = ""
    merges_tables: str = ""
    """Path in the tree whose programs do not merge several config files key by key: a later file takes the
    place of whole tables."""
    traits: tuple[tuple[str, str, str], ...] = ()
    """(name, path in the tree, text that stands in that file): what its own programs can do, where releases
    differ in that."""


@dataclass(frozen=True, slots=True)
class ConfigModels:
    """How the framework's own config models are asked, in its interpreter."""

    models: Mapping[str, tuple[str, ...]]
    """Role → where its model may be, as `module:Class`, newest first; the first that can be imported
    counts. `package/folder/file.py:Class`: without what its package imports."""
    sources: tuple[str, ...] = ()
    """Patterns of the files below the checkout that the models are made of."""
    packages: tuple[str, ...] = ()
    """Whose versions are told, where they are installed."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Role → table of its file that the model is of, where that is not the whole file."""


@dataclass(frozen=True, slots=True)
class Converted:
    text: str
    """TOML."""
    notes: tuple[str, ...]
    """What has no counterpart there, or means something else, in words."""


@dataclass(frozen=True, slots=True)
class EvalModel:
    """What an evaluation asks, as the framework's server would be told it."""

    kind: TargetKind
    """What it is: the last checkpoint of an SFT run is `sft` to a person."""
    label: str
    """In words: `base`, `checkpoint 20`."""
    name: str
    """Folder of weights, absolute, or a name on the hub."""
    step: int | None = None
    """Of the run, that the weights are of."""
    places: tuple[str, ...] = ()
    """Folders in place of `name` where it is not known which there is: the first with weights counts."""
    marker: str = ""
    """File in those that makes them complete."""


@dataclass(frozen=True, slots=True)
class WeightsMaker:
    """Makes weights that other programs can load, of a checkpoint that has only the trainer's state."""

    argv: tuple[str, ...]
    """Behind what runs programs of the framework."""
    needs: str
    """File of the checkpoint without which there is nothing to make them of."""
    folder: str
    """Is there once they are whole."""


@dataclass(frozen=True, slots=True)
class Program:
    """A console script of an installed package."""

    version: str
    target: str
    """What it calls: `verifiers.v1.cli.eval.main:main`."""


@dataclass(frozen=True, slots=True)
class EvalCall:
    request: EvalRequest
    """With an environment."""
    base_url: str
    """Of the server, with `/v1`."""
    model: str
    """As the server calls it."""
    results: str
    """Absolute path of an empty folder for its samples, and for whatever else it writes."""
    programs: Mapping[str, Program] = field(default_factory=dict)
    """By name, those of `Framework.eval_packages` that are installed there."""
    key_variable: str = ""
    """Environment variable with the key of its API; empty: it wants none."""


@dataclass(frozen=True, slots=True)
class EvalCommand:
    """How a program of an evaluation is started: the evaluator, or a server for it."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """No secrets: it can be seen in the list of processes."""
    folders: tuple[str, ...] = ()
    """Absolute paths of folders that it expects to be there."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Likewise of files, with their text."""
    notes: tuple[str, ...] = ()
    """What a person may not expect of it, in words, for the journal."""


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
    """Folder of `step_<N>` folders; empty: the run's own."""
    checkpoint_prefix: str = "step_"
    """What the names of those folders begin with, before the step."""
    no_resume: str = ""
    """Why no run can be continued from its checkpoints, in words; empty where one can."""
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
    """Any of these means: this folder holds an earlier run. `*` as in a shell."""
    made_by_rltui: str = ""
    """A folder below an artifact that rltui makes before the first start: without a file it means nothing."""
    beats: Mapping[str, str] = field(default_factory=dict)
    """Component → file that it writes whenever it has done a step."""
    beside_checkpoint: tuple[str, ...] = ("weights",)
    """Folders of `step_<N>` folders that belong to the checkpoint of that step besides its parts: a run that
    continues from it in another folder needs them there."""
    stale_after_resume: tuple[str, ...] = ("checkpoints",)
    """Folders of `step_<N>` folders that must not outlive a resume: those beyond the step are moved aside."""


class Framework:
    """Everything we know of one RL framework, in one of its generations where those differ.

    A subclass overrides what differs from here: a framework that is only chosen by name, whose configs say
    nothing, and whose programs get what the layout says.
    """

    id: str
    title: str
    layouts: Mapping[str, str] = {}
    """Role → name of the shipped layout that runs a config with such a file; the first role that is there
    counts."""
    cluster_layouts: Mapping[str, str] = {}
    """Likewise, of the layout that runs it as SLURM jobs."""
    job_on_one_gpu: tuple[str, ...] = ()
    """Words with which the launcher that writes a job's script has all components share one GPU."""
    run_roles: frozenset[str] = frozenset()
    """Ids that the programs which write the run have in layouts. Others are not part of it, unless the layout
    says so."""
    begins_with: Literal["base", "sft"] = "base"
    """What the model is, in an evaluation, that the config names and a run starts from."""
    resume_keys: tuple[str, ...] = ()
    """Dotted keys, in whatever file, that name the checkpoint to continue from."""
    resume_elsewhere: tuple[str, ...] = ()
    """Dotted keys with which that is no checkpoint in the run's own folder."""
    required: tuple[frozenset[str], ...] = ()
    """Roles without which nothing can be run: all of one of these sets, the usual one first."""
    companions: Mapping[str, str] = {}
    """Further files that are read when they lie beside the config: role → file name."""
    log_marks: tuple[str, ...] = ()
    """Texts of which a line has one where `log_row` makes something of it: others are not even decoded. None
    where it makes nothing of any line."""
    log_redraws: bool = False
    """`log_row` gets all states of a line that was redrawn, one behind the other, and not the last alone."""
    checkout: Checkout | None = None
    config_models: ConfigModels | None = None
    eval_packages: tuple[str, ...] = ()
    """Packages in its interpreter whose versions decide how an evaluation is run."""
    files: RunFiles = RunFiles()
    """Where a run leaves its own files, if nothing is known of its config."""
    metrics: MetricNames = MetricNames()
    facts: tuple[Fact, ...] = ()
    failures: Sequence[FailurePattern] = COMMON
    signs: tuple[str, ...] = ()
    """Names in the output folder, with `/` and wildcards, any of which tells that it wrote a run there."""

    # --- detection, and what else decides about the answers ---

    def role(self, path: str, data: Mapping[str, Any]) -> str | None:
        """The role of a file with this content, `None` if it is none of this framework's."""
        return None

    def fit(self, parsed: Parsed) -> int | None:
        """How many keys of the files it does not know; `None`: they are not for it."""
        return None

    def with_schemas(self, schemas: Mapping[str, ConfigSchema]) -> Framework:
        """The same, but for files that will be read with these schemas, by role."""
        return self

    def fitted(self, layout: Layout) -> Framework:
        """The same, with what only the layout says where the framework says nothing itself."""
        return self

    def asks_for_cluster(self, files: ConfigFiles) -> bool:
        """The config itself says that the run is to be submitted to SLURM."""
        return False

    def sent_to(self, urls: Sequence[str], *, is_lent: bool = False) -> Framework:
        """The same, for a run that is to use the inference servers at these addresses, whatever its config
        says. `is_lent`: another experiment's on this machine, such as the config would start itself.

        Raises:
            UsageError: if nothing is known of how to send its programs there.
        """
        raise UsageError(
            f"how a run of {self.title} is sent to {' and '.join(urls)} is not known",
            hint="name the address in its own config, and leave its inference server out of the layout",
        )

    def file_schema(self, role: str, document: Json) -> Json:
        """The schema of a whole file, by that which `config_models` tell of its model."""
        return document

    # --- what the config files say ---

    def merges_deeply(self, data: Mapping[str, Any]) -> bool:
        """Whether its programs merge several files with such content key by key, rather than table by table:
        where no checkout tells.
        """
        return True

    def none_text(self, file: ConfigFile) -> str | None:
        """The text that stands for no value where that is not the default; `None`: no text does."""
        return None

    def knobs(self, files: ConfigFiles) -> tuple[Knob, ...]:
        """Every value that can be set in these files, those that are turned from day to day first."""
        return ()

    def renamed(self, files: ConfigFiles) -> Mapping[str, str]:
        """By dotted key of other generations: what to say to who asks for it here."""
        return {}

    def defaults(self, files: ConfigFiles) -> Mapping[str, Any]:
        """Defaults that follow from other values, by knob name; they go before `Knob.default`."""
        return {}

    def check(self, files: ConfigFiles) -> tuple[Problem, ...]:
        """Types, bounds, unknown keys and cross-knob rules. `Problem.file` is the file's path."""
        return ()

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        return ()

    def batch_knobs(self, files: ConfigFiles) -> BatchKnobs | None:
        return None

    def bottleneck_knobs(self, files: ConfigFiles) -> BottleneckKnobs:
        return BottleneckKnobs()

    def inference_servers(self, files: ConfigFiles) -> tuple[ServerAddress, ...]:
        """The inference servers that the run uses and somebody else runs; none where it has its own.

        Raises:
            ConfigError: if the config names no address.
        """
        return ()

    def weights_by(self, files: ConfigFiles) -> str:
        """How new weights get to the inference server, which is made for that; empty where it takes any."""
        return ""

    def advice(self, files: ConfigFiles) -> Mapping[str, str]:
        """By the id of a rule of health, what to turn in this config where it speaks, in words."""
        return {}

    def engine_memory(self, files: ConfigFiles) -> EngineMemory | None:
        return None

    def training(self, files: ConfigFiles) -> Training | None:
        """What decides about the memory of the supervised trainer; `None` where there is none."""
        return None

    def output_dir(self, files: ConfigFiles) -> str | None:
        """The output folder that the config names, relative to the workspace."""
        return None

    def max_steps(self, files: ConfigFiles) -> int | None:
        return None

    def checkpoint_interval(self, files: ConfigFiles) -> int | None:
        """Steps between two checkpoints; `None` where the files do not say."""
        return None

    def run_files(self, files: ConfigFiles) -> RunFiles:
        return self.files

    def weights_of(self, files: ConfigFiles, run_dir: str, step: int) -> WeightsMaker | None:
        """How weights are made of a checkpoint that other programs can load; `None` where it has them."""
        return None

    def external(self, files: ConfigFiles) -> tuple[str, ...]:
        """Components of layouts that somebody else runs, or nobody. Raises as `inference_servers`."""
        return ("inference",) if self.inference_servers(files) else ()

    # --- how it is run ---

    def template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """Values for the layout's placeholders: `config.<role>`, `port.<component>`, `gpus.<component>` …"""
        return {}

    def resolutions(self, files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
        """How the config of each process comes to be. Only those are carried out whose outputs a component's
        layout entry asks for. None: they read the user's files (copies of them).
        """
        return ()

    def passed(
        self, placeholder: str, files: ConfigFiles, context: RunContext
    ) -> Mapping[str, Mapping[str, KnobValue]]:
        """Role → dotted key → value that goes before the config's where a command has this placeholder."""
        return {}

    def instances(self, files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
        """For `each = "<name>"` in a layout: the instances there are, such as the env servers."""
        return {}

    def environment(self, component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
        """Environment variables that the framework's own launcher would give to a component, or that the
        config names. The layout's go before them.
        """
        return {}

    def ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        """Ports that may be chosen anew where they are busy; not those that the config names twice."""
        return ()

    def service_calls(self, files: ConfigFiles, context: RunContext) -> tuple[ServiceCall, ...]:
        """What living services must be told before the run's jobs start against them again."""
        return ()

    def weights_reset(
        self, files: ConfigFiles, context: RunContext, root: str
    ) -> ServiceCall | Missing | None:
        """What a server that was trained with gets before another run begins with it, at `root`; `None` where
        the run itself sees to that, `Missing` where nothing does.
        """
        return None

    def eval_env(self, files: ConfigFiles) -> str:
        """The environment that the config trains on; empty where it names none."""
        return ""

    def eval_max_tokens(self, files: ConfigFiles) -> int | None:
        """Of an answer, as the config samples for training."""
        return None

    def eval_model(self, files: ConfigFiles, context: RunContext, target: EvalTarget) -> EvalModel:
        """What is meant by `target`, which is not `now`.

        Raises:
            ConfigError: if there is no such thing, or no server could load it.
        """
        if target.kind == "model":
            return EvalModel("model", target.label, target.model)
        raise ConfigError(f"{self.title} does not say where {target.label} would be", hint=EVAL_HINT)

    def eval_server(
        self, files: ConfigFiles, context: RunContext, model: EvalModel, port: int, gpu_memory: str
    ) -> EvalCommand | None:
        """What a server of that model for an evaluation is given besides: its `argv` are options, which stand
        for `{given.options}` in the layout's `eval-server`; `None` where there are none.

        The layout's entry also gets `{given.model}`, `{given.port}`, `{given.gpus}` and, as a fraction of
        each device, `{given.gpu_memory}`, empty without a GPU.
        """
        return None

    def evaluation(self, files: ConfigFiles, context: RunContext, call: EvalCall) -> EvalCommand | None:
        """The evaluator: `argv` is the whole command, `{given.command}` in the layout's `eval`. `None`: that
        says it all, with `{given.base_url}`, `{given.model}`, `{given.env}`, `{given.num_examples}`,
        `{given.rollouts_per_example}`, `{given.max_tokens}` (empty: no limit is named), `{given.results}` and
        `{given.arguments}`.

        Raises:
            ConfigError: if there is none, or it cannot do what is asked.
        """
        return None

    def restart_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        """Which restarts are legal with this config: applied until nothing changes. None: components restart
        alone, unless the layout says otherwise.
        """
        return ()

    def fresh_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        """Further rules for a run that begins anew although steps were done: services hold what came of
        those.
        """
        return ()

    def log_row(self, component: str, line: str) -> Mapping[str, Any] | None:
        """A row for the metrics, as in a metrics file, from one line of output without colours."""
        return None

    def converted(self, files: ConfigFiles, to: Framework) -> Converted | None:
        """The config that does the same there; `None` where nobody knows, or a value is faulty."""
        return None


def standing(
    ports: Sequence[PortKnob], chosen: Mapping[str, int | str], instead_of: Mapping[str, int | str]
) -> dict[str, int | str]:
    """Of the values that rltui chose, by knob name, those whose knob still says what it said then.

    Once a person writes another value into the config, that one counts.
    """
    return {
        item.knob: chosen[item.knob]
        for item in ports
        if item.knob in chosen and instead_of.get(item.knob) == item.port
    }


def as_passed(files: ConfigFiles) -> ConfigFiles:
    """What a component got: its copies of the files with what was passed in place of their values."""
    return {
        role: replace(file, data=apply_edits(file.data, file.passed)) if file.passed else file
        for role, file in files.items()
    }


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
