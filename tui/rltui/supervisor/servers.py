"""Servers that somebody else runs: polled and judged; and the users of this experiment's server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from rltui.base.template import Missing
from rltui.base.text import join_words
from rltui.core import hints
from rltui.core.config.report import Problem
from rltui.core.experiment.api import Alert, Bottleneck, Plan
from rltui.core.experiment.refusal import SERVER
from rltui.core.experiment.servers import (
    Answer,
    ServerAddress,
    ServerState,
    ServerStatus,
    judge_server,
    server_fault,
    server_ids,
    server_warnings,
)
from rltui.core.metrics.engine import parse_activity
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.launch import ServiceCall
from rltui.services.config.files import FilesCache
from rltui.services.experiment.leases import trained_by, training, users_of
from rltui.services.experiment.probes import query_server, read_exposition
from rltui.services.experiment.registry import find_experiment, name_if_needed
from rltui.supervisor.config import Config, Setup
from rltui.supervisor.events import EventBus
from rltui.supervisor.observation import Observation

_server_problem = partial(Problem, key=SERVER, code="server_unusable")
_INTERVAL_S, _UNWATCHED_S = 2.0, 10.0
"""Poll intervals: while a client watches or a start waits for a server, and otherwise."""
_MAX_UNANSWERED = 3
"""A server that was ready counts as down after so many polls without an answer."""
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
    """Polls, and starts nothing. The bus tells when a start that waited may go on, or must not."""

    def __init__(
        self,
        setup: Setup,
        config: Config,
        observation: Observation,
        events: EventBus,
        *,
        is_in_use: Callable[[], bool],
        is_expected: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`is_in_use`: whether a component of the experiment lives, or waits. `is_expected`: whether the one
        of that id does, or will by itself.
        """
        self._is_in_use = is_in_use
        self._is_expected = is_expected
        self._setup = setup
        self._config = config
        self._observation = observation
        self._events = events
        self._servers: tuple[_WatchedServer, ...] = ()
        self.further = FilesCache(setup.framework.servers.further)
        """Same as in `ServersSide`; cheap while the files stay."""
        self._poll_lock = asyncio.Lock()
        self.users: tuple[str, ...] = ()
        """Experiments that use the inference server of this one, as of the last poll."""
        self._users_at = -_USERS_INTERVAL_S

    # --- servers that this run uses -----------------------------------------------------------------------

    @property
    def is_external(self) -> bool:
        return "inference" in self._setup.record.external

    async def watch(self) -> None:
        while True:
            await self.poll()
            await self._poll_users()
            is_unreachable = any(server.state == "down" or server.unanswered for server in self._servers)
            is_watched = (is_unreachable and self._is_in_use()) or len(self._events.broadcast) > 0
            await asyncio.sleep(_INTERVAL_S if is_watched else _UNWATCHED_S)

    async def poll(self) -> None:
        """Ask each server once, and report changes. Whoever calls meanwhile waits for the same answers."""
        if self._poll_lock.locked():
            async with self._poll_lock:
                return
        async with self._poll_lock:
            self._refresh_addresses()
            await asyncio.gather(*map(self._ask, self._servers))

    async def _ask(self, server: _WatchedServer) -> None:
        address = server.address
        if not self._is_asked(server):
            return
        key = os.environ.get(address.key_variable, "")
        answer = await asyncio.to_thread(query_server, address, key)
        exposition = None
        if not answer.fault and not address.needed_for:
            exposition = await read_exposition(f"{address.root}/metrics", key=key)
        self._update(server, answer, exposition, key_is_set=bool(key))

    def _refresh_addresses(self) -> None:
        """Read the addresses from the config; the previous ones stay where that cannot be read."""
        side, files = self._setup.framework.servers, self._config.document.files
        try:
            addresses = side.addresses(files) if self.is_external else ()
            named = [*zip(server_ids(len(addresses)), addresses, strict=True)]
            named += [(address.id, address) for address in self.further(files)]
        except ConfigError as error:
            self._events.config_error(error)
            return
        known = {(server.id, server.address): server for server in self._servers}
        self._servers = tuple(known.get(entry) or _WatchedServer(*entry) for entry in named)

    def _update(
        self, server: _WatchedServer, answer: Answer, exposition: bytes | None, *, key_is_set: bool
    ) -> None:
        state, reason = judge_server(server.address, answer, key_is_set=key_is_set)
        server.unanswered = server.unanswered + 1 if state == "down" else 0
        if state == "down" and server.state == "ready" and server.unanswered < _MAX_UNANSWERED:
            return  # a busy one may miss one question
        activity = (
            parse_activity(exposition, self._setup.framework.engine.metrics)
            if exposition is not None
            else None
        )
        if exposition is not None and activity is not None:
            self._observation.sampler.engine(server.id, exposition)
        if not server.address.needed_for:  # a component that serves a teacher is asked itself
            self._observation.set_activity(server.id, activity)
        previous, server.answer = server.state, answer
        server.facts = activity.facts if activity is not None else ()
        is_changed = (state, reason) != (server.state, server.reason)
        server.state, server.reason = state, reason
        if previous != state:
            server.since = time.time()
            self._report_change(server, previous)
        if is_changed:
            self._events.changed("status")
            self._events.changed("servers")

    def _report_change(self, server: _WatchedServer, previous: ServerState) -> None:
        url = server.address.url
        is_own = self._is_expected(server.address.component)  # what happens to that is told of the component
        if server.state == "ready":
            models_text = f", serving {join_words(server.answer.models[:3])}" if server.answer.models else ""
            self._events.journal.add("server", f"{server.id} at {url} answers{models_text}", url=url)
            if previous == "down" and self._is_in_use() and not is_own:
                title = f"{server.id} answers again"
                self._events.alert(Alert(kind="recovered", severity="information", title=title, text=url))
            return
        condition = "is down" if server.state == "down" else "cannot be used"
        title, text = f"{server.id} (external) {condition}", f"{url}: {server.reason}"
        if server.address.needed_for:
            text += f"; {server.address.needed_for} that need it hang{self._remedy(server)}"
        else:
            text += ". Components that use this server wait or fail; rltui cannot start it"
        if not is_own and (previous == "ready" or (previous == "unknown" and self._is_in_use())):
            self._events.alert(Alert(kind="stall", severity="error", title=title, text=text))

    def _remedy(self, server: _WatchedServer, *, is_first: bool = False) -> str:
        """The command that serves it on this machine, after a semicolon; empty if none does."""
        component, name = server.address.component, self._setup.record.name
        if component not in self._setup.parts or server.state != "down":
            return ""
        if is_first:
            commands = f"{hints.UP_ONLY(component=component)}, then {hints.START_RUN(name=name)}"
        else:
            commands = hints.START(component=component, name=name_if_needed(name))
        return f"; to serve it here: {commands}"

    @property
    def _may_start_without(self) -> bool:
        """Return whether a start goes on: with --force, or where the jobs run on another machine,
        which may reach what this one does not.
        """
        return self._setup.record.forced or not self._setup.are_jobs_here

    def _is_asked(self, server: _WatchedServer) -> bool:
        """False for one at an address of another machine, on which the jobs run."""
        address = server.address
        return not (address.is_here and address.needed_for) or self._setup.are_jobs_here

    def start_blocker(self, component: str) -> tuple[bool, str] | None:
        """Why a job of the run cannot start: (whether that can still pass, reason); `None` if nothing is in
        the way.
        """
        if component not in self._setup.run_jobs:
            return None
        for server in self._servers:
            if server.state != "ready" and not (server.address.needed_for and self._may_start_without):
                reason = f": {server.reason}" if server.reason else ""
                name = server.address.id or "the inference server"
                is_passing = server.state != "refused" or self._is_expected(server.address.component)
                return is_passing, f"{name} at {server.address.url}{reason}"
        is_known = self._servers or not self.is_external
        return None if is_known else (True, "the address of its inference server")

    def bottleneck(self, waiting: str) -> Bottleneck | None:
        """The server without which the component `waiting` cannot go on."""
        for server in self._servers:
            if server.address.needed_for and server.state in ("down", "refused"):
                text = f"{waiting} waits for {server.id} at {server.address.url} ({server.reason})"
                return Bottleneck(
                    waits=waiting,
                    waits_for=server.id,
                    share_frac=1.0,
                    steps=0,
                    text=text + self._remedy(server),
                )
        return None

    def status(self) -> tuple[ServerStatus, ...]:
        record = self._setup.record
        source = record.inference_of or ("--inference" if record.inference else "config")
        return tuple(
            ServerStatus(
                id=server.id,
                url=server.address.url,
                state=server.state,
                reason=server.reason,
                models=server.answer.models,
                model=server.address.model,
                source="config" if server.address.needed_for else source,
                key_variable=server.address.key_variable,
                key_is_set=bool(os.environ.get(server.address.key_variable)),
                since=server.since,
                facts=server.facts,
                used_for=server.address.used_for,
                key=server.address.key,
            )
            for server in self._servers
            if not self._is_expected(server.address.component)  # shown as that
        )

    # --- before a start -----------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Poll the servers and their users, for a plan that depends on them."""
        await self.poll()
        self._users_at = -_USERS_INTERVAL_S
        await self._poll_users()

    def problems(
        self, plan: Plan, files: ConfigFiles, *, is_anew: bool, is_first: bool = False
    ) -> tuple[Problem, ...]:
        """Errors and warnings about a plan with the config `files`. `is_anew`: its jobs begin at the
        beginning. `is_first`: as in `Request`.
        """
        return (
            *self._server_problems(plan, is_anew=is_anew),
            *self._further_problems(plan, files, is_first=is_first),
            *self._user_problems(plan),
        )

    def _further_problems(self, plan: Plan, files: ConfigFiles, *, is_first: bool) -> Iterator[Problem]:
        """An error for each server without which the run hangs; a warning if it may start all the same. One
        that an edit adds has not been asked: components wait for it.
        """
        needed = self.further(files)
        for server in self._servers if self._setup.run_jobs.intersection(plan.start) else ():
            address, component = server.address, server.address.component
            is_coming = component in plan.start or (
                component not in plan.stop and self._is_expected(component)
            )
            if address in needed and server.state in ("down", "refused") and not is_coming:
                message = server_fault(address, server.state, server.reason)
                yield _server_problem(
                    severity="warning" if self._may_start_without else "error",
                    message=message + self._remedy(server, is_first=is_first),
                )

    def _server_problems(self, plan: Plan, *, is_anew: bool) -> tuple[Problem, ...]:
        if not self.is_external or self._setup.run_jobs.isdisjoint(plan.start):
            return ()
        problems = [_server_problem(message=text) for text in self._lease_faults(is_anew=is_anew)]
        engine_title = self._setup.framework.engine.memory.title
        if "inference" not in self._setup.framework.servers.external(self._config.document.files):
            record = self._setup.record
            commands = f"{hints.DOWN(name=record.name)}, then {record.resume_command}"
            message = (
                "the config now has an inference server, but this experiment was created without one; to"
                f" add it: {commands}"
            )
            problems.append(_server_problem(message=message))
        for server in self._servers:
            if server.address.needed_for:
                continue
            if server.state == "ready":
                warnings = server_warnings(server.address, server.answer, engine_title)
                problems += [_server_problem(severity="hint", message=text) for text in warnings]
            else:
                is_refused = server.state == "refused"
                message = f"the inference server at {server.address.url}: {server.reason}"
                message += "" if is_refused else "; components that need it wait until it answers"
                problems.append(
                    _server_problem(severity="error" if is_refused else "warning", message=message)
                )
        return tuple(problems)

    def _lease_faults(self, *, is_anew: bool) -> list[str]:
        """Why the server of another experiment must not be used now."""
        record = self._setup.record
        if not record.inference_of:
            return []
        try:
            owner = find_experiment(record.inference_of)
            busy = training(owner) if owner is not None else ()
            users = users_of(owner) if owner is not None else ()
            is_stale = owner is not None and is_anew and trained_by(owner) is not None
        except RltuiError as error:
            return [f"cannot tell whose inference server this is: {error.title}"]
        if owner is None:
            return [f"the experiment {record.inference_of}, which owns this inference server, is gone"]
        faults = []
        if busy:
            stop = hints.STOP(components=busy, name=owner.name)
            faults.append(
                f"{owner.name} is training with its inference server ({join_words(busy)}); wait, or {stop}"
            )
        names = [user.name for user in users if user.name != record.name]
        if names:
            faults.append(f"the inference server of {owner.name} is already in use by {join_words(names)}")
        reset = self._reset(self._servers[0].address) if is_stale and self._servers else None
        if isinstance(reset, Missing):
            command = hints.RESTART_INFERENCE(name=owner.name)
            faults.append(f"the inference server of {owner.name}: {reset.reason}; {reset.hint}: {command}")
        return faults

    def _reset(self, address: ServerAddress) -> ServiceCall | Missing | None:
        files, launcher = self._config.document.files, self._config.launcher
        return self._setup.framework.servers.weights_reset(
            files, launcher.context(files).run_context, address.root
        )

    def resets(self) -> list[ServiceCall]:
        """Calls to the servers of another experiment, made before the jobs of this run start."""
        if not self._setup.record.inference_of:
            return []
        calls = (
            (server.address.key_variable, self._reset(server.address))
            for server in self._servers
            if not server.address.needed_for
        )
        service_calls = self._config.launcher.context(self._config.document.files).service_calls()
        resets = [replace(call, key_variable=name) for name, call in calls if isinstance(call, ServiceCall)]
        return [*(call for call in service_calls if call.component == "inference"), *resets]

    # --- who uses ours ------------------------------------------------------------------------------------

    async def _poll_users(self) -> None:
        now = time.monotonic()
        if now - self._users_at < _USERS_INTERVAL_S:
            return
        self._users_at = now
        users = await asyncio.to_thread(users_of, self._setup.record)
        names = tuple(user.name for user in users)
        if names != self.users:
            self.users = names
            self._events.changed("status")

    def _user_problems(self, plan: Plan) -> tuple[Problem, ...]:
        if not self.users or "inference" not in self._setup.components:
            return ()
        who, verb = join_words(self.users), "uses" if len(self.users) == 1 else "use"
        if not self._setup.run_jobs.isdisjoint(plan.start):
            message = f"{who} {verb} the inference server of this experiment, whose weights would change"
            return (_server_problem(message=f"{message}; end it first: {hints.DOWN(name=self.users[0])}"),)
        if "inference" in plan.stop:
            message = (
                f"{who} {verb} the inference server, which this plan stops, and cannot continue without it"
            )
            return (_server_problem(severity="warning", message=message),)
        return ()
