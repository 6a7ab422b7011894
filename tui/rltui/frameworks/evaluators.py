"""Command lines of the evaluators of verifiers by version: read at 0.1.8 to 0.4.0 (`facts/evaluators.md`).

Until 0.2 there is one, `vf-eval`, for environments with a `load_environment`. 0.3 has it beside `eval`, which
is for tasksets (v1) and is called `vf-eval` in 0.4. prime-rl has had its own `eval` since September 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rltui.base.toml.values import format_value
from rltui.core import hints
from rltui.errors import ConfigError
from rltui.frameworks.evaluation import EvalCall, EvalCommand

_KEY_VARIABLE = "RLTUI_EVAL_KEY"
"""Evaluators require an API key even if the server does not."""
_ANSWER = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
"""Requests only an answer: the default agent works on a remote machine, and needs a login for that."""
_STATE_COLUMNS = "is_truncated,stop_condition"
"""Columns that results lack before 0.1.10: without them a cut-off answer looks like a bad one."""
_TASKSET_PROGRAMS = {
    "prime_rl.": ("--run.name", "rollouts", "-c", "32"),
    "verifiers.v1.": ("--no-rich", "--no-push"),
}
"""Package of a program that evaluates tasksets, the preferred one first → its further arguments."""


def verifiers_eval(
    call: EvalCall,
    run: Sequence[str],
    *,
    env: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    is_legacy: bool = False,
) -> EvalCommand:
    """The command line of the evaluator that the environment has and that can do the request.

    `run`: prefix of the program. `env`: taskset and agent from a config, `None` if none has them;
    `args`: of `load_environment`. `is_legacy`: the environment has that, or nothing tells.

    Raises:
        ConfigError: if there is no evaluator, or only of an unknown version, or if the arguments
            would make it upload.
    """
    programs = [(name, call.programs[name]) for name in ("eval", "vf-eval") if name in call.programs]
    by_package = {
        start: name
        for start in _TASKSET_PROGRAMS
        for name, program in programs
        if program.target.startswith(start)
    }
    legacy = call.programs.get("vf-eval")
    if legacy is not None and "vf-eval" not in by_package.values() and (is_legacy or not by_package):
        return _vf_eval(call, run, legacy.version, args or {})
    if not by_package:
        raise ConfigError(
            "verifiers (eval, vf-eval) is not installed in the framework's environment",
            hint=f"uv sync --all-extras in its checkout; {hints.DOCTOR} shows the installed versions",
        )
    package, name = next(iter(by_package.items()))
    table = {"agent": _ANSWER} if env is None else env
    return _taskset_eval(call, [*run, name], table, _TASKSET_PROGRAMS[package])


def _vf_eval(call: EvalCall, run: Sequence[str], version: str, args: Mapping[str, Any]) -> EvalCommand:
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = tuple(map(int, match[0].split("."))) if match else ()
    if numbers < (0, 1, 8):
        raise ConfigError(
            f"verifiers {version} is too old for evaluations",
            hint="rltui supports vf-eval from 0.1.8: uv add 'verifiers>=0.1.8'",
        )
    request = call.request
    # It writes below this folder, or in the workspace where that is not there, whatever else there is.
    folder = f"{call.results}/{request.env.replace('-', '_')}"
    argv = [
        *run, "vf-eval", request.env, "--model", call.model, "--api-base-url", call.base_url,
        "--api-key-var", call.key_variable or _KEY_VARIABLE, "--num-examples", str(request.num_examples),
        "--rollouts-per-example", str(request.rollouts_per_example), "--save-results",
        "--env-dir-path", call.results,
    ]  # fmt: skip
    if args:
        argv += ["--env-args", json.dumps(args)]
    if request.max_tokens is not None:
        argv += ["--max-tokens", str(request.max_tokens)]
    argv += ["-d"] if numbers >= (0, 1, 10) else ["--state-columns", _STATE_COLUMNS]
    return EvalCommand((*argv, *request.arguments), env=_key_env(call), folders=(folder,))


def _taskset_eval(
    call: EvalCall, program: Sequence[str], env: Mapping[str, Any], more: Sequence[str]
) -> EvalCommand:
    """The options of the config go into a file next to the results, which the program reads."""
    request = call.request
    if any(argument.startswith("--push") for argument in request.arguments):
        raise ConfigError("--push would upload the samples to Prime Intellect", hint="remove --push")
    has_agent = any(argument.startswith("--env.agent.") for argument in request.arguments)
    table = {key: value for key, value in env.items() if key != "agent" or not has_agent}
    file = f"{call.results}/env.toml"
    argv = [
        *program, request.env, "@", file, "-m", call.model, "-n", str(request.num_examples),
        "-r", str(request.rollouts_per_example), "--client.base-url", call.base_url,
        "--client.api-key-var", call.key_variable or _KEY_VARIABLE,
    ]  # fmt: skip
    if request.max_tokens is not None:
        argv += ["--sampling.max-tokens", str(request.max_tokens)]
    argv += ["--output-dir", call.results, *request.arguments, *more]
    text = f"env = {format_value(table)}\n"
    return EvalCommand(tuple(argv), env=_key_env(call), files={file: text})


def _key_env(call: EvalCall) -> dict[str, str]:
    """Any key, for a server that requires none."""
    return {} if call.key_variable else {_KEY_VARIABLE: "EMPTY"}
