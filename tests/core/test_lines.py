from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.levels import Level
from rltui.core.lines import Line, Span, decode_line, parse_line, plain_text
from rltui.core.sgr import SgrStyle

DATA = Path(__file__).parent.parent / "data"
ESC = "\x1b"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("[red]markup[/] [@click=app.quit]x[/]", "[red]markup[/] [@click=app.quit]x[/]"),
        ("a\tb", "a       b"),
        ("1234567\t\tb", "1234567         b"),
        (f"{ESC}[31m\t{ESC}[0mb", "        b"),
        (f"{ESC}[2J{ESC}[H{ESC}[?1049hgone", "gone"),
        (f"a{ESC}[1;1Hb{ESC}[Kc", "abc"),
        (f"{ESC}]0;title\x07x", "x"),
        (f"{ESC}]52;c;cm0gLXJm\x07x", "x"),
        (f"{ESC}]52;c;cm0gLXJm{ESC}\\x", "x"),
        (f"{ESC}]8;;http://evil.example\x07link{ESC}]8;;\x07", "link"),
        (f"{ESC}]0;never ended", "]0;never ended"),
        (f"{ESC}P1$r0m{ESC}\\x", "x"),
        (f"{ESC}_apc{ESC}\\{ESC}^pm{ESC}\\x", "x"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x9d52;c;eA==\x9cx", "x"),
        (f"{ESC}(B{ESC}7{ESC}cx", "x"),
        (f"x{ESC}", "x"),
        (f"x{ESC}[", "x"),
        (f"x{ESC}[38;5", "x"),
        ("be\x07ep\x08\x00\x7f", "beep"),
        ("user\u202etxt.exe\u2066", "usertxt.exe"),
        ("pay\u200bpal\ufeff\u00ad", "paypal"),
        ("warning \u26a0\ufe0f", "warning \u26a0"),
        ("e\u0301 日本 █▄", "e\u0301 日本 █▄"),
    ],
)
def test_parse_line_shows_only_harmless_text(raw: str, shown: str) -> None:
    assert parse_line(raw).text == shown
    assert plain_text(raw) == shown


def test_parse_line_keeps_colours_of_a_loguru_line() -> None:
    raw = f"{ESC}[2m23:34:14{ESC}[0m {ESC}[1m   INFO{ESC}[0m {ESC}[1m{ESC}[22mStep 3{ESC}[0m{ESC}[0m"
    assert parse_line(raw) == Line(
        "23:34:14    INFO Step 3",
        (Span(0, 8, SgrStyle(dim=True)), Span(9, 16, SgrStyle(bold=True))),
        Level.INFO,
    )


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]m;0123\x07\\\x9b\x9d\t\rPX^_"))))
def test_shown_text_has_no_control_characters(raw: str) -> None:
    line = parse_line(raw)
    assert not {unicodedata.category(char) for char in line.text} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert all(0 <= span.start < span.stop <= len(line.text) for span in line.spans)
    assert plain_text(raw) == line.text
    assert plain_text(line.text) == line.text


@given(st.binary())
def test_any_bytes_decode_to_one_line(data: bytes) -> None:
    assert "\r" not in decode_line(data.replace(b"\n", b""))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"a\xffb\xc3(", "a�b�("),
        (b"plain\r", "plain"),
        (b"  0%\r 50%\r100%", "100%"),
        (b"  0%\r100%\r", "100%"),
        (b"100%\r        \r", "100%"),
        (b"100%\r\x1b[K", "100%"),
        (b"\r\r", ""),
    ],
)
def test_decode_line_replaces_bad_bytes_and_folds_redraws(data: bytes, shown: str) -> None:
    assert decode_line(data) == shown


def test_decode_line_leaves_out_a_cut_character() -> None:
    assert decode_line("é".encode()[:1], complete=False) == ""


def test_a_megabyte_of_escapes_is_parsed_in_linear_time() -> None:
    assert parse_line(f"{ESC}]" * 500_000).text == "]" * 500_000
    assert parse_line(f"{ESC}[" * 300_000).text == ""
    assert parse_line("x" * 1_000_000).text == "x" * 1_000_000


def test_vllm_sample_keeps_its_text() -> None:
    lines = (DATA / "vllm-0.32-cpu-startup.log").read_bytes().split(b"\n")
    shown = [parse_line(decode_line(line)) for line in lines]
    assert sum(line.level is Level.WARNING for line in shown) == 14
    assert any(line.text.endswith("█  version 0.32.0") for line in shown)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (
            b'{"timestamp": "2026-08-21T12:00:01.5+00:00", "level": "INFO", "message": "Step 3 | Time: 1s"}',
            "12:00:01    INFO Step 3 | Time: 1s",
        ),
        (
            b'[rank0]:{"timestamp": "T12:00:01", "level": "ERROR", "message": "a", "exception": "b\\n  c"}',
            "[rank0]:12:00:01   ERROR a ⏎ b ⏎ c",
        ),
        (
            b'{"timestamp": "T09:08:07", "level": "INFO", "type": "progress", "desc": "Evaluating"}',
            "09:08:07    INFO Evaluating",
        ),
        (b'{"level": "INFO", "message": 3}', '{"level": "INFO", "message": 3}'),
        (b'{"level": "INFO", "message": "cut}', '{"level": "INFO", "message": "cut}'),
        (b'saw {"level": "INFO", "message": "x"}', 'saw {"level": "INFO", "message": "x"}'),
        (b'{"a": {"level": "INFO"}}', '{"a": {"level": "INFO"}}'),
    ],
)
def test_records_of_json_logging_are_shown_as_lines(data: bytes, shown: str) -> None:
    """Finding P11."""
    assert decode_line(data) == shown
