"""A short list to choose from."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from rltui.ui.screens.dialog import Dialog


class Choices(OptionList):
    """Takes page keys once it is laid out, and not before, when Textual has no lines to go to."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the list can answer yet."""
        if action in ("page_up", "page_down") and not self.scrollable_content_region:
            return False
        return super().check_action(action, parameters)


class ChoiceMenu(Dialog[str]):
    """The id of the choice, `None` for none."""

    def __init__(self, heading: str, choices: dict[str, tuple[str, str]]) -> None:
        """`choices`: id to what is done and what that means."""
        super().__init__()
        self.heading = heading
        self.choices = choices

    def compose(self) -> ComposeResult:
        """The list."""
        with Vertical(classes="box") as box:
            box.border_title = self.heading.replace("[", r"\[")
            box.border_subtitle = "enter chooses · esc cancels"
            yield Choices(
                *(
                    Option(
                        Content.assemble((f"{label}\n", "bold"), (f"  {meaning}", "$foreground 60%")),
                        id=choice,
                    )
                    for choice, (label, meaning) in self.choices.items()
                ),
                compact=True,
            )

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)
