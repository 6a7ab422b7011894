"""Knobs, and the figures that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltui.core.secrets import mask_value
from rltui.core.states import Role
from rltui.core.text import group_digits, join_words, value_text
from rltui.core.toml.values import format_value
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.config_report import DerivedValue, KnobInfo

KnobRow = dict[str, Any]
"""`KnobInfo`, as JSON has it."""
NOTHING_STAGED: Mapping[str, Any] = {}
"""No new values are collected."""
_MOST_CHOICES = 3
"""Optimizers of transformers are 43."""
_SHORT_NAMES = {"inference": "infer", "orchestrator": "orch", "trainer": "train"}


def is_changed(row: KnobRow) -> bool:
    """As `KnobInfo.changed`."""
    return bool(row["is_running"] and row["running"] != row["value"] and not row.get("overridden"))


def toml_text(value: object) -> str:
    """A value as TOML; `—` where there is none."""
    return "—" if value is None else format_value(value)


def _value(row: KnobRow, _: float) -> Cell:
    """`2`, `1 → 2`, `2 (default)`, `not set`, `2 (runs with 3)`."""
    text = toml_text(row["value"])
    role: Role | None = None
    if is_changed(row):
        return Cell(f"{toml_text(row['running'])} → {text}", "busy")
    if not row["is_set"]:
        text = "not set" if row["value"] is None else f"{text} (default)"
        role = "faint"
    if row.get("overridden"):
        return Cell(f"{text} (runs with {toml_text(row['running'])})")
    return Cell(text, role)


def _allowed_text(row: KnobRow, choices: Sequence[str]) -> str:
    others = len(row["choices"]) - len(choices)
    return range_text(row["bounds"]) or "|".join([*choices, *([f"… {others} more: -v"] if others else [])])


VIEW: View[KnobRow] = View(
    key=lambda row: str(row["key"]),
    columns=(
        Column("key", lambda row, _: str(row["key"]), least=24, cut="start"),
        Column("value", _value, least=12),
        Column("unit", lambda row, _: str(row["unit"]), least=6, goes=4),
        Column(
            "default",
            lambda row, _: "" if row["default"] is None else toml_text(row["default"]),
            least=8,
            goes=2,
        ),
        Column(
            "allowed", lambda row, _: _allowed_text(row, row["choices"][:_MOST_CHOICES]), least=10, goes=3
        ),
        Column(
            "all allowed",
            lambda row, _: _allowed_text(row, row["choices"]),
            heading="allowed",
            least=10,
            goes=3,
        ),
        Column("read by", lambda row, _: " ".join(row["readers"]), least=10, goes=1),
    ),
)


def change_text(knob: KnobInfo, staged: Mapping[str, Any] = NOTHING_STAGED) -> str:
    """`128`; `128 → 64` where the file differs from what runs; `64 ⇒ 32` where 32 is collected."""
    if knob.key in staged:
        value = mask_value(knob.key, staged[knob.key])
        return f"{value_text(knob.value)} ⇒ {'default' if value is None else value_text(value)}"
    if knob.changed:
        return f"{value_text(knob.running)} → {value_text(knob.value)}"
    return value_text(knob.value)


def readers_text(readers: Sequence[str], width: int) -> str:
    """`orch train`, or what fits into `width` cells: `3 readers`, `o t i`, `oti`, nothing."""
    initials = [name[:1] for name in readers]
    texts = (
        " ".join(_SHORT_NAMES.get(name, name[:5]) for name in readers),
        f"{len(readers)} readers",
        " ".join(initials),
        "".join(initials),
    )
    return next((text for text in texts if len(text) <= width), "")


def bounds_text(knob: KnobInfo) -> str:
    """`1 to 4096 rollouts`, `1 or more`, `one of a, b`; empty where anything goes."""
    if knob.choices:
        return f"one of {', '.join(knob.choices)}"
    return f"{range_text(knob.bounds)} {knob.unit}".strip()


def origin_text(knob: KnobInfo) -> str:
    """Where the value comes from and what else it may be."""
    parts = [] if knob.is_set else ["not in the file"]
    if knob.default is not None:
        parts.append(f"default {value_text(knob.default)}")
    if bounds := bounds_text(knob):
        parts.append(bounds)
    if knob.readers:
        parts.append(f"read by {join_words(knob.readers)}")
    return " · ".join(parts)


def figure_text(figure: DerivedValue) -> str:
    """`prompts per step: 8  (128 rollouts / 16 per example)`, or the words alone where it varies."""
    if figure.value is None:
        return f"{figure.name}: {figure.text}"
    explained = f"  ({figure.text})" if figure.text else ""
    most = "at most " if figure.text.startswith("at most ") else ""
    return f"{figure.name}: {most}{figure_value(figure.value)}{figure_unit(figure)}{explained}"


def figure_value(value: float | str | None) -> str:
    """`262,144`; `—` where it varies."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else group_digits(value)


def figure_unit(figure: DerivedValue) -> str:
    """` tokens`; empty where it is a word of the name: `prompts per step` needs no `prompts` behind it."""
    return "" if figure.unit in figure.name.split() else f" {figure.unit}"


def range_text(bounds: Sequence[float | None]) -> str:
    """`1 to 100`, `1 or more`, `up to 100`; empty where anything goes."""
    low, high = bounds
    if low is not None and high is not None:
        return f"{value_text(low)} to {value_text(high)}"
    if low is not None:
        return f"{value_text(low)} or more"
    return "" if high is None else f"up to {value_text(high)}"
