"""The real `vf-eval` of both generations asks the embedded server, in the example's environment.

`RLTUI_VERIFIERS_PYTHONS=A/bin/python:B/bin/python pytest -m verifiers -n 0 tests/verifiers`
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.engine import EXAMPLE
from tests.tinyrl.conftest import free_port, start_program, write_tiny_model
from tests.verifiers.conftest import interpreter
from tests.waiting import retry_until

from rltui.core.logs.failure_cause import find_cause
from rltui.core.runs.evals import EvalRequest, EvalStatistics, verdict
from rltui.frameworks.evaluation import EvalCall
from rltui.frameworks.evaluators import verifiers_eval
from rltui.frameworks.failures import COMMON
from rltui.services.experiment.checkout import console_scripts
from rltui.services.runs.evaluations import read_results

pytestmark = [pytest.mark.verifiers, pytest.mark.timeout(300)]


@dataclass
class Server:
    base_url: str
    model: str
    folder: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    write_tiny_model(folder / "model", seed=0)
    port = free_port()
    words = ["inference", "--model.name", "model", "--inference.server.port", str(port)]
    process = start_program(words, folder / "inference.log", folder)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:

            def is_up() -> bool:
                try:
                    return client.get("/health").status_code == 200
                except httpx.TransportError:
                    return False

            retry_until(is_up, timeout_s=60)
        yield Server(f"http://127.0.0.1:{port}/v1", "model", folder)
    finally:
        process.terminate()
        process.wait(timeout=20)


def evaluate(
    server: Server, version: str, results: Path, request: EvalRequest
) -> tuple[int, str, EvalStatistics]:
    """By the command line that `rltui eval run` makes: exit code, output, and what is made of the results."""
    python, request = interpreter(version), request.replace(env="reverse-text")
    programs = console_scripts(python.parent, ["verifiers"])
    call = EvalCall(request, server.base_url, server.model, str(results), programs)
    run = ("env", f"PATH={python.parent}:{os.environ['PATH']}")
    evaluation = verifiers_eval(call, run, is_legacy=True)
    for folder in (results, *map(Path, evaluation.folders)):
        folder.mkdir(parents=True, exist_ok=True)
    for file, text in evaluation.files.items():
        Path(file).write_text(text)
    environment = os.environ | {"PYTHONPATH": str(EXAMPLE), "PYTHONDONTWRITEBYTECODE": "1", **evaluation.env}
    done = subprocess.run(
        evaluation.argv, cwd=results.parent, env=environment, capture_output=True, text=True, timeout=250
    )
    measured, folder = read_results(results)
    assert folder.is_relative_to(results)
    return done.returncode, done.stdout + done.stderr, measured


@pytest.mark.parametrize("version", ["0.1.9", "0.4.0"])
def test_answers_are_found_and_measured(server: Server, tmp_path: Path, version: str) -> None:
    request = EvalRequest(num_examples=4, rollouts_per_example=2, max_tokens=8)
    code, output, measured = evaluate(server, version, tmp_path / "results", request)
    assert code == 0, output
    assert (measured.rollouts, measured.examples, measured.failed) == (8, 4, 0)
    assert measured.truncated  # a model that learned nothing seldom comes to an end
    assert measured.mean is not None
    if version == "0.1.9":
        assert f"reward: avg - {measured.mean:.3f}" in output


def test_exit_codes_lie_and_results_do_not(server: Server, tmp_path: Path) -> None:
    """All prompts are too long with so many tokens for an answer."""
    for version in ("0.1.9", "0.4.0"):
        request = EvalRequest(num_examples=4, rollouts_per_example=2, max_tokens=500)
        code, output, measured = evaluate(server, version, tmp_path / version, request)
        assert (code, verdict(measured, request)[0]) == (0, "failed"), output


def test_an_agent_on_a_machine_elsewhere_needs_a_tunnel(server: Server, tmp_path: Path) -> None:
    """As 0.4 takes it unasked. It says so with the exit code 1; `rltui eval run` says what to do."""
    elsewhere = ("--env.agent.runtime.type", "prime")
    request = EvalRequest(num_examples=1, arguments=elsewhere)
    code, output, measured = evaluate(server, "0.4.0", tmp_path / "results", request)
    assert code == 1
    assert verdict(measured, EvalRequest(), "x")[0] in ("empty", "failed")
    cause = find_cause(output.splitlines(), COMMON)
    assert cause is not None
    assert "--env.agent.harness.id null" in cause.text
