"""Colours: four themes of our own, and Textual's, corrected until all of each can be read."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from rich.color import ColorSystem
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from rltui.ui.terminal.contrast import (
    BLACK,
    GRAPHICS,
    TEXT,
    WHITE,
    Rgb,
    blend,
    displayed_colors,
    displayed_ratio,
    luminance,
)

GROUNDS = ("background", "surface", "panel")
"""Everything stands on these colours."""
TINTS = {
    "block-cursor-background": ("primary", 0.4),
    "block-hover-background": ("foreground", 0.12),
    "warning-muted": ("warning", 0.25),
    "block-cursor-blurred-background": ("primary", 0.3),
    "input-selection-background": ("primary", 0.4),
    "screen-selection-background": ("primary", 0.4),
}
"""Grounds with so much of a colour at most: the row with the cursor, the same in a list without the focus;
a marked line, and a warning across the screen; a match; what is selected."""
TEXTS = (
    "foreground", "foreground-muted", "text-muted", "text-disabled", "text-primary", "text-secondary",
    "text-success", "text-warning", "text-error", "text-accent", "accent",
)  # fmt: skip
"""Colours of text, on grounds and tints."""
SOLIDS = (
    "primary", "secondary", "success", "warning", "error",
    "footer-foreground", "footer-key-foreground", "footer-description-foreground",
)  # fmt: skip
"""Bars, frames and keys on grounds; `background` is written in on them."""
LINES = ("border", "border-blurred", "scrollbar", "scrollbar-hover", "scrollbar-active")
"""Colours of lines, on grounds and tints."""
FAINT = 0.6
"""The share in `$foreground 60%`, which is read on grounds."""
HUES_APART = 25 / 360
"""The least difference between the hues of focus and failure, as a share of the circle."""
_WRITTEN = (
    "input-cursor-background",
    "input-selection-foreground",
    "block-cursor-foreground",
    "block-cursor-blurred-foreground",
)
"""These variables take the colour of text."""
_TINT_ROOM = 0.62
"""White, or black, stands out from a tint by so much of what it does from the background, at least: where
that is less, all colours on a tint would turn to it."""
_LEAST_DIFFERENCE = 1.1
_ROUNDED = 1.03
"""The most that Textual's rounding takes from a ratio."""
_LIST_TINT = 0.05
"""The share of the foreground that Textual lays over a list with the focus."""
_ROLES = ("primary", "secondary", "accent", "success", "warning", "error")
_FIELDS = (*GROUNDS, "foreground", *_ROLES)
"""Colours of a theme that are no variables; Textual rounds them on the way to those."""
_CYAN = (79, 214, 214)
_STEPS = 32


def _own_theme(name: str, *, dark: bool = True, **colors: str) -> Theme:
    """Text of a role has the very colour of it. `colors`: `_FIELDS`, and other variables with `_` for `-`."""
    fields: dict[str, Any] = {field: colors.pop(field) for field in _FIELDS}
    variables = {f"text-{role}": fields[role] for role in _ROLES}
    variables |= {key.replace("_", "-"): color for key, color in colors.items()}
    return Theme(name=name, dark=dark, **fields, variables=variables)


def _rgb(color: str, below: Rgb) -> Rgb:
    """A translucent colour is blended with `below`; `auto` is white or black, with a share such as `60%`."""
    name, _, share = color.partition(" ")
    if name == "auto":
        full, covers = WHITE if luminance(below) < 0.18 else BLACK, 1.0
    else:
        parsed = Color.parse(name)
        full, covers = parsed.rgb, parsed.a
    return blend(below, full, covers * float(share.removesuffix("%") or 100) / 100)


