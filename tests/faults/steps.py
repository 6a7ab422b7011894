"""Operations and faults that a random sequence is made of. Each knows whom it may end."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
import tomllib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.fakes.saving_editor import saving_editor
from tests.faults import events, invariants
from tests.faults.harness import COMPONENTS, SETTLE_S, Experiment
from tests.waiting import remove_at_once, retry_until

from rltui.client.transports.unix import SupervisorGoneError, Wire
from rltui.errors import ConflictError, RltuiError

PROGRAMS: dict[str, tuple[str, ...]] = {
    "honest": (),
    "ignores SIGTERM": ("ignore-term",),
    "orphans a port": ("orphan-port",),
    "orphans a deaf one": ("orphan-deaf",),
    "daemon": ("daemon",),
    "changes its title": ("title",),
    "floods its log": ("flood",),
    "dies before ready": ("die-early",),
    "hangs before ready": ("hang",),
    "exits 0 too early": ("exit-0",),
    "exits 1 after an hour": ("exit-hour",),
    "stops itself": ("stop-self",),
}
NEEDS_PORT = frozenset({"orphans a port"})
DEAF = frozenset({"ignores SIGTERM", "orphans a deaf one"})
"""Drawn less often: each stop takes the shim's whole patience."""
EDIT_TAKES_S = 0.05
"""From the request to the journal, about."""
HOUR_S, DAY_S = 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step, as it is printed and can be repeated."""

    event: str
    component: str
    program: str
    """What the component is made to be at its next start."""

    def __str__(self) -> str:
        return f"{self.event} ({self.component}, {self.program} from its next start)"


Event = Callable[[Experiment, str], Collection[str]]
"""Happens to a component; returns the components that it was meant to end, by itself or by the plan."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Programs to begin with, by component, and three to six steps."""

    programs: Mapping[str, str]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        begin = ", ".join(f"{component}: {program}" for component, program in self.programs.items())
        return "\n".join((f"  begins with {begin}", *(f"  {step}" for step in self.steps)))


def draw(chance: random.Random) -> Sequence:
    """The next sequence of `chance`. About every other component begins honest."""
    programs = {
        component: "honest" if chance.random() < 0.4 else _draw_program(chance, component)
        for component in COMPONENTS
    }
    return Sequence(programs, tuple(_draw_step(chance) for _ in range(chance.randint(3, 6))))


def begin(experiment: Experiment, sequence: Sequence) -> None:
    """Start all components anew with the programs of the sequence."""
    for component, program in sequence.programs.items():
        experiment.behave(component, *PROGRAMS[program])
    experiment.request("restart")


def _draw_step(chance: random.Random) -> Step:
    component = chance.choice(COMPONENTS)
    event = chance.choices(list(EVENTS), [weight for _, weight in EVENTS.values()])[0]
    program = _draw_program(chance, component)
    return Step(event, component, program)


def _draw_program(chance: random.Random, component: str) -> str:
    able = [name for name in PROGRAMS if name not in NEEDS_PORT or component == "inference"]
    return chance.choices(able, [1 if name in DEAF else 3 for name in able])[0]


def running(experiment: Experiment, component: str) -> str:
    """Name of the program that the component runs, or ran last."""
    mains = [being for being in experiment.truth.beings(component) if being.role == "main"]
    if not mains:
        return "never started"
    words = mains[-1].behaviour
    return next(name for name, behaviour in PROGRAMS.items() if " ".join(sorted(behaviour)) == words)


def take(experiment: Experiment, step: Step) -> Collection[str]:
    """Make it happen, and wait until nothing is on its way any more."""
    experiment.behave(step.component, *PROGRAMS[step.program])
    may_end = EVENTS[step.event][0](experiment, step.component)
    invariants.assert_shown_is_true(experiment)
    experiment.settle()
    return may_end


def _all(event: Callable[[Experiment], Collection[str]]) -> Event:
    """An event that happens to no component in particular."""
    return lambda experiment, _: event(experiment)


def _request(action: str, **options: Any) -> Event:
    def event(experiment: Experiment, component: str) -> Collection[str]:
        return list(experiment.request(action, component, **options)["stop"])

    return event


def _killed_after(action: str, fault: Callable[[Experiment, str], object]) -> Event:
    """A plan is asked for, and at once `fault` comes."""

    def event(experiment: Experiment, component: str) -> Collection[str]:
        before = experiment.shown()
        plan = experiment.execute(action, component)
        fault(experiment, component)
        experiment.settle_plan(plan, before)
        return {*plan["stop"], component}

    return event


