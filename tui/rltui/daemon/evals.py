"""Evaluations: a queue, one at a time; where each finds its server; what its results are worth."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rltui.core.api import ComponentState
from rltui.core.evals import (
    COMPONENT,
    SERVER,
    EvalReport,
    EvalRequest,
    EvalTarget,
    Evaluation,
    Figures,
    QueuedEval,
    refusal,
    verdict,
)
from rltui.core.gpu.report import GpuDevice, MemoryVerdict
from rltui.core.series import OWN_SOURCE
from rltui.core.text import unknown
from rltui.daemon.component import ComponentRunner
from rltui.daemon.config import Config, Setup
from rltui.daemon.events import EventBus
from rltui.daemon.observation import Observation
from rltui.daemon.processes import Processes
from rltui.errors import ConfigError, ConflictError, RltuiError, UsageError
from rltui.frameworks.base import ConfigFiles, EvalCall, EvalModel
from rltui.services import checkout
from rltui.services.gpu.memory_plan import MemoryPlan
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.own_files import make_folder
from rltui.services.probes import Served, served
from rltui.services.runs.evaluations import EvalFolder, EvalQueue, done_so_far, measured
from rltui.services.runs.observed import refuse_observed

_INFERENCE = "inference"
_LOOK_S = 2.0
"""Between two looks at what a waiting one waits for, and at how far the running one is."""
_SERVED_TIMEOUT_S = 10.0
_ENDED = (ComponentState.EXITED, ComponentState.FAILED, ComponentState.STOPPED)


class EvalKeeper:
    """Has the queue, and carries it out. Lives on the supervisor's loop; files are read in a thread."""

    def __init__(
        self,
        setup: Setup,
        config: Config,
        observation: Observation,
        processes: Processes,
        events: EventBus,
        *,
        servers: EvalServers,
        may_start: Callable[[], bool],
    ) -> None:
        """`may_start`: false once everything is being taken down."""
        self._setup = setup
        self._config = config
        self._observation = observation
        self._processes = processes
        self._events = events
        self._servers = servers
        self._may_start = may_start
        self._folder = EvalFolder(setup.control)
        self._queue = EvalQueue()

    # --- requests -----------------------------------------------------------------------------------------

    @property
    def queue(self) -> tuple[QueuedEval, ...]:
        """The running one first, then in the order they will run."""
        running = () if self._queue.running is None else (self._queue.running,)
        return (*running, *self._queue.waiting)

    async def report(self) -> EvalReport:
        """All of them."""
        return await asyncio.to_thread(self._folder.report, self._setup.record.name, self._queue)

    async def ask(self, request: EvalRequest, *, by: str = "you") -> QueuedEval:
        """Put it behind the others.

        Raises:
            ConfigError: if it cannot be done: no evaluator, no such checkpoint or model.
            UsageError: if its answers cannot fit the model's context.
        """
        refuse_observed(self._setup.record)
        files = self._config.store.load()
        request = self._completed(request, files)
        self._servers.refuse(request, files)
        await self._refuse_tokens(request, self._servers.configured_context(files))
        id_ = await asyncio.to_thread(self._folder.new, self._queue)
        queued = QueuedEval(id=id_, request=request, by=by, at=time.time(), env=request.env)
        self._change(waiting=(*self._queue.waiting, queued))
        self._events.journal.add("eval", f"{queued.label} is asked for by {by}", id=id_, asked=True)
        self._processes.changes.notify()
        return queued

    async def cancel(self, id_: str) -> EvalReport:
        """Take one from the queue, or end the one that runs.

        Raises:
            UsageError: if there is none of that id.
        """
        found = next((each for each in self.queue if each.id == id_), None)
        if found is None:
            raise unknown("evaluation in the queue", id_, [each.id for each in self.queue])
        if found.state == "running":
            await self._processes.stop([COMPONENT])
            await self._servers.stop()
        else:
            self._change(waiting=tuple(each for each in self._queue.waiting if each.id != id_))
            self._events.journal.add("eval", f"{found.label} is not wanted any more", id=id_, asked=True)
        return await self.report()

    async def order(self, every: int, request: EvalRequest) -> EvalReport:
        """Evaluate one of so many checkpoints from now on; 0: none.

        Raises:
            ConfigError, UsageError: as `ask`.
        """
        if every:
            request = self._completed(request, self._config.store.load())
        self._change(every=every, order=request, seen=0)
        text = f"every {every} checkpoints are evaluated" if every > 1 else "every checkpoint is evaluated"
        self._events.journal.add("eval", text if every else "no checkpoint is evaluated unasked", asked=True)
        return await self.report()

    async def checkpoint(self, step: int) -> None:
        """A checkpoint is complete: the standing order may want it."""
        queue = self._queue
        if not queue.every:
            return
        self._change(seen=queue.seen + 1)
        if self._queue.seen % queue.every:
            return
        by = "eval_every"
        target = EvalTarget(kind="checkpoint", step=step)
        try:
            try:
                await self.ask(queue.order.model_copy(update={"target": target}), by=by)
            except ConfigError:  # no weights are kept with it: those that the server has now are the same
                await self.ask(queue.order.model_copy(update={"target": EvalTarget()}), by=by)
        except RltuiError as error:
            self._events.journal.add("eval", f"checkpoint {step} is not evaluated: {error.title}", asked=True)

    # --- the work -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carry out what is in the queue, for ever."""
        self._queue = await asyncio.to_thread(self._folder.queue)
        if (left := self._queue.running) is not None:  # of an earlier supervisor
            await self._carry_out(left, self._queue.begun)
        await self._servers.stop()
        while True:
            found = self._next() if self._may_start() else None
            if found is None:
                await self._wait()
            else:
                await self._carry_out(found)

    def _next(self) -> QueuedEval | None:
        """The first whose time has come; the others are told what they wait for."""
        if not self._queue.waiting:
            return None
        files = self._config.store.files
        chosen, waiting = None, []
        for each in self._queue.waiting:
            why = "another evaluation" if chosen is not None else self._why_waiting(each, files)
            if why is None:
                chosen = each
            waiting.append(each.model_copy(update={"why": why or ""}))
        if tuple(waiting) != self._queue.waiting:
            self._change(waiting=tuple(waiting))
        return chosen

    def _why_waiting(self, queued: QueuedEval, files: ConfigFiles) -> str | None:
        if queued.request.when_done and not self._processes.is_done():
            return "the end of the run"
        return self._servers.why_waiting(queued.request, files)

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S if self._queue.waiting else None):
                await self._processes.changes.wait()

    async def _carry_out(self, queued: QueuedEval, begun: Evaluation | None = None) -> None:
        """From the queue to its record. `begun`: its evaluator was started by an earlier supervisor."""
        waiting = tuple(each for each in self._queue.waiting if each.id != queued.id)
        running = queued.model_copy(update={"state": "running", "why": "", "started_at": time.time()})
        self._change(waiting=waiting, running=running, begun=begun)
        ended = ""
        try:
            if begun is None:
                await self._begin(running)
            await self._until_ended(self._processes.runners[COMPONENT], watched=running)
        except RltuiError as error:
            ended = error.title
        except Exception as error:
            await self._conclude(running, f"an error in rltui itself: {error!r}")
            raise
        if self._may_start():
            await self._conclude(running, ended)
        else:  # everything is being taken down: it is done again when the experiment is up again
            self._change(waiting=(queued, *self._queue.waiting), running=None, begun=None)
        if not self._is_wanted_again(running):
            await self._servers.stop()

    async def _begin(self, running: QueuedEval) -> None:
        """Find or start a server, and start the evaluator.

        Raises:
            RltuiError: why that cannot be.
        """
        files = self._config.store.load()
        request = running.request
        draft = self._draft(running)
        if request.target.kind == "now":
            url = self._servers.warm()
            draft = draft.model_copy(update={"first_step": self._step()})
        else:
            model = self._servers.model(request.target, files)
            draft = draft.model_copy(update=self._of_model(model))
            self._tell(running, f"loading {model.label}")
            url = await self._started_server(model, files)
        now = await asyncio.to_thread(served, url, timeout_s=_SERVED_TIMEOUT_S)
        if now is None:
            raise RltuiError(f"{url}/models does not say which model is served")
        await self._refuse_tokens(request, now.context)
        self._change(begun=await self._start_evaluator(draft, request, url, now, files))

    async def _started_server(self, model: EvalModel, files: ConfigFiles) -> str:
        runner = self._processes.runners[SERVER]
        if self._servers.serves == model.name and runner.life.state is ComponentState.READY:
            return self._servers.url
        await self._servers.stop()
        await self._servers.start(model, files)
        while runner.life.state is not ComponentState.READY:
            if runner.life.state in _ENDED:
                raise RltuiError(f"no server of {model.label}: {runner.life.reason or 'it was stopped'}")
            await self._processes.changes.wait()
        return self._servers.url

    async def _start_evaluator(
        self, draft: Evaluation, request: EvalRequest, url: str, now: Served, files: ConfigFiles
    ) -> Evaluation:
        setup, launcher = self._setup, self._config.launcher
        results = await asyncio.to_thread(self._folder.results, draft.id)
        programs = await asyncio.to_thread(self._servers.programs)
        call = EvalCall(request, url, now.model, str(results), programs)
        command = setup.framework.evaluation(files, launcher.context(files), call)
        given: dict[str, str | tuple[str, ...]] = {
            "base_url": url,
            "model": now.model,
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
            added = [f"{name}={value}" for name, value in command.env.items()]
            given["command"] = (*(("env", *added) if added else ()), *command.argv)
            for note in command.notes:
                self._events.journal.add("eval", note, component=COMPONENT, asked=True)
        runner = self._processes.runners[COMPONENT]
        launcher.give(COMPONENT, given)
        runner.start()
        while runner.life.state is ComponentState.WAITING:
            await self._processes.changes.wait()
        argv = runner.launch.argv if runner.launch is not None else ()
        return draft.model_copy(
            update={"model": draft.model or now.model, "results": str(results), "command": argv}
        )

    async def _until_ended(self, runner: ComponentRunner, watched: QueuedEval) -> None:
        while runner.life.busy:
            begun = self._queue.begun
            if begun is not None:
                done = await asyncio.to_thread(done_so_far, Path(begun.results), runner.log, watched.request)
                self._tell(watched, "the evaluator runs", done=done)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._processes.changes.wait()

    async def _conclude(self, running: QueuedEval, ended: str) -> None:
        """Write its record, and tell everybody."""
        begun = self._queue.begun or self._draft(running)
        found, folder = Figures(), Path(begun.results)
        if self._queue.begun is not None:
            found, folder = await asyncio.to_thread(measured, folder)
            ended = ended or self._how_it_ended()
        told, words = verdict(found, running.request, ended)
        step = self._step() if running.request.target.kind == "now" else begun.step
        evaluation = begun.model_copy(
            update={
                "at": time.time(),
                "label": _now_label(begun.first_step, step, self._observation.resume_step)
                if running.request.target.kind == "now"
                else begun.label,
                "step": step,
                "num_examples": found.examples,
                "rollouts": found.rollouts,
                **found.model_dump(include={"mean", "std", "stderr", "input_tokens", "rewards"}),
                "truncated_frac": found.truncated / found.rollouts if found.rollouts else 0.0,
                "failed_frac": found.failed / found.rollouts if found.rollouts else 0.0,
                "verdict": told,
                "words": words,
                "results": str(folder) if found.rollouts else "",
                "seconds": max(0.0, time.time() - (running.started_at or time.time())),
            }
        )
        if running.request.target.kind == "now" and not step and self._observation.resume_step is None:
            evaluation = evaluation.model_copy(update={"kind": "base", "label": "base (now)", "step": 0})
        await asyncio.to_thread(self._folder.keep, evaluation)
        self._change(running=None, begun=None)
        self._tell_result(evaluation)

    def _tell_result(self, evaluation: Evaluation) -> None:
        value = "no mean" if evaluation.mean is None else f"{evaluation.mean:.3f}"
        error = "" if evaluation.stderr is None else f" ± {evaluation.stderr:.3f}"
        bad = "" if evaluation.verdict == "ok" else f" ({evaluation.verdict})"
        said = f": {evaluation.words}" if evaluation.words else ""
        self._events.journal.add(
            "eval",
            f"{evaluation.label} on {evaluation.env}: {value}{error}{bad}{said}",
            step=evaluation.step,
            failed=evaluation.verdict != "ok",
            **evaluation.model_dump(include={"id", "mean", "stderr", "verdict", "env", "rollouts"}),
        )
        if evaluation.is_sound and evaluation.mean is not None:
            name = f"eval/{evaluation.env.rpartition('/')[2]}/reward/mean"
            self._observation.recorder.sample({name: evaluation.mean}, OWN_SOURCE, evaluation.step)

    # --- small helpers ------------------------------------------------------------------------------------

    def _completed(self, request: EvalRequest, files: ConfigFiles) -> EvalRequest:
        """With the environment and the tokens that the config has."""
        framework = self._setup.framework
        env = request.env or framework.eval_env(files)
        if not env:
            raise UsageError("the config names no environment to evaluate on", hint="rltui eval ENV")
        tokens = request.max_tokens or framework.eval_max_tokens(files)
        return request.model_copy(update={"env": env, "max_tokens": tokens})

    async def _refuse_tokens(self, request: EvalRequest, context: int | None) -> None:
        """Raises UsageError: every answer would be an error of the server."""
        ended = await asyncio.to_thread(self._folder.ended)
        known = [each.input_tokens for each in ended if each.env == request.env and each.input_tokens]
        if why := refusal(request.max_tokens, context, max(known, default=None)):
            raise UsageError(why, hint="give fewer with --max-tokens, or raise the model's context")

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

    @staticmethod
    def _of_model(model: EvalModel) -> dict[str, object]:
        return {"kind": model.kind, "label": model.label, "model": model.name, "step": model.step}

    def _is_wanted_again(self, before: QueuedEval) -> bool:
        """The next one asks the same model."""
        follower = self._queue.waiting[0] if self._queue.waiting else None
        return follower is not None and follower.request.target == before.request.target

    def _step(self) -> int | None:
        return self._observation.progress.progress.step

    def _how_it_ended(self) -> str:
        """The evaluator, where that was not well."""
        life = self._processes.runners[COMPONENT].life
        if life.state is ComponentState.EXITED:
            return ""
        return life.reason or ("it was stopped" if life.state is ComponentState.STOPPED else "it failed")

    def _tell(self, running: QueuedEval, why: str, *, done: int = 0) -> None:
        now = running.model_copy(update={"why": why, "done": done})
        if now != self._queue.running:
            self._change(running=now)

    def _change(self, **changes: object) -> None:
        before, self._queue = self._queue, self._queue.model_copy(update=changes)
        if self._queue != before:
            self._folder.keep_queue(self._queue)
            self._events.changed("status")


def _now_label(first: int | None, last: int | None, resumed: int | None) -> str:
    """`now (step 12 to 14)`."""
    if not last:
        return "now" if resumed is None else f"now (step {resumed})"
    return f"now (step {last})" if first in (None, last) else f"now (step {first} to {last})"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a server can be."""

    gpus: str
    gpu_memory: str


class EvalServers:
    """The server of the run, and the one for an evaluation: its model, port and GPU."""

    def __init__(
        self,
        setup: Setup,
        config: Config,
        runners: dict[str, ComponentRunner],
        readings: GpuReadings,
        memory: MemoryPlan,
    ) -> None:
        self._setup = setup
        self._config = config
        self._runners = runners
        self._readings = readings
        self._memory = memory
        self.serves = ""
        """Name of the model that the server for evaluations was last started with."""
        self.url = ""

    @property
    def is_up(self) -> bool:
        """That for evaluations runs."""
        return SERVER in self._runners and self._runners[SERVER].life.busy

    def programs(self) -> dict[str, str]:
        """Evaluators in the framework's environment, with their versions. For a thread."""
        framework, record = self._setup.framework, self._setup.record
        if framework.checkout is None or not framework.eval_packages:
            return {}
        files = [Path(name) for name in record.config_files]
        folder = checkout.programs(framework.checkout, workspace=self._setup.workspace, config_files=files)
        return {} if folder is None else checkout.installed(folder, framework.eval_packages)

    def configured_context(self, files: ConfigFiles) -> int | None:
        """Tokens of a prompt and its answer, as the config has it."""
        engine = self._setup.framework.engine_memory(files)
        return None if engine is None else engine.max_model_len

    def refuse(self, request: EvalRequest, files: ConfigFiles) -> None:
        """Raises ConfigError: what is asked for can never be."""
        for name in (COMPONENT, *(() if request.target.kind == "now" else (SERVER,))):
            if name not in self._runners:
                raise ConfigError(
                    f"the layout has no component {name!r}, which an evaluation needs",
                    hint="layouts/README.md says how to write one",
                )
        if request.target.kind != "now":
            self.model(request.target, files)

    def model(self, target: EvalTarget, files: ConfigFiles) -> EvalModel:
        """What is meant by a target, with the folder that is there.

        Raises:
            ConfigError: if there is none.
        """
        model = self._setup.framework.eval_model(files, self._config.launcher.context(files), target)
        places = [place for place in model.places if _has_weights(Path(place), model.marker)]
        if places:
            return EvalModel(model.kind, model.label, places[0], model.step)
        if model.places:
            raise ConfigError(
                f"{model.label} has no weights that a server could load",
                details=[f"looked for: {place}" for place in model.places],
                hint="rltui eval --now evaluates what the server of the run has",
            )
        if model.name.startswith("/") and not _has_weights(Path(model.name), model.marker):
            raise ConfigError(f"{model.name} is no folder of weights")
        return model

    def warm(self) -> str:
        """URL of the server of the run.

        Raises:
            ConflictError: if it does not run.
        """
        runner = self._runners.get(_INFERENCE)
        launch = runner.launch if runner is not None and runner.life.state is ComponentState.READY else None
        address = launch.ready.http if launch is not None and launch.ready is not None else None
        if launch is None or address is None:
            raise ConflictError(
                "the inference server of the run does not run, so nothing has the weights of now",
                hint="rltui start inference, or evaluate --checkpoint N with a server of its own",
            )
        parts = urlsplit(address)
        port = launch.port or parts.port
        return f"{parts.scheme}://{parts.hostname}:{port}/v1"

    def why_waiting(self, request: EvalRequest, files: ConfigFiles) -> str | None:
        """What is not there yet; `None` where it can begin, if only to be refused."""
        if request.target.kind == "now":
            runner = self._runners.get(_INFERENCE)
            is_coming = runner is not None and runner.life.expected
            ready = runner is not None and runner.life.state is ComponentState.READY
            return "inference to be ready" if is_coming and not ready else None
        if self.is_up:
            return None
        try:
            found = self._place(self.model(request.target, files), files)
        except ConfigError:
            return None
        return found if isinstance(found, str) else None

    async def start(self, model: EvalModel, files: ConfigFiles) -> None:
        """Begin a start of a server of that model.

        Raises:
            RltuiError: if there is no room for it.
        """
        place = self._place(model, files)
        if isinstance(place, str):
            raise RltuiError(f"no server of {model.label}: {place}")
        context, port = self._config.launcher.context(files), _free_port()
        command = self._setup.framework.eval_server(files, context, model, port)
        self._give(model, place, port, command.argv if command is not None else ())
        self.serves, self.url = model.name, f"http://127.0.0.1:{port}/v1"
        self._runners[SERVER].start()

    async def stop(self) -> None:
        """End that for evaluations, where it runs: it has no claim on any device from then on."""
        if SERVER in self._runners:
            await self._runners[SERVER].stop()
            self._config.launcher.give(SERVER, {})
        self.serves = ""

    def _give(self, model: EvalModel, place: _Place, port: int, options: Iterable[str]) -> None:
        self._config.launcher.give(
            SERVER,
            {
                "model": model.name,
                "port": str(port),
                "gpus": place.gpus,
                "gpu_memory": place.gpu_memory,
                "options": tuple(options),
            },
        )

    def _place(self, model: EvalModel, files: ConfigFiles) -> _Place | str:
        """The device with the most room, and how much of it; in words why there is none."""
        framework = self._setup.framework
        engine = framework.engine_memory(files)
        names = self._config.launcher.context(files).devices
        devices = [(name, found[0]) for name in names if (found := self._readings.chosen(name))]
        if engine is None or not devices or not self._computes_on_gpu(files):
            return _Place("", "")
        try:
            return self._tried(
                model, [name for name, _ in sorted(devices, key=_free)], engine.utilization, files
            )
        finally:
            self._config.launcher.give(SERVER, {})

    def _tried(
        self, model: EvalModel, names: Iterable[str], utilization: float, files: ConfigFiles
    ) -> _Place | str:
        worst = ""
        for name in names:
            share: float | None = utilization
            for _ in range(2):  # as the config has it, then as much as fits
                if share is None:
                    break
                place = _Place(name, f"{share:.2f}")
                self._give(model, place, 0, ())
                bad = self._bad(files)
                if bad is None:
                    return place
                worst = worst or bad.text
                share = bad.suggested_utilization
        return f"GPU memory: {worst}"

    def _bad(self, files: ConfigFiles) -> MemoryVerdict | None:
        devices = self._readings.newest.devices
        verdicts = self._memory.verdicts(devices, files, starts=(SERVER,))
        return next((each for each in verdicts if each.is_bad), None)

    def _computes_on_gpu(self, files: ConfigFiles) -> bool:
        """The server of the run has devices: that of an evaluation needs one, too."""
        return _INFERENCE in self._runners and bool(self._config.launcher.gpus(_INFERENCE, files))


def _free(device: tuple[str, GpuDevice]) -> int:
    """Most first."""
    return -(device[1].free_bytes or 0)


def _has_weights(folder: Path, marker: str) -> bool:
    if marker and not (folder / marker).exists():
        return False
    return (folder / "config.json").is_file() or any(folder.glob("*.safetensors"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