DARK = _own_theme(
    "rltui-dark",
    primary="#6aa8ff",
    secondary="#c49bff",
    accent="#4fd6d6",
    success="#79d279",
    warning="#ffb454",
    error="#ff7b7b",
    foreground="#e4e7eb",
    background="#111417",
    surface="#171b1f",
    panel="#20262c",
)
LIGHT = _own_theme(
    "rltui-light",
    primary="#0b57c4",
    secondary="#7439b3",
    accent="#006b75",
    success="#1a6e30",
    warning="#845000",
    error="#b3261e",
    foreground="#0a0c0f",
    background="#fbfbfa",
    surface="#ffffff",
    panel="#e8ebee",
    dark=False,
)
CONTRAST = _own_theme(
    "rltui-contrast",
    primary="#8cc8ff",
    secondary="#e2b8ff",
    accent="#00ffff",
    success="#7dff7d",
    warning="#ffd700",
    error="#ff9090",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#181818",
    text_muted="#e0e0e0",
    text_disabled="#d0d0d0",
    foreground_muted="#e0e0e0",
    border_blurred="#c0c0c0",
    block_cursor_background="#003a80",
)
SIXTEEN = _own_theme(
    "rltui-16",
    primary="#00aaaa",
    secondary="#ff55ff",
    accent="#55ffff",
    success="#55ff55",
    warning="#ffff55",
    error="#ff5555",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    text_muted="#aaaaaa",
    text_disabled="#aaaaaa",
    foreground_muted="#aaaaaa",
    border_blurred="#aaaaaa",
    scrollbar="#aaaaaa",
    scrollbar_hover="#aaaaaa",
    scrollbar_active="#ffffff",
    block_hover_background="#000000",
    warning_muted="#aa00aa",
    block_cursor_background="#0000aa",
    block_cursor_blurred_background="#0000aa",
    input_selection_background="#0000aa",
    screen_selection_background="#0000aa",
)
"""The colours that a PC had, which a terminal with sixteen shows in its own way."""
FOLLOWING = "terminal"
"""The name of a theme that is dark or light as the terminal is."""
_OURS = {theme.name: theme for theme in (DARK, LIGHT, CONTRAST, SIXTEEN)}

MEANINGS = {
    FOLLOWING: "dark or light, like the terminal",
    CONTRAST.name: "highest contrast",
    SIXTEEN.name: "16 colours",
}
"""Descriptions for names that need one."""


@cache
def available() -> Mapping[str, Theme]:
    """Themes by name, uncorrected. Textual's two of the terminal's own colours are left out: nobody knows
    these.
    """
    plain = {name: theme for name, theme in BUILTIN_THEMES.items() if not theme.ansi}
    return {FOLLOWING: DARK, **_OURS, **plain}


def theme(name: str, colors: ColorSystem, *, is_light: bool = False) -> Theme:
    """The one of that name, in which all can be read where there are so many colours."""
    if colors is ColorSystem.STANDARD:
        name = SIXTEEN.name
    elif name == FOLLOWING:
        name = (LIGHT if is_light else DARK).name
    return _theme(name, colors)


@cache
def _theme(name: str, colors: ColorSystem) -> Theme:
    return corrected(available()[name], colors)


def corrected(theme: Theme, colors: ColorSystem = ColorSystem.TRUECOLOR) -> Theme:
    """The same look, with as little changed as makes text stand out by 4.5 and lines by 3, and focus differ
    from failure, on a terminal of so many colours.
    """
    corrections = {
        name: "#{:02x}{:02x}{:02x}".format(*color) for name, color in _Correction(theme, colors).made.items()
    }
    fields: dict[str, Any] = {field: corrections[field] for field in _FIELDS}
    return replace(theme, **fields, variables={**theme.variables, **corrections})