def _kill_main(experiment: Experiment, component: str) -> Collection[str]:
    events.kill_main(experiment, component)
    return {component}


def _signal_main(number: signal.Signals) -> Event:
    def event(experiment: Experiment, component: str) -> Collection[str]:
        main = experiment.truth.main(component)
        if main is None or main.state == "T":
            return ()
        os.kill(main.pid, number)
        retry_until(lambda: not main.is_alive)
        return {component}

    return event


def _stop_main(experiment: Experiment, component: str) -> Collection[str]:
    main = experiment.truth.main(component)
    if main is not None:
        os.kill(main.pid, signal.SIGSTOP)
        retry_until(lambda: main.state == "T")
    return ()


def _kill_supervisor(experiment: Experiment) -> Collection[str]:
    events.kill_supervisor(experiment)
    return ()


def _end_unseen(experiment: Experiment, component: str) -> Collection[str]:
    events.kill_supervisor(experiment)
    events.kill_main(experiment, component)
    return {component}


def _kill_shim(experiment: Experiment, component: str) -> Collection[str]:
    if experiment.truth.main(component) is not None:
        events.kill_shim(experiment, component)
    return ()


def _kill_shim_and_main(experiment: Experiment, component: str) -> Collection[str]:
    if experiment.truth.main(component) is not None:
        events.kill_shim(experiment, component)
        events.kill_main(experiment, component)
    return {component}


def _kill_tmux_server(experiment: Experiment) -> Collection[str]:
    events.kill_tmux_server(experiment)
    return ()


def _stop_shim(experiment: Experiment, component: str) -> Collection[str]:
    if experiment.truth.main(component) is not None:
        events.stop_shim(experiment, component)
    return ()


def _stop_shim_and_kill_tmux(experiment: Experiment, component: str) -> Collection[str]:
    """And then the component is to be stopped."""
    _stop_shim(experiment, component)
    events.kill_tmux_server(experiment)
    return list(experiment.request("stop", component)["stop"])


def _down(experiment: Experiment) -> Collection[str]:
    """Twice at once, while others look on."""
    experiment.ask("status")
    watching = events.silent_subscribers(experiment, 3)
    for process in events.down(experiment, times=2):
        told, errors = process.communicate(timeout=60)
        told_it = process.returncode == 0 and "no process is left" in told
        assert told_it, f"down ended with {process.returncode} and said: {told}{errors}"
    for client in watching:
        client.close()
    experiment.forget_connection()
    assert (pid := experiment.supervisor_pid()) is None, f"pid {pid} still listens: {experiment.describe()}"
    invariants.assert_nothing_left(experiment)
    return COMPONENTS


def _start_during_down(experiment: Experiment, component: str) -> Collection[str]:
    """Refused, or nobody is there any more to ask."""
    experiment.ask("status")
    asking = events.begin_down(experiment)
    assert asking is not None
    with suppress(ConflictError, SupervisorGoneError, OSError):
        plan = Wire(experiment.socket_path).call("execute", {"action": "restart", "components": [component]})
        raise AssertionError(f"begun while everything was being stopped: {plan}")
    asking.settimeout(60)
    while asking.recv(1 << 16):
        continue
    asking.close()
    experiment.forget_connection()
    invariants.assert_nothing_left(experiment)
    return COMPONENTS


def _supervisor_killed_mid_down(experiment: Experiment) -> Collection[str]:
    """The next one finishes it."""
    experiment.ask("status")
    asking = events.begin_down(experiment)
    assert asking is not None
    retry_until(lambda: _down_is_noted(experiment))
    events.kill_supervisor(experiment)
    asking.close()
    if _down_is_noted(experiment, complete=True):  # nothing ran, and nothing is left to be finished
        invariants.assert_nothing_left(experiment)
        return COMPONENTS
    experiment.revive()
    try:
        retry_until(lambda: _down_is_noted(experiment, complete=True), timeout_s=SETTLE_S)
        retry_until(lambda: experiment.supervisor_pid() is None)
    except TimeoutError:
        raise AssertionError(f"it was not finished: {experiment.describe()}") from None
    invariants.assert_nothing_left(experiment)
    return COMPONENTS


def _down_is_noted(experiment: Experiment, *, complete: bool = False) -> bool:
    down = json.loads((experiment.control / "intent.json").read_bytes())["down"]
    return down is not None and (down["complete"] or not complete)


def _damage_records(experiment: Experiment) -> Collection[str]:
    events.damage_records(experiment)
    return ()


