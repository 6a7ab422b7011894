"""The evaluation of models of a framework's runs: a record of functions, and the values that they return.

The defaults fit any commands: weights are named by their folder, and the layout has the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rltui.core import hints
from rltui.core.runs.evals import EvalRequest, EvalTarget, TargetKind
from rltui.errors import ConfigError
from rltui.frameworks.answers import no_text, unknown
from rltui.frameworks.inputs import ConfigFiles, RunContext

_HINT = f"{hints.EVAL_MODEL(model='FOLDER')} evaluates any folder of weights; --now: the server's weights"


@dataclass(frozen=True, slots=True)
class EvalModel:
    """The model of an evaluation, in the terms of the framework's server."""

    kind: TargetKind
    """Kind for people: the last checkpoint of an SFT run is `sft`."""
    label: str
    """Name in words: `base`, `checkpoint 20`."""
    name: str
    """Folder of weights, absolute, or a name on the hub."""
    step: int | None = None
    """Step of the run with these weights."""
    places: tuple[str, ...] = ()
    """Alternatives to `name` if it is unknown which exists: the first with weights counts."""
    marker: str = ""
    """File in those folders that makes them complete."""


@dataclass(frozen=True, slots=True)
class Program:
    """A console script of an installed package."""

    version: str
    target: str
    """Function that it calls: `verifiers.v1.cli.eval.main:main`."""


@dataclass(frozen=True, slots=True)
class EvalCall:
    request: EvalRequest
    """The request; it names an environment."""
    base_url: str
    """Address of the server, with `/v1`."""
    model: str
    """Name of the model on the server."""
    results: str
    """Absolute path of an empty folder for its samples and other output."""
    programs: Mapping[str, Program] = field(default_factory=dict)
    """Name → program, for the installed ones of `EvaluationSide.packages`."""
    key_variable: str = ""
    """Environment variable with the key of its API; empty: it wants none."""


@dataclass(frozen=True, slots=True)
class EvalCommand:
    """Command line of a program for an evaluation: the evaluator, or a server for it."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables without secrets, since the list of processes shows them."""
    folders: tuple[str, ...] = ()
    """Absolute paths of folders that it expects to exist."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Absolute path → text of files that it expects to exist."""
    notes: tuple[str, ...] = ()
    """Unexpected effects, in words, for the journal."""


def named_model(title: str) -> Callable[[ConfigFiles, RunContext, EvalTarget], EvalModel]:
    """The models of a framework that only knows those that a person names: `EvaluationSide.model`."""

    def model(_: ConfigFiles, __: RunContext, target: EvalTarget) -> EvalModel:
        if target.kind == "model":
            return EvalModel("model", target.label, target.model)
        raise ConfigError(f"{title} does not define where {target.label} is", hint=_HINT)

    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSide:
    """The answers about the models of a run, the servers of them, and the evaluators."""

    begins_with: Literal["base", "sft"] = "base"
    """Kind of the model that the config names and a run starts from."""
    packages: tuple[str, ...] = ()
    """Packages in the framework's interpreter whose versions decide how an evaluation is run."""
    environment: Callable[[ConfigFiles], str] = no_text
    """The environment that the config trains on; empty if it names none."""
    max_tokens: Callable[[ConfigFiles], int | None] = unknown
    """Limit of an answer in the config's sampling for training."""
    model: Callable[[ConfigFiles, RunContext, EvalTarget], EvalModel]
    """The model for a target, which is not `now`. Raises ConfigError if there is no such model, or no server
    could load it.
    """
    server: Callable[[ConfigFiles, RunContext, str, int, str], EvalCommand | None] = unknown
    """Further arguments of a server of that model, on a port, with a fraction of each device's memory: its
    `argv` are options, for `{given.options}` in the layout's `eval-server`; `None` if there are none.

    The layout's entry also gets `{given.model}`, `{given.port}`, `{given.gpus}` and, as a fraction of
    each device, `{given.gpu_memory}`, empty without a GPU.
    """
    command: Callable[[ConfigFiles, RunContext, EvalCall], EvalCommand | None] = unknown
    """The evaluator: `argv` is the whole command, `{given.command}` in the layout's `eval`. `None`: the
    layout has the whole command, with `{given.base_url}`, `{given.model}`, `{given.env}`,
    `{given.num_examples}`, `{given.rollouts_per_example}`, `{given.max_tokens}` (empty: no limit is
    named), `{given.results}` and `{given.arguments}`. Raises ConfigError if there is none, or it cannot do
    the request.
    """
