"""Dialogs: a box in the middle that says or asks something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.button import ButtonVariant
from textual.widgets.option_list import Option

from rltui.base.text import age
from rltui.core.config.report import KnobInfo, PendingKnob, Problem
from rltui.core.experiment.api import Alert, Link, Plan
from rltui.core.experiment.events import LONGEST_NOTE
from rltui.errors import RltuiError
from rltui.ui.actions import ACTION_IDS, KeyContext, Scope, key_of, label_of
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import keys, own
from rltui.ui.key_names import key_text
from rltui.ui.messages import NotifyingScreen, alert_mark
from rltui.ui.paragraphs import blocks, first_that_fits, hanging
from rltui.ui.plan_view import diff_lines, effect_lines, pending_lines, plan_content
from rltui.ui.styles import CURSOR, FAINT
from rltui.ui.text import clean, clean_line

Answer = TypeVar("Answer")

_VERBS = {"start": "Start", "stop": "Stop", "restart": "Restart", "free": "End"}
_WRITE = "Write"
_JUST_NOW_S = 5


class ResultScreen(NotifyingScreen[Answer], ModalScreen[Answer], Generic[Answer]):
    """Is left once, while it is on top. A second key in haste would else leave what is below."""

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()


class TypingScreen(ResultScreen[Answer], Generic[Answer]):
    """Has a line to type in, which has the keys from the first on."""

    AUTO_FOCUS = ""

    def __init__(self, line: Input) -> None:
        super().__init__()
        self.line = line
        self.line.cursor_blink = False

    @property
    def entered_text(self) -> str:
        return self.line.value

    def on_mount(self) -> None:
        self.set_focus(self.line)


KeyHint = tuple[str, str]
"""A key, or the ids of actions with spaces between them, and what that does; empty: as the table says."""


def _keys_text(key: str) -> str:
    """`y`, `enter`, `↑↓`, `shift+↑↓`."""
    names = [key_of(name) if name in ACTION_IDS else key_text(name) for name in key.split()]
    modifier = "shift+" if len(names) > 1 and all(name.startswith("shift+") for name in names) else ""
    return modifier + "".join(name.removeprefix(modifier) for name in names)


def keys_line(hints: Sequence[KeyHint]) -> str:
    """`enter: Cancel · y: Stop · esc: Cancel`; neighbours that do the same stand together."""
    groups: list[tuple[list[str], str]] = []
    for key, label in hints:
        label = label or label_of(key.split()[0])
        if groups and groups[-1][1] == label:
            groups[-1][0].append(_keys_text(key))
        else:
            groups.append(([_keys_text(key)], label))
    return " · ".join(f"{' / '.join(keys)}: {label}" for keys, label in groups)


_CORNERS = 6
"""Cells of the lower border that its text cannot have."""


class DialogBase(ResultScreen[Answer], Generic[Answer]):
    """A box in the middle, whose words scroll."""

    CSS_PATH: ClassVar = ["dialogs.tcss"]
    BINDINGS = keys(
        KeyContext.BOX,
        own("dialog.scroll-down", "down,pagedown", "scroll_lines(4)", "down", "Scroll down", Scope.DIALOG),
        own("dialog.scroll-up", "up,pageup", "scroll_lines(-4)", "up", "Scroll up", Scope.DIALOG),
    )  # fmt: skip
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - as Textual declares it

    def __init__(self) -> None:
        super().__init__(classes="dialog")

    def footer_hints(self) -> Sequence[KeyHint]:
        """The keys that work now, the most important first; the border below shows them."""
        return ()

    def tell_keys(self) -> None:
        """Write as many hints onto the border as it has room for, from the first."""
        hints = self.footer_hints()
        for box in self.query(".box"):
            room = (box.outer_size.width or self.app.size.width) - _CORNERS
            line = first_that_fits(
                [keys_line(hints[:count]) for count in range(len(hints), 0, -1)] or [""], room
            )
            box.border_subtitle = Content(line)

    def on_mount(self) -> None:
        self.tell_keys()

    def on_resize(self) -> None:
        self.call_after_refresh(self.tell_keys)

    def on_descendant_focus(self) -> None:
        self.tell_keys()

    def action_scroll_lines(self, lines: int) -> None:
        for body in self.query(".scroll"):
            body.scroll_relative(y=lines, animate=False)

    def action_cancel(self) -> None:
        self.dismiss(None)


class Dialog(DialogBase[Answer], Generic[Answer]):
    """`esc` leaves it without an answer."""

    BINDINGS = keys(
        KeyContext.DIALOG,
        own("dialog.yes", "y", "yes", "yes", "Confirm", Scope.DIALOG),
        own("dialog.no", "escape,n", "no", "no", "Cancel", Scope.DIALOG),
        own("dialog.other", "left,right", "other", "other button", "Select the other button",
            Scope.DIALOG),
    )  # fmt: skip

    def action_no(self) -> None:
        self.dismiss(None)

    def action_yes(self) -> None:
        """A dialog that asks nothing has no yes."""

    def action_other(self) -> None:
        self.focus_next("Button")


class _MarkedButton(Button):
    """The one that enter presses has a mark, the others its room."""

    def render(self) -> Content:
        mark = CURSOR if self.has_focus else " " * len(CURSOR)
        return Content.assemble(mark, Content(str(self.label)))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return super().get_content_width(container, viewport) + len(CURSOR)


def button(label: str, answer: str, variant: ButtonVariant = "default") -> Button:
    """The id is the answer of a `ButtonDialog`."""
    return _MarkedButton(label, id=answer, compact=True, variant=variant)


class ButtonDialog(Dialog[Answer], Generic[Answer]):
    """Words, and buttons below. `answers`: by the ids of the buttons; of others it is `None`."""

    answers: Mapping[str, Answer]

    def __init__(
        self,
        title: str,
        body: Content,
        buttons: Sequence[Button],
        answers: Mapping[str, Answer],
        *,
        yes: str = "",
        default: str = "no",
        is_danger: bool = False,
    ) -> None:
        """`default`: the button that enter presses. `yes`: what y does, where its button does not say it."""
        super().__init__()
        self.heading = clean_line(title)
        self.answers = answers
        self.default = default
        self.body = body
        self._buttons = buttons
        self._yes = yes
        self.set_class(is_danger, "-danger")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(self.heading) if self.heading else None
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(self.body, classes="body")
            with Horizontal(classes="buttons"):
                yield from self._buttons

    def on_mount(self) -> None:
        for default in self.query(f"#{self.default}"):  # none where the app is being closed
            default.focus()

    def footer_hints(self) -> Sequence[KeyHint]:
        labels = {button.id: str(button.label) for button in self._buttons}
        button_id = next((button.id for button in self._buttons if button.has_focus), self.default)
        hints = [("enter", labels[button_id])]
        if "yes" in self.answers:
            hints.append(("dialog.yes", self._yes or labels["yes"]))
        hints.append(("dialog.no", labels["no"]))
        return [*hints, ("dialog.other", "")] if len(labels) > 2 else hints

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        self.dismiss(self.answers.get(event.button.id or ""))

    def action_yes(self) -> None:
        if "yes" in self.answers:
            self.dismiss(self.answers["yes"])


class MessageDialog(ButtonDialog[None]):
    """Says something that must not be missed: a heading, lines of evidence, and what to do."""

    def __init__(
        self,
        title: str,
        lines: tuple[str, ...],
        hint: str = "",
        *,
        note: str = "",
        style: str = "",
        is_error: bool = False,
    ) -> None:
        """`note` is what matters least, `style` colours the title."""
        message = _message(Content.styled(clean_line(title), f"bold {style}".strip()), lines, hint)
        if note:
            message += Content.styled(f"\n\n{clean_line(note)}", FAINT)
        super().__init__("", message, [button("Close", "no")], {}, is_danger=is_error)

    @classmethod
    def for_error(cls, error: RltuiError) -> MessageDialog:
        return cls(f"✗ {error.title}", error.details, error.hint, is_error=True)

    @classmethod
    def for_alert(cls, alert: Alert, age_s: float) -> MessageDialog:
        mark, style = alert_mark(alert)
        when = f"{age(age_s)} ago" if age_s >= _JUST_NOW_S else "just now"
        return cls(
            f"{mark} {alert.title}",
            (alert.text,),
            note=f"{alert.component} · {when}" if alert.component else when,
            style=style,
            is_error=alert.severity == "error",
        )


async def show_error(app: App[Any], error: RltuiError) -> None:
    await app.push_screen(MessageDialog.for_error(error))


def _message(title: Content, lines: Sequence[str], hint: str) -> Content:
    blocks = [title, *(Content(clean(line)) for line in lines)]
    if hint:
        blocks.append(Content.assemble(("\n→ ", "$text-accent"), clean(hint)))
    return Content("\n").join(blocks)


class EditAgain(ButtonDialog[bool]):
    """A text that came out of the editor cannot be read. True, the default: back there. Else it is kept."""

    def __init__(self, error: RltuiError) -> None:
        title = Content.styled(f"✗ {clean_line(error.title)}", "bold")
        super().__init__(
            "Nothing written",
            _message(title, error.details, error.hint),
            [button("Edit again", "yes", "primary"), button("Later", "no")],
            {"yes": True},
            default="yes",
            is_danger=True,
        )


class PlanDialog(ButtonDialog[bool | str]):
    """Shows a plan and asks: true when confirmed. A blocked plan cannot be.

    One that is dangerous, or will run out of memory, has *no* as its default. Where another value of a knob
    is needed, the default is to edit that knob: the answer is its key.
    """

    def __init__(self, plan: Plan, heading: str, *, verb: str = "", danger: bool = False) -> None:
        will_not_fit = any(verdict.is_bad for verdict in plan.memory)
        looks_bad = danger or will_not_fit or plan.lost.steps > 0
        buttons = [button("Close" if plan.blocked else "Cancel", "no")]
        if not plan.blocked:
            verb = verb or _VERBS.get(plan.action, _WRITE)
            buttons.insert(0, button(verb, "yes", "error" if looks_bad else "primary"))
        answers: dict[str, bool | str] = {} if plan.blocked else {"yes": True}
        default = "no" if danger or will_not_fit or plan.blocked else "yes"
        for key in [problem.key for problem in plan.problems if problem.mended_by and problem.key][:1]:
            buttons.insert(0, button(f"Edit {key}", "edit", "primary"))
            answers["edit"], default = key, "edit"
        super().__init__(
            heading,
            plan_content(plan),
            buttons,
            answers,
            default=default,
            is_danger=looks_bad or plan.blocked,
        )


class LeaveDialog(PlanDialog):
    """Asks before edits that were collected are lost. True to leave all the same; *no* is the default."""

    def __init__(self, unwritten: tuple[str, ...]) -> None:
        """`unwritten`: a line each."""
        warnings = tuple(Problem(severity="warning", message=f"not written: {line}") for line in unwritten)
        super().__init__(
            Plan(action="set", problems=warnings), "Discard the collected edits?", verb="Discard", danger=True
        )


class PendingDialog(ButtonDialog[None]):
    """Compares the files with the running values. Changes nothing."""

    def __init__(self, knobs: Sequence[KnobInfo], plan: Plan | None, since_origin: str = "") -> None:
        """`plan`: to restart the readers of what differs; `None`: nothing does. `since_origin`: a diff."""
        pending = [
            PendingKnob(key=knob.key, running=knob.running, value=knob.value, readers=knob.readers)
            for knob in knobs
            if knob.changed
        ]
        parts = []
        if plan is not None:
            differs = Content.styled("running → file, and its readers:", FAINT)
            parts += [[differs, *pending_lines(pending)], effect_lines(plan, key_of("knob.apply"))]
        if since_origin:
            heading = "original → this run's copy, which edits change:"
            parts.append([Content.styled(heading, FAINT), *diff_lines(since_origin)])
        message = blocks(*parts)
        super().__init__("Differences", message, [button("Close", "no")], {})


class NoteDialog(DialogBase[str]):
    """A line to type; `None` where it is cancelled, or empty where it must not be."""

    BINDINGS = keys(
        KeyContext.NOTE,
        own("note.cancel", "escape", "cancel", "cancel", "", Scope.DIALOG),
    )  # fmt: skip

    def __init__(
        self,
        text: str = "",
        *,
        title: str = "Note",
        placeholder: str = "shown with the events and on the charts",
        purpose: str = "add",
        may_be_empty: bool = False,
        max_length: int = LONGEST_NOTE,
    ) -> None:
        """`purpose`: what enter does. `max_length`: characters; 0: any number."""
        super().__init__()
        self._title, self._purpose = clean_line(title), purpose
        self._may_be_empty = may_be_empty
        self._field = Input(text, placeholder=placeholder, max_length=max_length, compact=True)
        self._field.cursor_blink = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(self._title)
            yield self._field

    def footer_hints(self) -> Sequence[KeyHint]:
        return ("enter", self._purpose), ("note.cancel", "")

    def on_mount(self) -> None:
        self._field.focus()

    @on(Input.Submitted)
    def _keep(self, event: Input.Submitted) -> None:
        self.dismiss(self.answer(event.value))

    def answer(self, entered: str) -> str | None:
        text = entered.strip()
        return text if text or self._may_be_empty else None


class Field(NamedTuple):
    label: str
    placeholder: str = ""
    value: str = ""


FIELDS_KEYS = (
    own("evaluate.cancel", "escape", "cancel", "cancel", "", Scope.DIALOG),
    own("evaluate.next", "down", "step(1)", "next", "", Scope.DIALOG),
    own("evaluate.previous", "up", "step(-1)", "previous", "", Scope.DIALOG),
)  # fmt: skip


class FieldsDialog(DialogBase[str]):
    """Has a line for each field, and below what they come to. Its answer is `None` where it was cancelled."""

    def __init__(self, heading: str, fields: Mapping[str, Field], below: Widget, choice: str) -> None:
        """`choice`: the field whose `choices` up and down go through."""
        super().__init__()
        self._heading, self._labels, self._below = heading, fields, below
        self.fields = {
            name: Input(field.value, placeholder=field.placeholder, id=f"field-{name}", compact=True)
            for name, field in fields.items()
        }
        for line in self.fields.values():
            line.cursor_blink = False
        self.choices: Sequence[str] = ()
        """Empty until they are known: the dialog opens at once, or letters would go to the screen below."""
        self.choice_field = self.fields[choice]

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = self._heading
            for name, field in self._labels.items():
                with Horizontal(classes="field"):
                    yield Static(field.label, classes="field-label", markup=False)
                    yield self.fields[name]
            yield self._below

    @property
    def entries(self) -> dict[str, str]:
        return {name: line.value.strip() for name, line in self.fields.items()}

    def action_step(self, choices: int) -> None:
        """Take the next choice; from a field that has none, go to the next field."""
        line = self.choice_field
        if not line.has_focus:
            self.focus_next(Input) if choices > 0 else self.focus_previous(Input)
        elif self.choices:
            index = self.choices.index(line.value) if line.value in self.choices else -choices
            line.value = self.choices[(index + choices) % len(self.choices)]
            line.cursor_position = len(line.value)


_BOX_CELLS, _AROUND_CHOICES = 84, 8
"""Cells of a box, by the style sheet, and of its frame, its padding and a scroll bar."""
_UNFILTERED_CHOICES = 9
"""A list of more shows the line to type in from the start, a shorter one with the first letter."""


class _ChoiceFilter(Input):
    """The line above a long list; ↓ and ↑ move in the list below it."""

    BINDINGS = keys(
        KeyContext.CHOICES,
        own("choices.down", "down", "move('cursor_down')", "down", "Go to the next choice", Scope.DIALOG),
        own("choices.up", "up", "move('cursor_up')", "up", "Go to the previous choice", Scope.DIALOG),
        own("choices.page-down", "pagedown", "move('page_down')", "page down", "Page down", Scope.DIALOG),
        own("choices.page-up", "pageup", "move('page_up')", "page up", "Page up", Scope.DIALOG),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__(placeholder="type to filter", compact=True)
        self.cursor_blink = False

    async def action_move(self, action: str) -> None:
        await self.screen.query_one(_Choices).run_action(action)


class _Choices(OptionList):
    """Takes page keys once it is laid out, and not before, when Textual has no lines to go to."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("page_up", "page_down") and not self.scrollable_content_region:
            return False
        return super().check_action(action, parameters)