def _delete_folder(experiment: Experiment) -> Collection[str]:
    """With a killed supervisor: what lives is found and ended all the same. Then all begins anew."""
    if not events.may_lose_its_folder(experiment):
        return ()
    before = experiment.truth.mains()
    experiment.watcher.paused = True
    remove_at_once(experiment.output_dir)
    events.kill_supervisor(experiment)
    invariants.assert_shown_is_true(experiment)
    invariants.assert_nobody_else_died(before, ())
    for process in events.down(experiment):
        told, errors = process.communicate(timeout=60)
        told_it = process.returncode == 0 and "no process is left" in told
        assert told_it, f"down ended with {process.returncode} and said: {told}{errors}"
    invariants.assert_nothing_left(experiment)
    experiment.begin_anew()
    experiment.watcher.paused = False
    return COMPONENTS


def _edit_and_kill(experiment: Experiment) -> Collection[str]:
    """The file holds the old text or the new one, and the journal tells which."""
    edits = len(experiment.edits())
    before = experiment.config.read_bytes()
    _ask_for_edit(experiment)
    events.kill_supervisor(experiment)
    experiment.ask("status")
    made = experiment.edits()[edits:]
    now = hashlib.sha256(experiment.config.read_bytes()).hexdigest()
    expected = made[-1]["files"][0]["after"] if made else hashlib.sha256(before).hexdigest()
    assert len(made) <= 1
    assert now == expected, f"{experiment.config} does not hold what the journal says"
    _assert_edit_is_settled(experiment)
    return ()


def _edit_beside_an_editor(experiment: Experiment) -> Collection[str]:
    """And the supervisor is killed in between."""
    with saving_editor(experiment.config) as saves:
        for killed in (False, True, False):
            for _ in range(5):
                with suppress(RltuiError):  # half written, moved aside, or saved meanwhile
                    experiment.execute("set", edits={"mine": len(experiment.edits()) + 1}, force=True)
            if killed:
                _ask_for_edit(experiment)
                events.kill_supervisor(experiment)
    experiment.ask("status")
    # one may fall between the comparison of a file and its rename
    assert saves.lost <= 1, f"{saves.lost} of {saves.made} saves of another editor were lost"
    _assert_edit_is_settled(experiment)
    return ()


def _ask_for_edit(experiment: Experiment) -> None:
    """Of a client that does not wait for the answer; returns at a random moment of the edit."""
    experiment.ask("status")
    edits = {"mine": len(experiment.edits()) + 1}
    request = {"action": "set", "edits": edits, "force": True}
    events.client_killed_after_asking(experiment, json.dumps(request))
    time.sleep(random.random() * EDIT_TAKES_S)


def _assert_edit_is_settled(experiment: Experiment) -> None:
    tomllib.loads(experiment.config.read_text())
    beside = [path.name for path in experiment.config.parent.iterdir() if "rltui-tmp" in path.name]
    assert not beside, f"left beside the config: {beside}"
    assert not (experiment.control / "edit.json").exists(), "an edit is still to be settled"


def _kill_client(experiment: Experiment, component: str) -> Collection[str]:
    before = experiment.shown()
    plan = experiment.ask("plan", {"action": "restart", "components": [component]})
    request = {"action": "restart", "components": [component]}
    events.client_killed_after_asking(experiment, json.dumps(request))
    experiment.settle_plan(plan, before)
    return list(plan["stop"])


def _jump_back(experiment: Experiment) -> Collection[str]:
    events.shift_clock(experiment, wall_s=-DAY_S)
    return ()


def _hour_passes(experiment: Experiment) -> Collection[str]:
    """Until those that end themselves by then have."""
    mains = experiment.truth.mains()
    due = {name for name, main in mains.items() if main.behaviour == "exit-hour" and main.state != "T"}
    events.shift_clock(experiment, wall_s=HOUR_S, monotonic_s=HOUR_S)
    retry_until(lambda: not any(mains[name].is_alive for name in due))
    return due


def _truncate_log(experiment: Experiment, component: str) -> Collection[str]:
    if experiment.truth.main(component) is not None:
        events.truncate_log(experiment, component)
        experiment.cut_logs.add((component, experiment.attempts(component)[-1]))
    return ()


def _replace_log(experiment: Experiment, component: str) -> Collection[str]:
    if experiment.truth.main(component) is not None:
        events.replace_log(experiment, component)
        experiment.cut_logs.add((component, experiment.attempts(component)[-1]))
    return ()


