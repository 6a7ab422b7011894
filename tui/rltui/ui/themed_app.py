"""The colours of the app: chosen by name and kept, or as the terminal's background is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from rich.color import ColorSystem
from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import Reactive
from textual.theme import Theme
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from rltui.client.protocol import Runs
from rltui.core.text import did_you_mean
from rltui.errors import RltuiError
from rltui.ui import themes
from rltui.ui.screens.dialogs import Dialog
from rltui.ui.terminal.abilities import Abilities
from rltui.ui.terminal.driver import BackgroundTold, TerminalDriver
from rltui.ui.text import clean, clean_line

_OWNER, _KEY = "app", "theme"
"""Where the choice is kept."""
_MEANINGS = {
    themes.FOLLOWING: "dark or light, as it is",
    themes.CONTRAST.name: "as far apart as can be",
    themes.SIXTEEN.name: "those of a PC",
}


class ThemeMenu(Dialog[str]):
    """Themes by name, each shown as soon as the cursor is on it: the one chosen, `None` for none."""

    CSS_PATH: ClassVar = ["screens/dialogs.tcss"]

    def __init__(self, chosen: str, show: Callable[[str], None], *, note: str = "") -> None:
        """`note`: why what is chosen may not be seen."""
        super().__init__()
        self._chosen, self._show, self._note = chosen, show, note

    def compose(self) -> ComposeResult:
        """The list, and the one that is chosen."""
        with Vertical(classes="box") as box:
            box.border_title = "Theme"
            box.border_subtitle = "enter keeps it · esc goes back"
            if self._note:
                yield Static(self._note, classes="keys")
            yield OptionList(*map(self._option, themes.NAMES), compact=True)

    def _option(self, name: str) -> Option:
        mark = "● " if name == self._chosen else "  "
        meaning = _MEANINGS.get(name, "")
        return Option(
            Content.assemble(mark, name, (f"  {meaning}" if meaning else "", "$text-muted")), id=name
        )

    def on_mount(self) -> None:
        """Begin at what is chosen."""
        self.query_one(OptionList).highlighted = themes.NAMES.index(self._chosen)

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        if self.is_active:
            self._show(event.option_id or self._chosen)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)


class ThemedApp(App[None], inherit_bindings=False):
    """In colours that can be read on a terminal of such abilities."""

    theme: Reactive[str] = Reactive(themes.DARK.name)
    abilities = Abilities()

    def __init__(self, runs: Runs, abilities: Abilities, theme: str) -> None:
        """`theme`: one of `themes.NAMES`, of a person who has chosen none while the app ran."""
        super().__init__(driver_class=TerminalDriver)
        self.abilities = abilities
        self._runs = runs
        self._is_light = abilities.is_light
        self._unknown_theme = "" if theme in themes.NAMES else theme
        kept = runs.kept(_OWNER).get(_KEY)
        known = [name for name in (kept, theme) if name in themes.NAMES]
        self.chosen_theme = known[0] if known else themes.FOLLOWING
        """One of `themes.NAMES`; `theme` is what comes of it."""
        self._registered_themes = themes.available()
        self._show_chosen()

    def get_theme(self, theme_name: str) -> Theme | None:
        """The theme as it is shown on this terminal."""
        if theme_name in themes.available():
            return themes.theme(theme_name, self.abilities.colors)
        return super().get_theme(theme_name)

    def show_theme(self, name: str) -> None:
        """Take the colours of that one of `themes.NAMES`, without keeping the choice."""
        self.chosen_theme = name
        self._show_chosen()

    @work(group="theme", exclusive=True)
    async def keep_theme(self, name: str) -> None:
        """Take its colours, now and whenever the app is opened again."""
        self.show_theme(name)
        try:
            await asyncio.to_thread(self._keep, name)
        except RltuiError as error:
            self.notify(clean(str(error)), severity="error", markup=False)

    def _keep(self, name: str) -> None:
        self._runs.keep(_OWNER, {**self._runs.kept(_OWNER), _KEY: name})

    def search_themes(self) -> None:
        """Choose one by its looks; Textual's `change_theme` comes here."""
        if isinstance(self.screen, ThemeMenu):
            return
        before = self.chosen_theme

        def answered(name: str | None) -> None:
            if name is None:
                self.show_theme(before)
            else:
                self.keep_theme(name)

        has_few = self.abilities.colors is ColorSystem.STANDARD
        note = (
            f"This terminal has 16 colours: it shows {themes.SIXTEEN.name}, whatever is chosen."
            if has_few
            else ""
        )
        self.push_screen(ThemeMenu(before, self.show_theme, note=note), answered)

    def on_mount(self) -> None:
        """Ask the terminal what it looks like."""
        self._follow()
        if self._unknown_theme:
            guess = did_you_mean(self._unknown_theme, themes.NAMES)
            text = f"settings.toml: there is no theme {clean_line(self._unknown_theme)!r}. {guess}"
            self.notify(text.strip(), severity="warning", markup=False)

    @on(BackgroundTold)
    def _take_background(self, told: BackgroundTold) -> None:
        self._is_light = told.is_light
        if self.chosen_theme == themes.FOLLOWING:
            self._show_chosen()

    def _show_chosen(self) -> None:
        if self.abilities.colors is ColorSystem.STANDARD:
            self.theme = themes.SIXTEEN.name
        elif self.chosen_theme == themes.FOLLOWING:
            self.theme = (themes.LIGHT if self._is_light else themes.DARK).name
        else:
            self.theme = self.chosen_theme
        self._follow()

    def _follow(self) -> None:
        """Have the terminal tell its background, as long as that matters."""
        if isinstance(self._driver, TerminalDriver) and self.abilities.colors is not ColorSystem.STANDARD:
            self._driver.follow_background(wanted=self.chosen_theme == themes.FOLLOWING)
