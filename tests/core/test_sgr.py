from __future__ import annotations

import pytest

from rltui.core.sgr import PLAIN, SgrStyle, apply_sgr


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("31", SgrStyle(fg=1)),
        ("97", SgrStyle(fg=15)),
        ("44", SgrStyle(bg=4)),
        ("107", SgrStyle(bg=15)),
        ("1;2;3;4;7", SgrStyle(bold=True, dim=True, italic=True, underline=True, reverse=True)),
        ("4:3", SgrStyle(underline=True)),
        ("38;5;208", SgrStyle(fg=208)),
        ("38;2;1;2;3;1", SgrStyle(fg=(1, 2, 3), bold=True)),
        ("38:2::1:2:3;1", SgrStyle(fg=(1, 2, 3), bold=True)),
        ("48:5:17", SgrStyle(bg=17)),
        ("38;5;999;1", SgrStyle(bold=True)),
        ("38;2;1;2", PLAIN),
        ("38;5", PLAIN),
        ("38", PLAIN),
        ("98;108;99;9999999999", PLAIN),
    ],
)
def test_apply_sgr_reads_parameters(parameters: str, style: SgrStyle) -> None:
    assert apply_sgr(PLAIN, parameters) == style


@pytest.mark.parametrize("parameters", ["", "0", "22;23;24;27;39;49", "22;23;4:0;27;39;49", "31;0"])
def test_apply_sgr_resets(parameters: str) -> None:
    everything = SgrStyle(fg=1, bg=2, bold=True, dim=True, italic=True, underline=True, reverse=True)
    assert apply_sgr(everything, parameters) == PLAIN
