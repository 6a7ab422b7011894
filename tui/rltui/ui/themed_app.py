"""The colours of the app: chosen by name and kept, or as the terminal's background is."""

from __future__ import annotations

from typing import Any

from rich.color import ColorSystem
from rich.console import RenderableType
from textual import on
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.filter import Monochrome
from textual.reactive import Reactive
from textual.screen import Screen
from textual.theme import Theme

from rltui.base.text import did_you_mean
from rltui.ui import themes
from rltui.ui.messages import NotifyingApp
from rltui.ui.state import AppState
from rltui.ui.terminal.abilities import Abilities
from rltui.ui.terminal.driver import TerminalDriver
from rltui.ui.terminal.incoming import BackgroundColorReported
from rltui.ui.text import clean_line

_KEY = "theme"
"""Key of the choice in what is saved of the app."""


class ThemedApp(NotifyingApp):
    """An app in colours that can be read on a terminal of such abilities.

    `theme` is what is chosen, `current_theme` what comes of it on this terminal.
    """

    theme: Reactive[str] = Reactive(themes.FOLLOWING)
    abilities = Abilities()

    def __init__(self, app_state: AppState, abilities: Abilities | None, theme_name: str) -> None:
        """`abilities` are those of the terminal, by default all there are.

        `theme_name`: the theme of a person who has chosen none while the app ran.
        """
        self._is_light = abilities is not None and abilities.is_light
        if abilities is not None:
            self.abilities = abilities
        super().__init__(app_state.clock)
        self._app_state = app_state
        if self.abilities.is_grey and not self.no_color:  # as Textual does for $NO_COLOR
            self.no_color = True
            self._filters.append(Monochrome())
        self._registered_themes = dict(themes.available())
        self._unknown_theme = "" if theme_name in self.available_themes else theme_name
        names = [
            name
            for name in (app_state.ui_state.values.get(_KEY), theme_name)
            if name in self.available_themes
        ]
        if names:
            self.theme = names[0]

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Show what Textual has composed: by our driver on a terminal, by Textual's own elsewhere."""
        driver = self._driver
        if not (isinstance(driver, TerminalDriver) and isinstance(renderable, ChopsUpdate | LayoutUpdate)):
            super()._display(screen, renderable)
            return
        if self._running and not (self._closed or self._batch_count):
            driver.show(renderable, self.size, self.size.clamp_offset(self.cursor_position), self.abilities)
        self.post_display_hook()

    def get_theme(self, theme_name: str) -> Theme | None:
        if theme_name not in themes.available():
            return super().get_theme(theme_name)
        return themes.theme(theme_name, self.abilities.colors, is_light=self._is_light)

    def keep_theme(self, name: str) -> None:
        """Take its colours, now and whenever the app is opened again."""
        self.theme = name
        self._app_state.ui_state.note(_KEY, name)

    def on_mount(self) -> None:
        self._follow()
        if self._unknown_theme:
            guess = did_you_mean(self._unknown_theme, themes.available())
            text = f"settings.toml: unknown theme: {clean_line(self._unknown_theme)}. {guess}"
            self.notify(text.strip(), severity="warning", markup=False)

    def watch_theme(self) -> None:
        self._follow()

    @on(BackgroundColorReported)
    def _take_background(self, report: BackgroundColorReported) -> None:
        if report.is_light != self._is_light:
            self._is_light = report.is_light
            if self.theme == themes.FOLLOWING:
                self._watch_theme(self.theme)

    def _follow(self) -> None:
        """Have the terminal tell its background, as long as that matters."""
        if isinstance(self._driver, TerminalDriver) and self.abilities.colors is not ColorSystem.STANDARD:
            self._driver.watch_background(enabled=self.theme == themes.FOLLOWING)
