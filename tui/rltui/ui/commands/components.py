"""The keys that start, stop and restart components."""

from __future__ import annotations

from textual.reactive import reactive

from rltui.core.api import ComponentStatus, Request, Status
from rltui.core.states import ALIVE_STATES
from rltui.errors import RltuiError
from rltui.ui.actions import key_of
from rltui.ui.base_screen import BaseScreen
from rltui.ui.logs.view import LogView
from rltui.ui.requests import OPENS_AGAIN, ConfirmableRequest, makes_sense, request_for
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.text import clean_line
from rltui.views.checkpoint import checkpoint_words

_RESTARTS = {
    "set": (
        "Restart set of {}",
        "It and what must restart with it; trainers resume from the newest checkpoint",
    ),
    "all": ("Restart everything", "Trainers resume from the newest complete checkpoint"),
    "set-checkpoint": (
        "Restart set of {} from a checkpoint…",
        "Choose which; later checkpoints and rollouts are set aside ({} shows more of each)",
    ),
    "set-scratch": (
        "Restart set of {} from scratch",
        "Trainers forget their checkpoints and begin at step 0",
    ),
    "all-scratch": ("Restart everything from scratch", "The whole run begins at step 0"),
}


class ComponentActions(BaseScreen):
    """The keys that start, stop and restart. A screen of it says which component is selected."""

    status: reactive[Status | None] = reactive(None, init=False, bindings=True)
    """The newest one."""

    @property
    def component(self) -> ComponentStatus | None:
        """The component that the keys act on."""
        raise NotImplementedError

    def action_show_script(self) -> None:
        if script := self._job_script:
            self.post_message(LogView.PagerRequested(script))

    @property
    def _job_script(self) -> str:
        host = self.component.host if self.component is not None else None
        return host.script if host is not None else ""

    def action_request(self, what: str) -> None:
        """Plan first, and ask: but for a plain start. A finished run is given a supervisor instead."""
        if self.experiment.finished:
            self.post_message(self.OpenRunRequested(self.experiment.run_id, again=True))
        elif (asked := request_for(what, self.status, self.component)) is not None:
            self.commands.request(asked)

    def action_restart_menu(self) -> None:
        if (item := self.component) is not None:
            self.work(self._restart_by_menu(item.id))

    async def _restart_by_menu(self, component_id: str) -> None:
        known = key_of("screen.checkpoints")
        choices = {
            key: (label.format(component_id), text.format(known)) for key, (label, text) in _RESTARTS.items()
        }
        choice = await self.app.push_screen_wait(ChoiceMenu("Restart", choices))
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
            request = request.model_copy(update={"resume_step": step})
            heading = f"Restart set of {component_id} from checkpoint {step}"
        await self.commands.execute(ConfirmableRequest(request, f"{heading}?", danger=True))

    async def _choose_checkpoint(self, request: Request) -> int | None:
        """One of those that `request` could continue from, newest first."""
        try:
            async with self.waiting("Looking for checkpoints", cancels=True):
                steps = (await self.experiment.plan(request)).checkpoints
                report = await self.experiment.checkpoints() if steps else None
        except RltuiError as error:
            await self.show_error(error)
            return None
        if not steps:
            self.notify("No checkpoint to continue from: none is complete yet, or no job of the run restarts")
            return None
        now = self.shared.clock()
        known = {} if report is None else {each.step: checkpoint_words(each, now) for each in report.complete}
        choices = {
            str(step): (f"Checkpoint {step}", clean_line(known.get(step, ""))) for step in reversed(steps)
        }
        choice = await self.app.push_screen_wait(ChoiceMenu("Continue from", choices))
        if choice is None:
            return None
        return int(choice)

    def action_fix_memory(self) -> None:
        if (item := self.component) is not None:
            self.work(self._fix_memory(item))

    async def _fix_memory(self, component: ComponentStatus) -> None:
        remedies = {remedy.title: remedy for remedy in component.remedies}
        choice = next(iter(remedies), None)
        if len(remedies) > 1:
            choices = {title: (title, remedy.reason) for title, remedy in remedies.items()}
            heading = f"{component.id} ran out of memory"
            choice = await self.app.push_screen_wait(ChoiceMenu(heading, choices))
        if choice is None:
            return
        remedy = remedies[choice]
        request = Request(action="set", edits=remedy.edits, components=remedy.components, restart=True)
        asked = ConfirmableRequest(request, f"{remedy.title}?", verb="Write + restart", danger=True)
        await self.commands.execute(asked)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._component_allows(action, parameters) and super().check_action(action, parameters)

    def _component_allows(self, action: str, parameters: tuple[object, ...]) -> bool:
        item = self.component
        match action:
            case "request" if self.experiment.finished:
                return (action, parameters) == OPENS_AGAIN
            case "request":
                return makes_sense(str(parameters[0]), self.status, item)
            case "attach_component":
                return item is not None and item.state in ALIVE_STATES
            case "restart_menu":
                return item is not None
            case "show_script":
                return bool(self._job_script)
            case "fix_memory":
                return item is not None and bool(item.remedies)
            case _:
                return True
