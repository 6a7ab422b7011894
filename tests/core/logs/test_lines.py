from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.logs.lines import (
    PLAIN,
    Level,
    Line,
    LineFilter,
    SgrStyle,
    Span,
    apply_sgr,
    decode_line,
    detect_level,
    parse_level,
    parse_line,
    plain_text,
)


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


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("23:34:14    INFO Train batch 16/128", Level.INFO),
        ("23:34:14 SUCCESS Step 3 | Time: 12.35s", Level.SUCCESS),
        ("[trainer0]:23:34:14 WARNING low memory", Level.WARNING),
        ("[default0]:23:34:14   ERROR Fatal error in train", Level.ERROR),
        ("(APIServer pid=25549) INFO 11-20 23:32:46 [api_utils.py:347] x", Level.INFO),
        ("(VllmWorker-0 pid=25891) WARNING 11-20 23:33:07 [vllm.py:725] x", Level.WARNING),
        ("(Worker rank=1 pid=25891, ip=10.0.0.1) ERROR 11-20 23:33:07 [vllm.py:725] x", Level.ERROR),
        ("(EngineCore pid=1) Traceback (most recent call last):", Level.ERROR),
        ("INFO:     Application startup complete.", Level.INFO),
        ("INFO 11-20 23:32:46 [file.py:123] msg", Level.INFO),
        ("WARNING:root:careful", Level.WARNING),
        ("WARN: careful", Level.WARNING),
        ("2025-11-20 23:32:46,123 - vllm.engine - ERROR - gone", Level.ERROR),
        ("2025-11-20 23:32:46.123 | CRITICAL | gone", Level.CRITICAL),
        ("[2025-11-20T23:32:46Z] [DEBUG] x", Level.DEBUG),
        ('{"timestamp": "2026-01-01T00:00:00", "level": "WARNING", "message": "x"}', Level.WARNING),
        ("[rank0]: Traceback (most recent call last):", Level.ERROR),
        ("[rank0]:[W1120 23:33:07.367283046 utils.cpp:68] Warning: NUMA", Level.WARNING),
        ("[E1120 23:33:07.367283046 ProcessGroupNCCL.cpp:1] x", Level.ERROR),
        ("torch.OutOfMemoryError: CUDA out of memory.", Level.ERROR),
        ("KeyboardInterrupt", Level.ERROR),
        ("Error: Trainer failed with exit code 1", Level.ERROR),
        ("/venv/lib/x.py:12: UserWarning: careful", Level.WARNING),
        ('  File "x.py", line 3, in main', None),
        ("Loading safetensors: 100%", None),
        ("INFORMATION is not a level", None),
        ("no Error in here", None),
        ("", None),
    ],
)
def test_detect_level(text: str, level: Level | None) -> None:
    assert detect_level(text) is level


def test_severity_rises_and_names_are_forgiving() -> None:
    assert Level.DEBUG.severity < Level.SUCCESS.severity < Level.ERROR.severity
    assert parse_level("warn") is Level.WARNING
    assert parse_level("Fatal") is Level.CRITICAL
    assert parse_level("loud") is None


LEVELLED_LINES = [
    "banner",
    "12:00:00    INFO fine",
    "12:00:01   ERROR broken",
    "Traceback (most recent call last):",
    '  File "x.py", line 3',
    "ValueError: no",
    "12:00:02 SUCCESS fine again",
    "  detail",
]


def test_continuations_keep_the_level_of_their_line() -> None:
    line_filter = LineFilter(level=Level.WARNING)
    assert [line for line in LEVELLED_LINES if line_filter.accepts(line)] == LEVELLED_LINES[2:6]


def test_pattern_and_level_both_have_to_hold() -> None:
    line_filter = LineFilter(re.compile("fine"), Level.SUCCESS)
    assert [line for line in LEVELLED_LINES if line_filter.accepts(line)] == [LEVELLED_LINES[6]]


def test_open_filter_accepts_all() -> None:
    line_filter = LineFilter()
    assert line_filter.is_open
    assert all(line_filter.accepts(line) for line in LEVELLED_LINES)


DATA = Path(__file__).parents[2] / "data"
ESC = "\x1b"


@pytest.mark.parametrize(
    ("raw", "expected"),
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
def test_parse_line_shows_only_harmless_text(raw: str, expected: str) -> None:
    assert parse_line(raw).text == expected
    assert plain_text(raw) == expected


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
    ("data", "expected"),
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
def test_decode_line_replaces_bad_bytes_and_folds_redraws(data: bytes, expected: str) -> None:
    assert decode_line(data) == expected


def test_decode_line_leaves_out_a_cut_character() -> None:
    assert decode_line("é".encode()[:1], complete=False) == ""


def test_escapes_are_parsed_in_linear_time() -> None:
    assert parse_line(f"{ESC}]" * 100_000).text == "]" * 100_000
    assert parse_line(f"{ESC}[" * 60_000).text == ""
    assert parse_line("x" * 200_000).text == "x" * 200_000


def test_vllm_sample_keeps_its_text() -> None:
    lines = (DATA / "vllm-0.32-cpu-startup.log").read_bytes().split(b"\n")
    parsed_lines = [parse_line(decode_line(line)) for line in lines]
    assert sum(line.level is Level.WARNING for line in parsed_lines) == 14
    assert any(line.text.endswith("█  version 0.32.0") for line in parsed_lines)


@pytest.mark.parametrize(
    ("data", "expected"),
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
def test_records_of_json_logging_are_shown_as_lines(data: bytes, expected: str) -> None:
    """Finding P11."""
    assert decode_line(data) == expected
