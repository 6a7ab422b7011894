"""One evaluation from its request to its record: its server, its evaluator, its results."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from rltui.core import hints
from rltui.core.experiment.servers import ServerAddress
from rltui.core.experiment.states import ComponentState
from rltui.core.metrics.series import OWN_SOURCE
from rltui.core.runs.evals import (
    COMPONENT,
    SERVER,
    EvalRequest,
    EvalStatistics,
    Evaluation,
    QueuedEval,
    refusal,
    verdict,
)
from rltui.errors import RltuiError, UsageError
from rltui.frameworks.evaluation import EvalCall, EvalModel
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.experiment.probes import ServedModel, served
from rltui.services.own_files import make_folder, write_atomically
from rltui.services.runs import weights
from rltui.services.runs.evaluations import EvalFolder, finished_rollouts, read_results
from rltui.services.runs.observed import refuse_observed
from rltui.supervisor.runs.eval_servers import EvalServers
from rltui.supervisor.runtime import Runtime

POLL_S = 2.0
"""Pause between two polls: of the obstacle of a waiting one, and of the progress of the running one."""
_SERVED_TIMEOUT_S = 10.0
Report = Callable[[QueuedEval], None]
"""Called with the running evaluation as it is now."""


class EvalWork:
    """Executes one evaluation."""

    def __init__(self, runtime: Runtime, *, is_done: Callable[[], bool]) -> None:
        """`is_done`: whether the run has come to its end."""
        self._setup = setup = runtime.setup
        self._config = runtime.config
        self._observation = runtime.observation
        self._processes = runtime.processes
        self._events = runtime.events
        self._servers = EvalServers(runtime)
        self._is_done = is_done
        self._maker: asyncio.subprocess.Process | None = None
        self.folder = EvalFolder(setup.control)
        self.experiment = setup.record.name

    # --- before -------------------------------------------------------------------------------------------

    async def complete_request(self, request: EvalRequest) -> EvalRequest:
        """The request, with defaults from the config filled in.

        Raises:
            ConfigError: if it cannot be done: no evaluator, no such checkpoint or model.
            UsageError: if its answers cannot fit the model's context, or somebody else runs the experiment.
            ConflictError: if no server has the weights of now.
        """
        refuse_observed(self._setup.record)
        files = self._config.document.load()
        await self._servers.refuse(request, files)
        # with the environment and the tokens that the config has
        framework = self._setup.framework
        env = request.env or framework.evaluation.environment(files)
        if not env:
            raise UsageError("the config names no environment to evaluate on", hint=str(hints.EVAL_ENV))
        tokens = request.max_tokens or framework.evaluation.max_tokens(files)
        request = request.replace(env=env, max_tokens=tokens)
        engine = framework.gpu_needs.engine(files)
        context = None if engine is None else engine.max_model_len
        if (
            request.target.kind == "now"
            and not request.when_done
            and not self._servers.is_inference_starting()
        ):
            served_model = await _served(self._servers.run_server(files))
            if served_model is not None and served_model.context is not None:
                context = served_model.context
        await self._refuse_tokens(request, context)
        return request

    def wait_reason(self, request: EvalRequest) -> str | None:
        """The thing it waits for before it can begin, in words; `None`: nothing."""
        if request.when_done and not self._is_done():
            return "the end of the run"
        return self._servers.wait_reason(request, self._config.document.files)

    def notify(self) -> None:
        self._processes.changes.notify()

    async def wait_for_change(self, within_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._processes.changes.wait()

    async def stop(self) -> None:
        """End the evaluator, its server, and the program that makes weights for it."""
        self._end_maker()
        if COMPONENT in self._processes.runners:
            await self._processes.runners[COMPONENT].stop()
        await self._servers.stop()

    # --- while it goes on ---------------------------------------------------------------------------------

    async def start(self, running: QueuedEval, report: Report) -> Evaluation:
        """Find or start a server, and start the evaluator. Returns its record as far as it is known.

        Raises:
            RltuiError: if that is not possible.
        """
        files = self._config.document.load()
        request = running.request
        draft = self._draft(running)
        if request.target.kind == "now":
            address = self._servers.run_server(files)
            draft = draft.replace(first_step=self._step())
        else:
            model = self._servers.model(request.target, files)
            if model.places and model.step is not None:
                report(running.replace(why=f"converting weights of {model.label}"))
                await self._make_weights(model.step)
                model = self._servers.model(request.target, files)
            draft = draft.replace(kind=model.kind, label=model.label, model=model.name, step=model.step)
            report(running.replace(why=f"loading {model.label}"))
            address = ServerAddress(await self._started_server(model, files))
        served_model = await _served(address)
        if served_model is None:
            raise RltuiError(f"no model at {address.url}/models")
        await self._refuse_tokens(request, served_model.context)
        return await self._start_evaluator(draft, request, address, served_model, files)

    async def _make_weights(self, step: int) -> None:
        making = await asyncio.to_thread(weights.weights_conversion, self._setup.record, step)
        if making is None:
            raise RltuiError(f"checkpoint {step} is gone")
        self._maker = process = await asyncio.create_subprocess_exec(
            *making.argv,
            cwd=making.workspace,
            env=making.env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
            making.check(process.returncode, output.decode(errors="replace"))
        finally:
            self._end_maker()

    def _end_maker(self) -> None:
        """Terminate its whole group: it has children where `uv run` started it."""
        if self._maker is not None and self._maker.returncode is None:
            os.killpg(self._maker.pid, signal.SIGTERM)
        self._maker = None

    async def _started_server(self, model: EvalModel, files: ConfigFiles) -> str:
        runner = self._processes.runners[SERVER]
        if self._servers.serves == model.name and runner.lifecycle.state is ComponentState.READY:
            return self._servers.url
        await self._servers.stop()
        await self._servers.start(model, files)
        while runner.lifecycle.state is not ComponentState.READY:
            if not runner.lifecycle.expected:
                raise RltuiError(f"no server for {model.label}: {runner.lifecycle.reason or 'stopped'}")
            await self._processes.changes.wait()
        return self._servers.url

    async def _start_evaluator(
        self,
        draft: Evaluation,
        request: EvalRequest,
        address: ServerAddress,
        served_model: ServedModel,
        files: ConfigFiles,
    ) -> Evaluation:
        setup, launcher = self._setup, self._config.launcher
        results = await asyncio.to_thread(self.folder.results, draft.id)
        programs = await asyncio.to_thread(self._servers.programs)
        call = EvalCall(
            request, address.url, served_model.model, str(results), programs, address.key_variable
        )
        command = setup.framework.evaluation.command(files, launcher.context(files).run_context, call)
        arguments: dict[str, str | tuple[str, ...]] = {
            "base_url": address.url,
            "model": served_model.model,
            "env": request.env,
            "num_examples": str(request.num_examples),
            "rollouts_per_example": str(request.rollouts_per_example),
            "max_tokens": "" if request.max_tokens is None else str(request.max_tokens),
            "results": str(results),
            "arguments": request.arguments,
        }
        if command is not None:
            for folder in command.folders:
                await asyncio.to_thread(make_folder, Path(folder))
            for path, text in command.files.items():
                await asyncio.to_thread(write_atomically, Path(path), text.encode())
            variables = [f"{name}={value}" for name, value in command.env.items()]
            arguments["command"] = (*(("env", *variables) if variables else ()), *command.argv)
            for note in command.notes:
                self._events.journal.add("eval", note, component=COMPONENT, asked=True)
        runner = self._processes.runners[COMPONENT]
        launcher.assign(COMPONENT, arguments)
        runner.start()
        while runner.lifecycle.state is ComponentState.WAITING:
            await self._processes.changes.wait()
        argv = runner.launch.argv if runner.launch is not None else ()
        return draft.replace(model=draft.model or served_model.model, results=str(results), command=argv)

    async def wait_until_ended(
        self, running: QueuedEval, evaluation: Evaluation | None, report: Report
    ) -> None:
        runner = self._processes.runners[COMPONENT]
        while runner.lifecycle.busy:
            if evaluation is not None:
                done = await asyncio.to_thread(
                    finished_rollouts, Path(evaluation.results), runner.log, running.request
                )
                report(running.replace(why="the evaluator is running", done=done))
            await self.wait_for_change(POLL_S)

    async def conclude(self, running: QueuedEval, draft: Evaluation | None, failure: str) -> None:
        """Write its record, and report it. `failure`: why it ended badly; empty where it did not."""
        results, folder = EvalStatistics(), Path()
        if draft is not None:
            results, folder = await asyncio.to_thread(read_results, Path(draft.results))
            failure = failure or self._end_reason()
        draft = draft or self._draft(running)
        state, explanation = verdict(results, running.request, failure)
        is_now = running.request.target.kind == "now"
        first, resumed = draft.first_step, self._observation.resume_step
        step = self._step() if is_now else draft.step
        kind, label = draft.kind, draft.label
        if is_now and not step and resumed is None:  # as the run begins
            kind, step = self._setup.framework.evaluation.begins_with, 0
            label = f"{kind} (now)"
        elif is_now:
            steps = f"{step or resumed}" if not step or first in (None, step) else f"{first} to {step}"
            label = f"now (step {steps})"
        evaluation = draft.replace(
            at=time.time(),
            kind=kind,
            label=label,
            step=step,
            num_examples=results.examples,
            rollouts=results.rollouts,
            **results.part("mean", "std", "stderr", "input_tokens", "rewards"),
            truncated_frac=results.truncated / results.rollouts if results.rollouts else 0.0,
            failed_frac=results.failed / results.rollouts if results.rollouts else 0.0,
            verdict=state,
            words=explanation,
            results=str(folder) if results.rollouts else "",
            seconds=max(0.0, time.time() - (running.started_at or time.time())),
        )
        await asyncio.to_thread(self.folder.save, evaluation)
        self._report_result(evaluation)

    def _report_result(self, evaluation: Evaluation) -> None:
        value = "no mean" if evaluation.mean is None else f"{evaluation.mean:.3f}"
        error = "" if evaluation.stderr is None else f" ± {evaluation.stderr:.3f}"
        bad = "" if evaluation.verdict == "ok" else f" ({evaluation.verdict})"
        explanation = f": {evaluation.words}" if evaluation.words else ""
        self._events.journal.add(
            "eval",
            f"{evaluation.label} on {evaluation.env}: {value}{error}{bad}{explanation}",
            step=evaluation.step,
            failed=evaluation.verdict != "ok",
            **evaluation.part("id", "env", "rollouts", "mean", "stderr", "verdict"),
        )
        if evaluation.is_sound and evaluation.mean is not None:
            name = f"eval/{evaluation.env.rpartition('/')[2]}/reward/mean"
            self._observation.recorder.sample({name: evaluation.mean}, OWN_SOURCE, evaluation.step)

    # --- small helpers ------------------------------------------------------------------------------------

    async def _refuse_tokens(self, request: EvalRequest, context: int | None) -> None:
        """Raise UsageError if every answer would be an error of the server."""
        evaluations = await asyncio.to_thread(self.folder.ended)
        prompt_tokens = [
            evaluation.input_tokens
            for evaluation in evaluations
            if evaluation.env == request.env and evaluation.input_tokens
        ]
        if reason := refusal(request.max_tokens, context, max(prompt_tokens, default=None)):
            raise UsageError(reason, hint="lower --max-tokens, or raise the model's context length")

    def _draft(self, running: QueuedEval) -> Evaluation:
        request = running.request
        return Evaluation(
            id=running.id,
            at=time.time(),
            experiment=self._setup.record.name,
            run=self._observation.run_id if request.target.kind in ("now", "checkpoint") else "",
            kind=request.target.kind,
            label=request.target.label,
            step=request.target.step,
            env=request.env,
            num_examples=0,
            rollouts=0,
            rollouts_per_example=request.rollouts_per_example,
            verdict="empty",
        )

    def _step(self) -> int | None:
        return self._observation.progress.progress.step

    def _end_reason(self) -> str:
        lifecycle = self._processes.runners[COMPONENT].lifecycle
        if lifecycle.state is ComponentState.EXITED:
            return ""
        return lifecycle.reason or ("stopped" if lifecycle.state is ComponentState.STOPPED else "failed")


async def _served(address: ServerAddress) -> ServedModel | None:
    key = os.environ.get(address.key_variable, "") if address.key_variable else ""
    return await asyncio.to_thread(served, address.url.rstrip("/"), timeout_s=_SERVED_TIMEOUT_S, key=key)