class _Correction:
    """`made` has the corrected colours, by the names of variables."""

    def __init__(self, theme: Theme, colors: ColorSystem) -> None:
        self.made: dict[str, Rgb] = {}
        self._colors = colors
        self._pole, self._other = (WHITE, BLACK) if theme.dark else (BLACK, WHITE)
        plain = {name: value for name in _FIELDS if (value := getattr(theme, name))}
        variables = {**theme.to_color_system().generate(), **plain, **theme.variables}
        behind = _rgb(variables["background"], self._other)
        self._originals = {
            name: _rgb(variables[name], behind) for name in (*GROUNDS, *SOLIDS, *TEXTS, *LINES)
        }
        for name in GROUNDS:
            self.made[name] = _on_the_way(self._originals[name], self._other, self._may_be_ground)
        grounds = self._with_lists([self.made[name] for name in GROUNDS])
        self._foreground = _on_the_way(
            self._originals["foreground"], self._pole, lambda text: _faint_fits(text, grounds, colors)
        )
        self._originals["foreground"] = self._foreground
        self._fix(SOLIDS, _Below(grounds, colors), TEXT)
        surfaces = [*grounds, *(self._make_tint(name, theme) for name in TINTS)]
        if colors is ColorSystem.STANDARD:
            # none can be moved a little: on tints, that is left to the painter
            surfaces = grounds
        self._fix(TEXTS, _Below(surfaces, colors), TEXT)
        self._fix(LINES, _Below(surfaces, colors), GRAPHICS)
        self._part_focus_from_failure(_Below(surfaces, colors))
        self.made["scrollbar-background"] = self.made["footer-background"] = self.made["panel"]
        self.made["button-color-foreground"] = self.made["input-cursor-foreground"] = self.made["background"]
        self.made |= dict.fromkeys(_WRITTEN, self.made["foreground"])

    def _fix(self, names: Iterable[str], below: _Below, least: float) -> None:
        for name in names:
            self.made[name] = self._adjust(self._originals[name], below, least)

    def _adjust(self, color: Rgb, below: _Below, least: float) -> Rgb:
        return _on_the_way(color, self._pole, lambda candidate: below.shows(candidate, least))

    def _with_lists(self, grounds: Sequence[Rgb]) -> list[Rgb]:
        """Adds the colours that lists with the focus make of these."""
        return [*grounds, *(blend(ground, self._pole, _LIST_TINT) for ground in grounds)]

    def _may_be_ground(self, color: Rgb) -> bool:
        return _faint_fits(self._pole, self._with_lists([color]), self._colors)

    def _make_tint(self, name: str, theme: Theme) -> Rgb:
        """Takes the nearest colour that has room for text and can be told from the background;
        else darkens or lightens it until it has room.
        """
        base, share = TINTS[name]
        background = self.made["background"]
        tint = blend(background, self.made.get(base, self._foreground), share)
        if name in theme.variables:
            tint = _rgb(theme.variables[name], background)
        if self._colors is not ColorSystem.STANDARD:
            tint = self._with_room(tint, background)
        self.made[name] = tint
        return tint

    def _with_room(self, tint: Rgb, background: Rgb) -> Rgb:
        room = _TINT_ROOM * displayed_ratio(self._pole, background, self._colors)

        def has_room(color: Rgb) -> bool:
            is_far = displayed_ratio(self._pole, color, self._colors) >= room
            return is_far and _faint_fits(self._foreground, [color], self._colors)

        def is_seen(color: Rgb) -> bool:
            return has_room(color) and displayed_ratio(color, background, self._colors) >= _LEAST_DIFFERENCE

        candidate = _on_the_way(tint, background, is_seen)
        return candidate if candidate != background else _on_the_way(tint, self._other, has_room)

    def _part_focus_from_failure(self, below: _Below) -> None:
        """An accent that looks like a failure gives way to the next colour that does not."""
        failures = [displayed_colors(self.made[name], self._colors) for name in ("error", "text-error")]
        for color in (
            *(self._originals[name] for name in ("accent", "primary", "secondary", "success")),
            _CYAN,
        ):
            accent = self._adjust(color, below, TEXT)
            displayed = displayed_colors(accent, self._colors)
            apart = [
                hues_apart(*pair) for failure in failures for pair in zip(displayed, failure, strict=True)
            ]
            if min(apart) >= HUES_APART:
                self.made["accent"] = accent
                return


class _Below:
    """Surfaces, all of them darker or all lighter than what stands on them."""

    def __init__(self, surfaces: Iterable[Rgb], colors: ColorSystem) -> None:
        displayed = [displayed_colors(surface, colors) for surface in surfaces]
        self._colors = colors
        self._ranges = [
            (min(kind) + 0.05, max(kind) + 0.05)
            for kind in zip(*(map(luminance, row) for row in displayed), strict=True)
        ]

    def shows(self, color: Rgb, least: float) -> bool:
        """Contrasts of `color` with all surfaces are `least` at least."""
        lights = (luminance(displayed) + 0.05 for displayed in displayed_colors(color, self._colors))
        return all(
            light >= least * high or low >= least * light
            for light, (low, high) in zip(lights, self._ranges, strict=True)
        )


def hues_apart(first: Rgb, second: Rgb) -> float:
    """A share of the circle, at most half; 1 where a colour is grey."""
    hues = []
    for color in (first, second):
        hue, _, saturation = colorsys.rgb_to_hls(*(channel / 255 for channel in color))
        if saturation < 0.15:
            return 1.0
        hues.append(hue)
    apart = abs(hues[0] - hues[1])
    return min(apart, 1 - apart)


def _on_the_way(color: Rgb, goal: Rgb, fits: Callable[[Rgb], bool]) -> Rgb:
    """The colour nearest to `color` on the way to `goal` that fits; `goal` where none does."""
    return next(filter(fits, (blend(color, goal, step / _STEPS) for step in range(_STEPS))), goal)


def _faint_fits(color: Rgb, grounds: Iterable[Rgb], colors: ColorSystem) -> bool:
    """The text has the share `FAINT` of `color`, blended with a ground."""
    return all(
        displayed_ratio(blend(ground, color, FAINT), ground, colors) >= _ROUNDED * TEXT for ground in grounds
    )
