"""The README's film, of screens that are made up."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.film import FOREGROUND, RESTS_AT, SCENES, Drawing, Frame, Run, merged, rows_of

from rltui.core.log_lines import PLAIN, SgrStyle

SVG = "{http://www.w3.org/2000/svg}"


def frame(screen: str, seconds: float = 1.0, says: str = SCENES[RESTS_AT].says) -> Frame:
    return Frame(rows_of(screen), says, "e", seconds)


def test_styles_go_on_from_row_to_row() -> None:
    red = SgrStyle(fg=1)
    first, empty, second = rows_of("a\x1b[31mb \n\nc\x1b[0m d\n\n")
    assert first == (Run(0, "a", PLAIN), Run(1, "b ", red))
    assert second == (Run(0, "c", red), Run(1, " d", PLAIN))
    assert empty == ()


def test_a_film_is_one_picture_whose_frames_follow_each_other() -> None:
    frames = [frame("same\n<one>", 1.0), frame("same\n\x1b[44mtwo", 3.0)]
    svg = ElementTree.fromstring(Drawing(frames).svg())
    texts = ["".join(text.itertext()) for text in svg.iter(f"{SVG}text")]
    assert sorted(texts) == sorted(["same", "<one>", "two", "e", SCENES[RESTS_AT].says])
    names = [item.get("href") for item in svg.iter(f"{SVG}use")]
    assert len(names) == 6
    assert len(set(names)) == 4
    style = "".join(svg.find(f"{SVG}style").itertext())  # type: ignore[union-attr]
    assert re.findall(r"([\d.]+)%\{transform:translateY\(-(\d+)px\)", style)[1][0] == "25.00"
    assert "film 4.0s step-end infinite" in style
    assert "prefers-reduced-motion" in style
    assert not list(svg.iter(f"{SVG}script"))
    assert FOREGROUND in style


def test_frames_that_are_alike_are_one() -> None:
    assert merged([frame("a"), frame("a", 2.0), frame("b")]) == [frame("a", 3.0), frame("b")]
