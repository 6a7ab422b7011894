"""Inference servers that somebody else runs: asked by the clock, judged, and told; and who uses ours."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rltui.core import hints
from rltui.core.api import Alert, Plan
from rltui.core.config_report import Problem
from rltui.core.servers import (
    Answer,
    ServerAddress,
    ServerState,
    ServerStatus,
    doubts,
    judged,
    server_ids,
)
from rltui.core.stalls import facts_of, parse_activity
from rltui.core.template import Missing
from rltui.core.text import listed
from rltui.daemon.config import Config, Setup
from rltui.daemon.events import EventBus
from rltui.daemon.observation import Observation
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import ServiceCall
from rltui.services.probes import ask_server, read_exposition
from rltui.services.runs.experiments import find_experiment
from rltui.services.runs.leases import trained_by, training, users_of

SERVER = "server"
"""Key of problems with a server that is elsewhere."""
_INTERVAL_S, _UNWATCHED_S = 2.0, 10.0
"""Between two questions, while somebody looks or a start waits for it, and else."""
_MAX_UNANSWERED = 3
"""So many questions without an answer and a server that was ready counts as down."""
_USERS_INTERVAL_S = 5.0


@dataclass(slots=True)
class _WatchedServer:
    id: str
    address: ServerAddress
    state: ServerState = "unknown"
    reason: str | None = None
    since: float | None = None
    answer: Answer = field(default_factory=Answer)
    unanswered: int = 0
    facts: tuple[str, ...] = ()


class Servers:
    """Looks, and starts nothing. All methods run on the supervisor's loop.

    `on_change` is called when a start that waited may go on, or must be given up.
    """

    def __init__(self, setup: Setup, config: Config, observation: Observation, events: EventBus) -> None:
        self._setup = setup
        self._config = config
        self._observation = observation
        self._events = events
        self._servers: tuple[_WatchedServer, ...] = ()
        self._poll_lock = asyncio.Lock()
        self._users: tuple[str, ...] = ()
        self._users_at = -_USERS_INTERVAL_S
        self.on_change: Callable[[], None] = lambda: None
        self.is_in_use: Callable[[], bool] = lambda: False
        """Some component of the experiment lives, or waits."""

    # --- servers that this run uses -----------------------------------------------------------------------

    @property
    def is_external(self) -> bool:
        return "inference" in self._setup.record.external

    @property
    def source(self) -> str:
        record = self._setup.record
        return record.inference_of or ("--inference" if record.inference else "config")

    async def watch(self) -> None:
        while True:
            if self.is_external:
                await self.poll()
            await self._poll_users()
            is_missed = any(each.state == "down" or each.unanswered for each in self._servers)
            is_watched = (is_missed and self.is_in_use()) or len(self._events.broadcast) > 0
            await asyncio.sleep(_INTERVAL_S if is_watched else _UNWATCHED_S)

    async def poll(self) -> None:
        """Ask each server once, and tell what is new. Whoever comes meanwhile waits for the same answers."""
        if self._poll_lock.locked():
            async with self._poll_lock:
                return
        async with self._poll_lock:
            self._refresh_addresses()
            for each in self._servers:
                key = os.environ.get(each.address.key_variable, "")
                answer = await asyncio.to_thread(ask_server, each.address, key)
                exposition = None
                if not answer.fault:
                    exposition = await read_exposition(f"{each.address.root}/metrics", key=key)
                self._update(each, answer, exposition, key_is_set=bool(key))

    def _refresh_addresses(self) -> None:
        """From the config as it is now; those before, where it cannot be read."""
        try:
            addresses = self._setup.framework.inference_servers(self._config.store.files)
        except ConfigError as error:
            self._events.config_error(error)
            return
        if addresses != tuple(each.address for each in self._servers):
            named = zip(server_ids(len(addresses)), addresses, strict=True)
            self._servers = tuple(_WatchedServer(name, address) for name, address in named)

    def _update(
        self, each: _WatchedServer, answer: Answer, exposition: bytes | None, *, key_is_set: bool
    ) -> None:
        state, reason = judged(each.address, answer, key_is_set=key_is_set)
        each.unanswered = each.unanswered + 1 if state == "down" else 0
        if state == "down" and each.state == "ready" and each.unanswered < _MAX_UNANSWERED:
            return  # a busy one may miss one question
        activity = parse_activity(exposition) if exposition is not None else None
        if exposition is not None and activity is not None:
            self._observation.sampler.engine(each.id, exposition)
        self._observation.set_activity(each.id, activity)
        before, each.answer = each.state, answer
        each.facts = facts_of(activity) if activity is not None else ()
        is_news = (state, reason) != (each.state, each.reason)
        each.state, each.reason = state, reason
        if before != state:
            each.since = time.time()
            self._report_change(each, before)
        if is_news:
            self._events.changed("status")
            self.on_change()

    def _report_change(self, each: _WatchedServer, before: ServerState) -> None:
        url = each.address.url
        if each.state == "ready":
            serves = f", serving {listed(each.answer.models[:3])}" if each.answer.models else ""
            self._events.journal.add("server", f"{each.id} at {url} answers{serves}", url=url)
            if before == "down" and self.is_in_use():
                self._alert("recovered", "information", f"{each.id} answers again", url)
        elif before == "ready" or (before == "unknown" and self.is_in_use()):
            text = f"{url}: {each.reason}. What uses it waits or fails; nothing here can start it"
            self._alert("stall", "error", f"{each.id} (external) is {each.state}", text)

    def _alert(self, kind: str, severity: str, title: str, text: str) -> None:
        self._events.alert(
            Alert.model_validate({"kind": kind, "severity": severity, "title": title, "text": text})
        )

    def start_blocker(self, component: str) -> tuple[bool, str] | None:
        """What of these keeps a job of the run from starting: (it can still come, why)."""
        if not self.is_external or component not in self._setup.run_jobs:
            return None
        for each in self._servers:
            if each.state != "ready":
                why = f": {each.reason}" if each.reason else ""
                return each.state != "refused", f"the inference server at {each.address.url}{why}"
        return None if self._servers else (True, "the address of its inference server")

    def status(self) -> tuple[ServerStatus, ...]:
        return tuple(
            ServerStatus(
                id=each.id,
                url=each.address.url,
                state=each.state,
                reason=each.reason,
                models=each.answer.models,
                model=each.address.model,
                source=self.source,
                key_variable=each.address.key_variable,
                key_is_set=bool(os.environ.get(each.address.key_variable)),
                since=each.since,
                facts=each.facts,
            )
            for each in self._servers
        )

    # --- before a start -----------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Return when it is known how everything stands that a plan asks for."""
        if self.is_external:
            await self.poll()
        self._users_at = -_USERS_INTERVAL_S
        await self._poll_users()

    def problems(self, plan: Plan, *, is_anew: bool) -> tuple[Problem, ...]:
        """What stands in the way of a plan, or should be known before it is carried out. `is_anew`: its
        jobs begin at the beginning.
        """
        return (*self._server_problems(plan, is_anew=is_anew), *self._user_problems(plan))

    def _server_problems(self, plan: Plan, *, is_anew: bool) -> tuple[Problem, ...]:
        if not self.is_external or self._setup.run_jobs.isdisjoint(plan.start):
            return ()
        found = [Problem(key=SERVER, message=text) for text in self._lease_faults(is_anew=is_anew)]
        if "inference" not in self._setup.framework.external(self._config.store.files):
            record = self._setup.record
            again = f"{hints.DOWN(name=record.name)}, then {record.resume_command}, and it gets one"
            message = f"the config has an inference server now, and this experiment was made without: {again}"
            found.append(Problem(key=SERVER, message=message))
        for each in self._servers:
            if each.state == "ready":
                told = doubts(each.address, each.answer)
                found += [Problem(severity="hint", key=SERVER, message=text) for text in told]
            else:
                waits = "" if each.state == "refused" else "; what needs it waits until it answers"
                severity = "error" if each.state == "refused" else "warning"
                message = f"the inference server at {each.address.url}: {each.reason}{waits}"
                found.append(
                    Problem.model_validate({"severity": severity, "key": SERVER, "message": message})
                )
        return tuple(found)

    def _lease_faults(self, *, is_anew: bool) -> list[str]:
        """Why the server of another experiment must not be used now."""
        record = self._setup.record
        if not record.inference_of:
            return []
        try:
            owner = find_experiment(record.inference_of)
            busy = training(owner) if owner is not None else ()
            others = users_of(owner) if owner is not None else ()
            is_stale = owner is not None and is_anew and trained_by(owner) is not None
        except RltuiError as error:
            return [f"whose inference server this is cannot be said: {error.title}"]
        if owner is None:
            return [f"the experiment {record.inference_of}, whose inference server this is, is gone"]
        faults = []
        if busy:
            stop = hints.STOP(components=busy, name=owner.name)
            faults.append(f"{owner.name} trains with its inference server ({listed(busy)}): wait, or {stop}")
        names = [other.name for other in others if other.name != record.name]
        if names:
            faults.append(f"{listed(names)} uses the inference server of {owner.name} already")
        reset = self._reset(self._servers[0].address) if is_stale and self._servers else None
        if isinstance(reset, Missing):
            again = hints.RESTART_INFERENCE(name=owner.name)
            faults.append(f"the inference server of {owner.name}: {reset.reason}; {reset.hint}: {again}")
        return faults

    def _reset(self, address: ServerAddress) -> ServiceCall | Missing | None:
        files, launcher = self._config.store.files, self._config.launcher
        return self._setup.framework.weights_reset(files, launcher.context(files), address.root)

    def resets(self) -> list[ServiceCall]:
        """What the servers of another experiment are told before the jobs of this run start."""
        if not self._setup.record.inference_of:
            return []
        calls = ((each.address.key_variable, self._reset(each.address)) for each in self._servers)
        told = self._config.launcher.service_calls(self._config.store.files, resume_step=None)
        resets = [replace(call, key_variable=name) for name, call in calls if isinstance(call, ServiceCall)]
        return [*(call for call in told if call.component == "inference"), *resets]

    # --- who uses ours ------------------------------------------------------------------------------------

    @property
    def users(self) -> tuple[str, ...]:
        """Experiments that use the inference server of this one, as last seen."""
        return self._users

    async def _poll_users(self) -> None:
        now = time.monotonic()
        if now - self._users_at < _USERS_INTERVAL_S:
            return
        self._users_at = now
        found = await asyncio.to_thread(users_of, self._setup.record)
        names = tuple(user.name for user in found)
        if names != self._users:
            self._users = names
            self._events.changed("status")

    def _user_problems(self, plan: Plan) -> tuple[Problem, ...]:
        if not self._users or "inference" not in self._setup.components:
            return ()
        who, verb = listed(self._users), "uses" if len(self._users) == 1 else "use"
        if not self._setup.run_jobs.isdisjoint(plan.start):
            message = (
                f"{who} {verb} the inference server of this experiment, whose weights would change under it"
            )
            return (
                Problem(key=SERVER, message=f"{message}: end it first, {hints.DOWN(name=self._users[0])}"),
            )
        if "inference" in plan.stop:
            message = f"{who} {verb} the inference server that this stops, and cannot go on without it"
            return (Problem(severity="warning", key=SERVER, message=message),)
        return ()
