"""The fields of the knob editor: what keys make of a value."""

from __future__ import annotations

from itertools import product

import pytest
from tests.fakes.experiment import knob
from tests.ui.conftest import press
from textual.app import App, ComposeResult
from textual.events import Paste

from rltui.core.config.report import KnobInfo
from rltui.errors import ConfigError
from rltui.ui.knob_values import edit_text, item_texts, list_text, moved, typed_value
from rltui.ui.widgets.value_fields import Field, bar_line, value_editor

MODULES = knob("a.modules", ["q", "k"], kind="list", default=["q"])
LAYERS = knob("a.layers", [1, 2], kind="list", default=None)
SHARE = knob("a.share", 0.5, kind="float", control="fraction", bounds=(0.05, 0.98))
KIND = knob("a.kind", "x", kind="enum", choices=("x", "y", "z"), default="y")


class Host(App[None]):
    def __init__(self, row: KnobInfo) -> None:
        super().__init__()
        self.row = row

    def compose(self) -> ComposeResult:
        self.field: Field = value_editor(self.row)
        yield self.field

    def on_mount(self) -> None:
        self.field.focus()


@pytest.mark.parametrize(
    ("row", "keys", "value"),
    [
        (MODULES, (), ["q", "k"]),
        (MODULES, ("_", "x"), ["q_x", "k"]),
        (MODULES, ("home", "w", "right", "delete"), ["wq", "k"]),
        (MODULES, ("down", "down", "v"), ["q", "k", "v"]),
        (MODULES, ("ctrl+k",), ["k"]),
        (MODULES, ("ctrl+k", "ctrl+k"), []),
        (MODULES, ("shift+down",), ["k", "q"]),
        (MODULES, ("down", "shift+up"), ["k", "q"]),
        (MODULES, ("backspace", '"'), ['"', "k"]),
        (MODULES, ("ctrl+x",), None),
        (LAYERS, ("backspace", "7"), [7, 2]),
        (LAYERS, ("down", "down", *"[3]"), [1, 2, [3]]),
        (SHARE, ("right",), 0.51),
        (SHARE, ("left", "left"), 0.48),
        (SHARE, ("up", "up"), 0.6),
        (SHARE, ("down",), 0.45),
        (SHARE, ("up",) * 12, 0.98),
        (SHARE, tuple("0.73"), 0.73),
        (SHARE, ("ctrl+x",), None),
        (KIND, ("down",), "y"),
        (KIND, ("up",), "z"),
        (KIND, ("ctrl+x",), None),
        (KIND, ("ctrl+x", "down"), "x"),
        (KIND.replace(is_set=False), (), None),
        (knob("a.on", True, kind="bool"), ("space",), False),
        (knob("a.size", 64, control="doubling"), ("asterisk", "asterisk", "slash"), 128),
    ],
)
async def test_keys_make_values(row: KnobInfo, keys: tuple[str, ...], value: object) -> None:
    app = Host(row)
    async with app.run_test() as pilot:
        await press(pilot, *keys)
        assert typed_value(row, app.field.value) == value


async def test_a_line_is_pasted_into_the_item() -> None:
    app = Host(MODULES)
    async with app.run_test() as pilot:
        app.field.post_message(Paste("_proj\nv"))
        await pilot.pause()
        assert typed_value(MODULES, app.field.value) == ["q_proj", "k"]


def test_an_item_of_another_kind_is_refused_in_words() -> None:
    assert item_texts(LAYERS) == ["1", "2"]
    with pytest.raises(ConfigError, match=r"layers must be a list"):
        typed_value(LAYERS, list_text(["1", "x"], plain=False))


def test_what_a_file_says_is_offered_to_the_last_digit() -> None:
    row = knob("a.lr", 0.123456789, kind="float")
    assert typed_value(row, edit_text(row)) == 0.123456789


def test_a_fraction_moves_on_the_grid_and_stays_within_its_bounds() -> None:
    assert moved(SHARE, "0.517", 0.01) == "0.53"
    assert moved(SHARE, "0.06", -0.05) == "0.05"
    assert moved(SHARE, "x", 0.01) == "x"


def test_the_bar_has_its_width() -> None:
    for fraction, safe, width in product((None, 0.0, 0.5, 1.0, 7.0), (None, 0.0, 0.71, 1.0), (0, 3, 40)):
        assert bar_line(fraction, safe, width).cell_length == max(2, width)