def _while_disk_is_full(fault: Event) -> Event:
    """Nothing more can be written meanwhile. Needs a disk of its own."""

    def event(experiment: Experiment, component: str) -> Collection[str]:
        if not experiment.output_dir.parent.is_mount():
            return ()
        with events.full(experiment.output_dir.parent):
            outcome = fault(experiment, component)
            invariants.assert_shown_is_true(experiment)
            experiment.settle()
        return outcome

    return event


def _while_read_only(fault: Event) -> Event:
    """As long as the state folder cannot be written, how something ended stays unrecorded."""

    def event(experiment: Experiment, component: str) -> Collection[str]:
        if not experiment.output_dir.parent.is_mount():
            return ()
        before = experiment.truth.mains()
        with events.read_only(experiment.control):
            outcome = fault(experiment, component)
            invariants.assert_shown_is_true(experiment)
            experiment.settle()
        experiment.unrecorded |= {(name, main.attempt) for name, main in before.items() if not main.is_alive}
        return outcome

    return event


def _silent_clients(experiment: Experiment, component: str) -> Collection[str]:
    silent = events.silent_subscribers(experiment, 10)
    plan = experiment.request("restart", component)
    for client in silent:
        client.close()
    return list(plan["stop"])


def _hammer(experiment: Experiment, component: str) -> Collection[str]:
    """As fast as it goes; whatever is refused is refused with words."""
    stopped: set[str] = set()
    for _ in range(20):
        try:
            stopped |= set(experiment.execute("restart", component)["stop"])
        except ConflictError:
            continue
    return {*stopped, component}


EVENTS: dict[str, tuple[Event, int]] = {
    "start": (_request("start"), 2),
    "start all": (_all(lambda experiment: experiment.request("start")["stop"]), 6),
    "stop": (_request("stop"), 3),
    "kill tree": (_request("stop", kill=True), 3),
    "restart": (_request("restart"), 4),
    "restart all": (_all(lambda experiment: experiment.request("restart")["stop"]), 2),
    "SIGKILL component": (_kill_main, 3),
    "component exits 1": (_signal_main(signal.SIGUSR1), 2),
    "component exits 0": (_signal_main(signal.SIGUSR2), 2),
    "SIGSTOP component": (_stop_main, 2),
    "SIGKILL supervisor": (_all(_kill_supervisor), 3),
    "component ends unseen": (_end_unseen, 2),
    "SIGKILL shim": (_kill_shim, 2),
    "SIGKILL shim and component": (_kill_shim_and_main, 2),
    "SIGKILL tmux server": (_all(_kill_tmux_server), 2),
    "SIGSTOP shim": (_stop_shim, 2),
    "SIGSTOP shim, SIGKILL tmux server, stop": (_stop_shim_and_kill_tmux, 2),
    "down twice with subscribers": (_all(_down), 2),
    "start during down": (_start_during_down, 2),
    "supervisor killed mid-down": (_all(_supervisor_killed_mid_down), 1),
    "records damaged, SIGKILL supervisor": (_all(_damage_records), 3),
    "folder deleted, SIGKILL supervisor": (_all(_delete_folder), 2),
    "edit, SIGKILL supervisor": (_all(_edit_and_kill), 3),
    "edits beside an editor that saves, SIGKILL supervisor": (_all(_edit_beside_an_editor), 2),
    "client killed mid-transaction": (_kill_client, 3),
    "supervisor killed mid-restart": (
        _killed_after("restart", lambda experiment, _: events.kill_supervisor(experiment)),
        2,
    ),
    "component killed mid-restart": (
        _killed_after("restart", events.kill_main),
        2,
    ),
    "clock jumps back": (_all(_jump_back), 1),
    "an hour passes": (_all(_hour_passes), 2),
    "restart on a full disk": (_while_disk_is_full(_request("restart")), 1),
    "SIGKILL component on a full disk": (_while_disk_is_full(_kill_main), 1),
    "SIGKILL supervisor on a full disk": (_while_disk_is_full(_all(_kill_supervisor)), 1),
    "kill tree in a read-only folder": (_while_read_only(_request("stop", kill=True)), 1),
    "SIGKILL component in a read-only folder": (_while_read_only(_kill_main), 1),
    "log truncated": (_truncate_log, 1),
    "log replaced": (_replace_log, 1),
    "silent clients": (_silent_clients, 1),
    "rapid restarts": (_hammer, 1),
}
"""Event and how often it is drawn, relative to the others."""
