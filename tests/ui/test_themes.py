"""Every theme can be read, on every terminal; which one is shown, and that it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import pytest
from rich._palettes import EIGHT_BIT_PALETTE as EIGHT_BIT
from rich._palettes import STANDARD_PALETTE as STANDARD
from rich.color import ColorSystem
from tests.fakes.experiment import FakeExperiment, gpu_report, knob_table, running_status
from tests.fakes.runs import FakeRuns
from tests.params import slow_but
from tests.ui.conftest import Opener, choose, press, settle, until
from tests.ui.metric_cases import experiment_with_run
from tests.ui.status_cases import failed_status
from textual.app import App
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from rltui.ui import themes
from rltui.ui.app import RltuiApp
from rltui.ui.charts.plot import Plot
from rltui.ui.terminal.abilities import Abilities
from rltui.ui.terminal.cells import PLAIN, Cells
from rltui.ui.terminal.contrast import GRAPHICS, TEXT, Rgb, displayed_colors, displayed_ratio, ratio
from rltui.ui.terminal.incoming import BackgroundColorReported

NAMES = [name for name in themes.available() if name != themes.FOLLOWING]
OURS = [name for name in NAMES if name.startswith("rltui-")]
DEEP = [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT]
GROUNDS = ["background", "surface", "panel"]
ROWS = ["block-cursor-background", "block-hover-background", "warning-muted"]
CURSORS = ["block-cursor-blurred-background", "input-selection-background"]
TEXTS = ["foreground", "text-muted", "text-primary", "text-secondary", "text-success", "text-warning"]
TEXTS += ["text-error", "text-accent", "accent", "foreground-muted", "text-disabled"]
ON_GROUNDS = ["primary", "secondary", "success", "warning", "error", "footer-key-foreground"]
PAIRS = [
    ("background", "warning"),
    ("block-cursor-foreground", "block-cursor-background"),
    ("block-cursor-blurred-foreground", "block-cursor-blurred-background"),
    ("input-cursor-foreground", "input-cursor-background"),
    ("input-selection-foreground", "input-selection-background"),
    ("button-color-foreground", "primary"),
    ("button-color-foreground", "error"),
    ("footer-foreground", "footer-background"),
    ("footer-key-foreground", "footer-background"),
    ("footer-description-foreground", "footer-background"),
]
"""Text on what it is written on."""
BORDERS = ["border", "border-blurred", "accent", "error", "primary"]
"""Of panes: with the focus and without, of a failed one; of dialogs."""


def theme_of(name: str, colors: ColorSystem) -> dict[str, str]:
    theme = themes.theme(name, colors)
    return {**theme.to_color_system().generate(), **theme.variables}


def rgb(variables: dict[str, str], name: str, below: Rgb = (0, 0, 0)) -> Rgb:
    color = Color.parse(variables[name])
    return (Color(*below) + color).rgb


@pytest.mark.parametrize("colors", DEEP, ids=["true", "256"])
@pytest.mark.parametrize("name", NAMES)
def test_every_role_can_be_read_where_it_is_used(name: str, colors: ColorSystem) -> None:
    variables = theme_of(name, colors)
    color = partial(rgb, variables)
    pairs = [*product(TEXTS, GROUNDS + ROWS + CURSORS), *product(ON_GROUNDS, GROUNDS), *PAIRS]
    bad = [(text, on) for text, on in pairs if displayed_ratio(color(text), color(on), colors) < TEXT]
    lines = [
        (line, on)
        for line, on in product(BORDERS, GROUNDS)
        if displayed_ratio(color(line), color(on), colors) < GRAPHICS
    ]
    faint = [
        on
        for on in (GROUNDS + ROWS if colors is ColorSystem.TRUECOLOR else GROUNDS)
        if displayed_ratio((Color(*color(on)) + Color(*color("foreground"), 0.6)).rgb, color(on), colors)
        < TEXT
    ]
    assert (bad, lines, faint) == ([], [], [])
    for failure in ("error", "text-error"):
        seen = [displayed_colors(color(role), colors)[0] for role in ("accent", failure)]
        assert themes.hues_apart(*seen) > 0.9 * themes.HUES_APART, "focus is not in the colour of failure"


def test_with_sixteen_colours_there_is_one_theme() -> None:
    few = ColorSystem.STANDARD
    variables = theme_of("nord", few)
    assert variables == theme_of("rltui-16", few)
    color = partial(rgb, variables)
    numbers = {name: displayed_colors(color(name), few) for name in (*TEXTS, *BORDERS)}
    assert numbers["accent"] not in (numbers["error"], numbers["text-error"], numbers["text-warning"])
    for text, on in [*product(TEXTS, GROUNDS), *PAIRS]:
        assert displayed_ratio(color(text), color(on), few) >= TEXT, (text, on)
    for line, on in product(BORDERS, GROUNDS):
        assert displayed_ratio(color(line), color(on), few) >= GRAPHICS, (line, on)


def test_high_contrast_is_higher() -> None:
    variables = theme_of("rltui-contrast", ColorSystem.TRUECOLOR)
    for text, on in product(TEXTS, GROUNDS):
        assert ratio(rgb(variables, text), rgb(variables, on)) >= 7, (text, on)


def test_our_own_are_as_they_were_chosen() -> None:
    for name in OURS:
        before, after = themes.available()[name], themes.theme(name, ColorSystem.TRUECOLOR)
        assert (before.background, before.foreground, before.error) == (
            after.background,
            after.foreground,
            after.error,
        )


def test_all_of_textuals_are_offered_but_those_of_unknown_colours() -> None:
    assert set(BUILTIN_THEMES) - set(NAMES) == {"ansi-dark", "ansi-light"}


# what is painted

SCREENS: dict[str, tuple[str, ...]] = {
    "overview": (),
    "config": ("6",),
    "gpus": ("3",),
    "metrics": ("4",),
    "chart": ("4", "enter"),
    "logs": ("2",),
    "runs": ("7",),
    "events": ("8",),
    "rollouts": ("5",),
    "checkpoints": ("C",),
    "plan": ("t", "r"),
    "menu": ("R",),
    "editor": ("c", "j", "j", "enter", *"100"),
    "themes": ("colon", "asterisk"),
    "palette": ("colon",),
    "messages": ("exclamation_mark",),
    "help": ("question_mark",),
}


def painted(app: App[None], colors: ColorSystem) -> Iterator[tuple[str, Rgb, Rgb]]:
    """Each cell that shows more than its background, and the colours it is written with."""
    strips = app.screen._compositor.render_strips()
    cells = Cells(*app.size)
    for y, strip in enumerate(strips):
        cells.draw(0, y, strip, colors)
    for row in cells._target:
        for char, style in zip(row.chars, row.styles, strict=True):
            if char.strip() and style != PLAIN:
                yield char, decoded(style.fg), decoded(style.bg)


def decoded(codes: str) -> Rgb:
    """The colour of SGR codes, as it is on a terminal of true colours, or of the first kind with fewer."""
    numbers = [int(code) for code in codes.split(";")]
    match numbers:
        case [38 | 48, 2, red, green, blue]:
            return red, green, blue
        case [38 | 48, 5, number]:
            return tuple(EIGHT_BIT[number])  # type: ignore[return-value]
        case [number]:
            base = next(base for base in (100, 90, 40, 30) if number >= base)
            return tuple(STANDARD[number - base + (8 if base >= 90 else 0)])  # type: ignore[return-value]
    raise AssertionError(codes)


def unreadable(app: App[None], colors: ColorSystem) -> set[tuple[str, float]]:
    """No cell is excepted."""
    found = set()
    for char, fg, bg in painted(app, colors):
        least = GRAPHICS if "\u2500" <= char <= "\u259f" or "\u2800" <= char <= "\u28ff" else TEXT
        if ratio(fg, bg) < least:
            found.add((char, round(ratio(fg, bg), 2)))
    return found


@pytest.mark.parametrize("screen", slow_but(SCREENS.keys(), "help"))
async def test_all_that_is_painted_can_be_read(screen: str, open_app: Opener) -> None:
    status = failed_status() if screen == "overview" else running_status()
    async with open_app(FakeExperiment(status, gpu_report(), knob_table()), size=(130, 40)) as pilot:
        app = pilot.app
        assert isinstance(app, RltuiApp)
        await press(pilot, *SCREENS[screen])
        for name in OURS if screen not in ("overview", "plan") else NAMES:
            app.theme = name
            await settle(pilot)
            assert app.theme == name
            for colors in DEEP:
                assert not unreadable(app, colors), (name, colors)
        app.abilities = Abilities(ColorSystem.STANDARD)
        app.theme = "nord"
        await settle(pilot)
        assert app.current_theme.name == "rltui-16"
        assert not unreadable(app, ColorSystem.STANDARD)


# which one is shown


@pytest.mark.slow
async def test_a_theme_is_seen_before_it_is_chosen_and_kept(open_app: Opener) -> None:
    runs = FakeRuns()
    runs.saved_values["app"] = {"other": "kept"}
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        app = pilot.app
        assert app.current_theme.name == "rltui-dark"
        await choose(pilot, "theme")
        await press(pilot, *"light")
        assert app.current_theme.name == "rltui-light"
        await press(pilot, "escape")
        assert (app.theme, app.current_theme.name) == (themes.FOLLOWING, "rltui-dark")
        assert "theme" not in runs.view_state("app")

        await choose(pilot, "theme")
        await press(pilot, *"contrast", "enter")
        await until(pilot, lambda: runs.view_state("app").get("theme") == "rltui-contrast")
        assert runs.view_state("app")["other"] == "kept"
        assert app.theme == "rltui-contrast"
    async with open_app(FakeExperiment(), runs=runs, theme="nord") as pilot:
        assert pilot.app.theme == "rltui-contrast"


@pytest.mark.slow
async def test_the_settings_say_the_theme_until_one_is_chosen(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), theme="nord") as pilot:
        assert pilot.app.theme == "nord"
    runs = FakeRuns()
    runs.saved_values["app"] = {"theme": "no longer there"}
    async with open_app(FakeExperiment(), theme="rltui-lihgt", runs=runs) as pilot:
        assert pilot.app.current_theme.name == "rltui-dark"
        await press(pilot, "exclamation_mark")
        text = "".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
        assert "unknown theme: rltui-lihgt. did you mean rltui-light?" in text


async def test_where_nothing_is_chosen_the_background_decides(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), abilities=Abilities(is_light=True)) as pilot:
        assert pilot.app.current_theme.name == "rltui-light"
        pilot.app.post_message(BackgroundColorReported(is_light=False))
        await settle(pilot)
        assert pilot.app.current_theme.name == "rltui-dark"
        found = {bg for _, _, bg in painted(pilot.app, ColorSystem.TRUECOLOR)}
        assert rgb(theme_of("rltui-dark", ColorSystem.TRUECOLOR), "background") in found
    async with open_app(FakeExperiment(), theme="nord") as pilot:
        pilot.app.post_message(BackgroundColorReported(is_light=True))
        await settle(pilot)
        assert pilot.app.current_theme.name == "nord"
        pilot.app.theme = themes.FOLLOWING
        assert pilot.app.current_theme.name == "rltui-light"


async def test_a_log_is_painted_anew_in_other_colours(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), size=(130, 40)) as pilot:
        app = pilot.app
        for name in ("rltui-light", "rltui-dark"):
            app.theme = name
            await settle(pilot)
            wanted = rgb(theme_of(name, ColorSystem.TRUECOLOR), "text-warning")
            assert ("W", wanted) in {(char, fg) for char, fg, _ in painted(app, ColorSystem.TRUECOLOR)}


@pytest.mark.slow
async def test_without_colours_there_is_none_in_any_theme(
    open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app(FakeExperiment(failed_status(), gpu_report(), knob_table()), size=(130, 40)) as pilot:
        app = pilot.app
        for name in ("rltui-dark", "rltui-light", "gruvbox"):
            app.theme = name
            await settle(pilot)
            for colors in (*DEEP, ColorSystem.STANDARD):
                for char, fg, bg in painted(app, colors):
                    assert len(set(fg)) == len(set(bg)) == 1, (name, char)
        text = "".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "✗ failed" in text
        assert "┏" in text  # the pane with the focus


async def test_charts_are_drawn_without_colours(open_app: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app(experiment_with_run(), size=(80, 24)) as pilot:
        await press(pilot, "4")
        await until(
            pilot, lambda: any("Reward" in str(plot.border_title) for plot in pilot.app.screen.query(Plot))
        )
        assert {len(set(fg)) for _, fg, _ in painted(pilot.app, ColorSystem.TRUECOLOR)} == {1}
