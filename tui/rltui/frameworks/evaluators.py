"""`vf-eval` of verifiers as its versions take it: read at 0.1.8 to 0.4.0 (`facts/evaluators.md`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltui.errors import ConfigError
from rltui.frameworks.base import EvalCall, EvalCommand

_KEY_VARIABLE = "RLTUI_EVAL_KEY"
"""Evaluators want an API key even where the server asks for none."""
_ANSWER = ("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess")
"""Only ask for an answer: the usual agent works on a machine elsewhere, and needs a login for that."""
_UNTOLD = "is_truncated,stop_condition"
"""Columns that results lack before 0.1.10: without them a cut-off answer looks like a bad one."""


def vf_eval(call: EvalCall, run: Sequence[str], version: str) -> EvalCommand:
    """Its command line. `run`: what goes before the program; `version`: of verifiers.

    Raises:
        ConfigError: if it is of a version that nobody has seen, or the arguments would have it upload.
    """
    numbers = _numbers(version)
    if numbers >= (0, 4):
        return _since_0_4(call, run)
    if numbers < (0, 1, 8):
        raise ConfigError(
            f"verifiers {version} is too old for an evaluation from here",
            hint="0.1.8 is the first whose vf-eval is known: uv add 'verifiers>=0.1.8'",
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
    if request.max_tokens is not None:
        argv += ["--max-tokens", str(request.max_tokens)]
    argv += ["-d"] if numbers >= (0, 1, 10) else ["--state-columns", _UNTOLD]
    return EvalCommand((*argv, *request.arguments), env=key_env(call), folders=(folder,))


def _since_0_4(call: EvalCall, run: Sequence[str]) -> EvalCommand:
    """Another program under the same name, which uploads the samples unless it is told not to."""
    if any(word.startswith("--push") for word in call.request.arguments):
        raise ConfigError("--push would upload the samples to Prime Intellect", hint="leave it out")
    argv = [*run, "vf-eval", *v1_arguments(call), "--output-dir", call.results, "--no-rich"]
    return EvalCommand((*argv, *call.request.arguments, "--no-push"), env=key_env(call))


def v1_arguments(call: EvalCall, agent: Sequence[str] = _ANSWER) -> list[str]:
    """What `vf-eval` since 0.4 and prime-rl's own `eval` have in common. `agent`: options of who answers,
    unless a person names another.
    """
    request = call.request
    if any(word.startswith("--env.") for word in request.arguments):
        agent = ()
    argv = [
        request.env, "-m", call.model, "-n", str(request.num_examples),
        "-r", str(request.rollouts_per_example), "--client.base-url", call.base_url,
        "--client.api-key-var", call.key_variable or _KEY_VARIABLE,
    ]  # fmt: skip
    argv += agent
    if request.max_tokens is not None:
        argv += ["--sampling.max-tokens", str(request.max_tokens)]
    return argv


def key_env(call: EvalCall) -> dict[str, str]:
    """For a server that wants no key: any will do."""
    return {} if call.key_variable else {_KEY_VARIABLE: "EMPTY"}


def _numbers(version: str) -> tuple[int, ...]:
    """`0.1.9.post3` as numbers to compare."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
