"""Text from outside, made safe, and figures in words. Pure functions."""

from __future__ import annotations

from rltui.base import text as words
from rltui.core.logs.lines import plain_text


def clean(text: str) -> str:
    """`text` without escape sequences and controls; line feeds stay, tabs become spaces."""
    return "\n".join(plain_text(line) for line in text.split("\n"))


def clean_line(text: str) -> str:
    """`clean` on one line, stripped."""
    return clean(text).replace("\n", " ").strip()


def file_name(path: str) -> str:
    """The last part of a path, as `clean_line`."""
    return clean_line(path.rpartition("/")[2])


def rate(per_second: float) -> str:
    """`640`, `8.2k`, `12k`, `1.1M`."""
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if per_second >= limit:
            scaled = per_second / limit
            return f"{scaled:.1f}{suffix}" if scaled < 10 else f"{scaled:.0f}{suffix}"
    return f"{per_second:.0f}"


def progress_bar(fraction: float, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar, `width` cells together."""
    full_cells = round(min(1.0, max(0.0, fraction)) * width)
    return "▰" * full_cells, "▱" * (width - full_cells)


def value_text(value: object) -> str:
    """A knob's value as a person writes it, on one line."""
    return clean_line(words.value_text(value))