class ChoiceMenu(Dialog[str]):
    """A list to choose from, filtered by typing: the id of the choice, `None` for none."""

    letters: ClassVar[frozenset[str]] = frozenset()
    """Keys of the dialog, with which no filter begins."""

    def __init__(self, heading: str, choices: dict[str, tuple[str, str]]) -> None:
        """`choices`: id to what is done and what that means."""
        super().__init__()
        self.heading = heading
        self.choices = choices
        self._filter = _ChoiceFilter()
        self._filter.display = len(choices) > _UNFILTERED_CHOICES

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(self.heading)
            yield self._filter
            yield _Choices(*self._options(""), compact=True)

    def _options(self, text: str) -> Iterator[Option]:
        """The choices whose label has all words of `text`; further lines of a meaning are indented too."""
        room = min(_BOX_CELLS, self.app.size.width * 96 // 100) - _AROUND_CHOICES
        for choice, (label, meaning) in self.choices.items():
            if all(word in label.lower() for word in text.lower().split()):
                lines = [Content.styled(label, "bold"), *hanging(f"  {meaning}", room, FAINT)]
                yield Option(Content("\n").join(lines), id=choice)

    def footer_hints(self) -> Sequence[KeyHint]:
        return ("enter", "choose"), ("dialog.no", "cancel")

    def on_mount(self) -> None:
        (self._filter if self._filter.display else self.query_one(_Choices)).focus()

    def on_key(self, event: events.Key) -> None:
        line = self._filter
        character = event.character or ""
        if character.isalnum() and not line.display and event.key not in self.letters:
            event.stop()
            event.prevent_default()
            line.display = True
            line.focus()
            line.insert_text_at_cursor(character)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        choices = self.query_one(_Choices)
        choices.clear_options()
        choices.add_options(self._options(event.value))
        choices.action_first()

    @on(Input.Submitted)
    def _submit(self) -> None:
        self.query_one(_Choices).action_select()


class LinkMenu(ChoiceMenu):
    """The address of one of `links`. `y` copies it instead."""

    letters = frozenset("y")

    def __init__(self, links: Sequence[Link]) -> None:
        labels = {
            link.url: (f"{link.title} ({link.component})" if link.component else link.title, link.url)
            for link in links
        }
        super().__init__(
            "Links of this run",
            {url: (clean_line(label), clean_line(address)) for url, (label, address) in labels.items()},
        )

    def footer_hints(self) -> Sequence[KeyHint]:
        return ("enter", "open in a browser"), ("dialog.yes", "copy the URL"), ("dialog.no", "close")

    def action_yes(self) -> None:
        if (highlighted := self.query_one(OptionList).highlighted_option) is not None and highlighted.id:
            self.app.post_message(CopyRequested(highlighted.id))
            self.dismiss(None)
