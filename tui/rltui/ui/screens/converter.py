"""The batch counted the other way: tokens for rollouts, or back, with the arithmetic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from rltui.core.config_report import Conversion
from rltui.errors import RltuiError
from rltui.ui.actions import Scope, bindings
from rltui.ui.screens.dialog import Dialog
from rltui.ui.text import clean, clean_line, value_text

Converter = Callable[[float | None], Awaitable[Conversion]]
"""From the mean tokens of a rollout; `None`: what was measured."""


def conversion_content(conversion: Conversion) -> Content:
    """Where the mean comes from, the arithmetic, and the new values."""
    source = conversion.measured or (
        "as you typed it" if conversion.mean_tokens is not None else "nothing was measured yet: type it"
    )
    parts = [Content.styled(clean_line(source), "$foreground 60%")]
    if conversion.arithmetic:
        parts.append(Content("\n").join([Content(clean_line(line)) for line in conversion.arithmetic]))
    if conversion.edits:
        parts.append(
            Content("\n").join(
                Content.assemble(
                    (f"{clean_line(key)} ", ""),
                    ("out of the file" if value is None else f"= {value_text(value)}", "bold"),
                )
                for key, value in conversion.edits.items()
            )
        )
    return Content("\n\n").join(parts)


class ConverterDialog(Dialog[Conversion]):
    """The conversion to review, with its edits. `None` when left."""

    CSS_PATH: ClassVar = ["dialog.tcss", "converter.tcss"]
    BINDINGS = bindings(Scope.CONVERTER)

    def __init__(self, first: Conversion, convert: Converter) -> None:
        """`first`: from what was measured."""
        super().__init__()
        self.conversion = first
        self._convert = convert
        mean = "" if first.mean_tokens is None else f"{first.mean_tokens:.6g}"
        self._field = Input(mean, placeholder="mean tokens of a rollout", type="number", id="mean")
        self._field.cursor_blink = False
        self._measured_text = mean

    def compose(self) -> ComposeResult:
        """The mean, and what follows from it."""
        with Vertical(classes="box") as box:
            box.border_title = f"Count the batch in {self.conversion.to}"
            yield Static("Mean tokens of an accepted rollout:", markup=False)
            yield self._field
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(id="arithmetic", classes="body")

    def on_mount(self) -> None:
        """Show what was measured."""
        self._field.focus()
        self._show()

    def _show(self, refusal: str = "") -> None:
        content = (
            Content.styled(f"✗ {refusal}", "$text-error") if refusal else conversion_content(self.conversion)
        )
        self.query_one("#arithmetic", Static).update(content)
        keys = "enter reviews · esc cancels" if self.conversion.edits and not refusal else "esc cancels"
        self.query_one(".box").border_subtitle = keys

    @on(Input.Changed, "#mean")
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.run_worker(self._reckon(event.value), group="convert", exclusive=True)

    async def _reckon(self, text: str) -> bool:
        """Whether there is something to write."""
        try:
            mean = None if text == self._measured_text else float(text)
            if mean is not None and not 0 < mean < float("inf"):
                raise ValueError(text)
            self.conversion = await self._convert(mean)
        except ValueError:
            self._show(f"a number above 0, not {text!r}" if text else "type the mean tokens of a rollout")
            return False
        except RltuiError as error:
            self._show(clean(str(error)))
            return False
        self._show()
        return bool(self.conversion.edits)

    @on(Input.Submitted, "#mean")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.run_worker(self._take(event.value), group="take", exclusive=True)

    async def _take(self, text: str) -> None:
        if await self._reckon(text):
            self._leave(self.conversion)
        else:
            self.app.bell()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Letters are text here."""
        del parameters
        return action not in ("no", "yes", "other")

    def action_cancel(self) -> None:
        """Leave the files as they are."""
        self.workers.cancel_group(self, "take")
        self._leave(None)

    def _leave(self, conversion: Conversion | None) -> None:
        """Not without ending what would show its answer where nothing is left to show it."""
        self.workers.cancel_group(self, "convert")
        self.dismiss(conversion)
