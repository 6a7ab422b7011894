"""What a framework module answers. A module is one frozen `Framework` value plus pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltui.core.api import Problem
from rltui.core.failure_cause import FailurePattern
from rltui.core.gpu.engine import EngineMemory
from rltui.core.knobs import Knob
from rltui.core.metrics import MetricNames
from rltui.core.plan import RestartRule
from rltui.core.template import TemplateValue
from rltui.frameworks.failures import COMMON


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One parsed TOML file. `path` is absolute."""

    role: str
    """What the file is to its framework: `rl`, `sft` …"""
    path: str
    data: Mapping[str, Any]


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
    resume_step: int | None = None
    """Checkpoint to continue from; `None` starts from the beginning."""
    overrides: Mapping[str, int | str] = field(default_factory=dict)
    """By knob name, values that rltui chose for this experiment; they go before those of the config."""
    cuda_devices: tuple[str, ...] = ()
    """Devices that a process started now would see as `cuda:0`, `cuda:1` …, named as in
    `CUDA_VISIBLE_DEVICES`. Empty where there is no GPU, or the interpreter's torch cannot use one."""


@dataclass(frozen=True, slots=True)
class PortKnob:
    """A TCP port for which rltui may choose another, with an option on the command lines."""

    component: str
    """Listens on it."""
    knob: str
    """Name of the knob that holds it, which is also the name of the option."""
    port: int
    """What the config says."""
    readers: tuple[str, ...]
    """Components whose command lines need the option."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A figure that follows from the config, such as prompts per step."""

    name: str
    value: float | int | str | None
    unit: str = ""
    text: str = ""
    """The arithmetic in words: `128 rollouts / 16 per example = 8 prompts per step`."""


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

    metrics: str = "metrics.jsonl"
    """JSONL rows with `step` and `time`; several rows a step, the last value of a key wins."""
    checkpoints: str = "checkpoints"
    """Folder of `step_<N>` folders."""
    checkpoint_marker: str = "STABLE"
    """File that makes a checkpoint complete."""
    artifacts: tuple[str, ...] = ("metrics.jsonl", "checkpoints", "rollouts", "broadcasts", "weights")
    """Any of these means: this folder holds an earlier run."""
    stale_after_resume: tuple[str, ...] = ()
    """Folders of `step_<N>` folders that must not outlive a resume: those beyond the step are moved aside."""


def no_problems(files: ConfigFiles) -> tuple[Problem, ...]:
    """A framework without rules."""
    del files
    return ()


def nothing_derived(files: ConfigFiles) -> tuple[Derived, ...]:
    """A framework without derived figures."""
    del files
    return ()


def no_knobs(files: ConfigFiles) -> tuple[Knob, ...]:
    """A framework whose knobs do not depend on the files."""
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
    layout: str
    """Name of the shipped layout that runs it."""
    roles: Callable[[str, Mapping[str, Any]], str | None]
    """The role of a file (path, content), `None` if it is none of this framework's: detection."""
    template_values: Callable[[ConfigFiles, RunContext], Mapping[str, TemplateValue]]
    """Values for the layout's placeholders: `config.<role>`, `port.<component>`, `gpus.<component>` …"""
    knobs: tuple[Knob, ...] = ()
    more_knobs: Callable[[ConfigFiles], tuple[Knob, ...]] = no_knobs
    """Knobs that only the files themselves name."""
    defaults: Callable[[ConfigFiles], Mapping[str, Any]] = no_defaults
    """Defaults that follow from other values, by knob name; they go before `Knob.default`."""
    required: tuple[str, ...] = ()
    """Roles without which nothing can be run."""
    check: Callable[[ConfigFiles], tuple[Problem, ...]] = no_problems
    """Types, bounds, unknown keys and cross-knob rules. `Problem.file` is the file's path."""
    derive: Callable[[ConfigFiles], tuple[Derived, ...]] = nothing_derived
    companions: Mapping[str, str] = field(default_factory=dict)
    """Further files that are read when they lie beside the config: role → file name."""
    restart_rules: Callable[[ConfigFiles], Sequence[RestartRule]] = no_restart_rules
    """Which restarts are legal with this config: applied until nothing changes."""
    ports: Callable[[ConfigFiles], tuple[PortKnob, ...]] = no_ports
    """Ports that may be chosen anew where they are busy; not those that the config names twice."""
    output_dir: Callable[[ConfigFiles], str | None] = nothing_configured
    """The output folder that the config names, relative to the workspace."""
    max_steps: Callable[[ConfigFiles], int | None] = nothing_configured
    engine_memory: Callable[[ConfigFiles], EngineMemory | None] = no_engine
    """What the inference engine will do with its devices' memory."""
    files: RunFiles = RunFiles()
    metrics: MetricNames = MetricNames()
    facts: tuple[Fact, ...] = ()
    failures: Sequence[FailurePattern] = COMMON
    """Texts in a component's output that tell why it failed."""
