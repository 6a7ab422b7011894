"""Commands on the selected component: start, stop, restart, look into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from rltui.core.experiment.api import ComponentStatus, Request
from rltui.core.experiment.states import ALIVE_STATES
from rltui.ui import verbs
from rltui.ui.actions import Footer, Scope, key_of
from rltui.ui.commands.description import DescriptionCommands
from rltui.ui.commands.experiment import ExperimentCommands
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.base import ChoiceMenu
from rltui.ui.key_bindings import bind, own
from rltui.ui.logs.view import LogView
from rltui.ui.requests import ConfirmableRequest, OpenRunRequested, makes_sense, request_for
from rltui.ui.state import ExperimentState
from rltui.ui.text import clean_line
from rltui.views.checkpoint import checkpoint_words

COMPONENT_KEYS = (
    bind(verbs.COMPONENT_START, "components.request('start')", "Start the selected component",
         footer=Footer.YES),
    bind(verbs.COMPONENT_STOP, "components.request('stop')", "Stop the selected component, plan first",
         footer=Footer.YES),
    bind(verbs.COMPONENT_RESTART, "components.request('restart')",
         "Restart the component and its dependents, plan first",
         footer=Footer.YES),
    own("component.restart-menu", "R", "components.restart_menu", "restart…",
        "Choose what to restart, and from which checkpoint", Scope.COMPONENTS, changes=True),
    own("component.fix", "F", "components.fix_memory", "fix memory",
        "Fix an out-of-memory error: choose an edit, plan first", Scope.COMPONENTS, footer=Footer.YES,
        changes=True),
    own("component.kill", "", "components.request('kill')", "kill",
        "Kill the selected component and its processes; asks first", Scope.COMPONENTS, changes=True),
    own("component.start-all", "S", "components.request('start-all')", "start all",
        "Start everything, plan first", Scope.COMPONENTS, changes=True),
    own("component.stop-all", "D", "components.request('stop-all')", "stop all",
        "Stop everything, plan first", Scope.COMPONENTS, changes=True),
    bind(verbs.DESCRIBE, "components.describe",
         "Describe the component: command, variables, folder, pid, ports"),
    own("component.attach", "a", "components.attach", "attach",
        "Attach to the terminal of the selected component", Scope.COMPONENTS),
    own("component.script", "", "components.show_script", "job script",
        "Show the SLURM script of the selected component", Scope.COMPONENTS),
    own("component.shell", "", "components.open_shell", "shell",
        "Open a shell in the selected component's environment", Scope.COMPONENTS, changes=True),
)  # fmt: skip
"""Keys of a screen whose `components` are `ComponentCommands`."""
_RESTARTS = {
    "set": (
        "Restart {} and its dependents",
        "Trainers resume from the newest complete checkpoint",
    ),
    "all": ("Restart everything", "Trainers resume from the newest complete checkpoint"),
    "set-checkpoint": (
        "Restart {} and its dependents from a checkpoint…",
        "Later checkpoints and rollouts are set aside ({} shows the checkpoints)",
    ),
    "set-scratch": (
        "Restart {} and its dependents from scratch",
        "Ignore checkpoints, start at step 0",
    ),
    "all-scratch": ("Restart everything from scratch", "Ignore checkpoints, start at step 0"),
}


@dataclass
class AttachRequested(Message):
    """A person wants the raw terminal of a component."""

    component_id: str


class ComponentCommands:
    def __init__(
        self,
        frontend: Frontend,
        state: ExperimentState,
        commands: ExperimentCommands,
        selected_component: Callable[[], ComponentStatus | None],
    ) -> None:
        self._frontend = frontend
        self._state = state
        self._experiment = state.experiment
        self._commands = commands
        self._selected_component = selected_component

    def allows(self, command: str, *arguments: object) -> bool:
        component = self._selected_component()
        match command:
            case "request" if self._experiment.finished:
                return arguments == ("start-all",)
            case "request":
                return makes_sense(str(arguments[0]), self._state.status, component)
            case "attach":
                return component is not None and component.state in ALIVE_STATES
            case "restart_menu" | "describe":
                return component is not None
            case "show_script":
                return bool(self._job_script)
            case "fix_memory":
                return component is not None and bool(component.remedies)
            case _:
                return True

    def request(self, name: str) -> None:
        """Plan first, and ask: but for a plain start. A finished run is given a supervisor instead."""
        if self._experiment.finished:
            self._frontend.post_message(OpenRunRequested(self._experiment.run_id, again=True))
            return
        confirmable = request_for(name, self._state.status, self._selected_component())
        if confirmable is not None:
            self._commands.request(confirmable)

    def describe(self) -> None:
        if (component := self._selected_component()) is not None:
            description = DescriptionCommands(self._frontend, self._state.clock)
            description.describe(lambda: self._experiment, component.id)

    def attach(self) -> None:
        if (component := self._selected_component()) is not None:
            self._frontend.post_message(AttachRequested(component.id))

    def open_shell(self) -> None:
        """Open a shell with the selected component's folder, variables and devices; one that lives is
        reused.
        """
        self._frontend.work(self._open_shell())

    async def _open_shell(self) -> None:
        component = self._selected_component()
        like = None if component is None or component.manual else component.id
        async with self._frontend.waiting("Opening a shell"):
            shell = await self._experiment.open_shell(like)
        self._frontend.post_message(AttachRequested(shell))

    def show_script(self) -> None:
        if script := self._job_script:
            self._frontend.post_message(LogView.PagerRequested(script))

    @property
    def _job_script(self) -> str:
        component = self._selected_component()
        host = component.host if component is not None else None
        return host.script if host is not None else ""

    def restart_menu(self) -> None:
        if (component := self._selected_component()) is not None:
            self._frontend.work(self._restart_by_menu(component.id))

    async def _restart_by_menu(self, component_id: str) -> None:
        checkpoints_key = key_of("screen.checkpoints")
        choices = {
            key: (label.format(component_id), text.format(checkpoints_key))
            for key, (label, text) in _RESTARTS.items()
        }
        choice = await self._frontend.prompt(ChoiceMenu("Restart", choices))
        if choice is None:
            return
        request = Request(
            action="restart",
            components=() if choice.startswith("all") else (component_id,),
            resume="scratch" if choice.endswith("scratch") else "latest",
        )
        heading = choices[choice][0]
        if choice == "set-checkpoint":
            if (step := await self._choose_checkpoint(request)) is None:
                return
            request = request.replace(resume_step=step)
            heading = f"Restart {component_id} and its dependents from checkpoint {step}"
        await self._commands.execute(ConfirmableRequest(request, f"{heading}?", danger=True))

    async def _choose_checkpoint(self, request: Request) -> int | None:
        """One of those that `request` could continue from, newest first."""
        async with self._frontend.waiting("Looking for checkpoints", cancels=True):
            steps = (await self._experiment.plan(request)).checkpoints
            report = await self._experiment.checkpoints() if steps else None
        if not steps:
            self._frontend.notify(
                "No checkpoint to restart from: none is complete yet, or no trainer restarts"
            )
            return None
        now = self._state.clock()
        checkpoints = () if report is None else report.complete
        details = {checkpoint.step: checkpoint_words(checkpoint, now) for checkpoint in checkpoints}
        choices = {
            str(step): (f"Checkpoint {step}", clean_line(details.get(step, ""))) for step in reversed(steps)
        }
        choice = await self._frontend.prompt(ChoiceMenu("Restart from", choices))
        return None if choice is None else int(choice)

    def fix_memory(self) -> None:
        """After an out-of-memory error: a remedy is written as an edit, and what reads it restarts."""
        if (component := self._selected_component()) is not None:
            self._frontend.work(self._fix_memory(component))

    async def _fix_memory(self, component: ComponentStatus) -> None:
        remedies = {remedy.title: remedy for remedy in component.remedies}
        choice = next(iter(remedies), None)
        if len(remedies) > 1:
            choices = {title: (title, remedy.reason) for title, remedy in remedies.items()}
            heading = f"{component.id} ran out of memory"
            choice = await self._frontend.prompt(ChoiceMenu(heading, choices))
        if choice is None:
            return
        remedy = remedies[choice]
        request = Request(action="set", edits=remedy.edits, components=remedy.components, restart=True)
        await self._commands.execute(
            ConfirmableRequest(request, f"{remedy.title}?", verb="Write + restart", danger=True)
        )
