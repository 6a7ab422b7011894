"""Knobs, and the figures that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rltui.base.secrets import mask_value
from rltui.base.text import group_digits, join_words, value_text
from rltui.base.toml.values import format_value
from rltui.core.experiment.states import SEVERITIES, Role
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.config.report import DerivedValue, KnobInfo, KnobTable, Problem

KnobRow = dict[str, Any]
"""`KnobInfo`, as JSON has it."""
NOTHING_STAGED: Mapping[str, Any] = {}
_RUN_SECTION = "run"
"""Heading of the keys without a section."""
_FEW = 12
"""The number of everyday knobs that are always listed."""
_WORTH_FOLDING = 4
"""Rows that are fewer are as well shown as counted."""
_MOST_CHOICES = 3
"""Optimizers of transformers are 43."""
_SHORT_NAMES = {"inference": "infer", "orchestrator": "orch", "trainer": "train"}


def is_changed(row: KnobRow) -> bool:
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
    other_count = len(row["choices"]) - len(choices)
    return range_text(row["bounds"]) or "|".join(
        [*choices, *([f"… {other_count} more: -v"] if other_count else [])]
    )


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
            "allowed",
            lambda row, _: _allowed_text(row, row["choices"]),
            least=10,
            goes=3,
            brief=lambda row, _: _allowed_text(row, row["choices"][:_MOST_CHOICES]),
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
    """The source of the value, and its other possible values."""
    facts = [] if knob.is_set else ["not in the file"]
    if knob.default is not None:
        facts.append(f"default {value_text(knob.default)}")
    if bounds := bounds_text(knob):
        facts.append(bounds)
    if knob.readers:
        facts.append(f"read by {join_words(knob.readers)}")
    return " · ".join(facts)


def figure_text(value: DerivedValue) -> str:
    """`prompts per step: 8  (128 rollouts / 16 per example)`, or the words alone where it varies."""
    if value.value is None:
        return f"{value.name}: {value.text}"
    explained = f"  ({value.text})" if value.text else ""
    qualifier = "at most " if value.text.startswith("at most ") else ""
    return f"{value.name}: {qualifier}{figure_value(value.value)}{figure_unit(value)}{explained}"


def figure_value(value: float | str | None) -> str:
    """`262,144`; `—` where it varies."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else group_digits(value)


def figure_unit(value: DerivedValue) -> str:
    """` tokens`; empty where it is a word of the name: `prompts per step` needs no `prompts` behind it."""
    return "" if value.unit in value.name.split() else f" {value.unit}"


def range_text(bounds: Sequence[float | None]) -> str:
    """`1 to 100`, `1 or more`, `up to 100`; empty where anything goes."""
    low, high = bounds
    if low is not None and high is not None:
        return f"{value_text(low)} to {value_text(high)}"
    if low is not None:
        return f"{value_text(low)} or more"
    return "" if high is None else f"up to {value_text(high)}"


# --- which are shown, and under which heading ---------------------------------------------------------------


def section_of(key: str) -> str:
    """The first element of a dotted key."""
    section, dot, _ = key.partition(".")
    return section if dot else _RUN_SECTION


def name_in_section(key: str) -> str:
    """The key without the prefix that its section's heading has."""
    section, dot, name = key.partition(".")
    return name if dot else section


def by_section(knobs: Iterable[KnobInfo]) -> dict[str, list[KnobInfo]]:
    """Each section's knobs together, otherwise in the order they came in."""
    sections: dict[str, list[KnobInfo]] = {}
    for knob in knobs:
        sections.setdefault(section_of(knob.key), []).append(knob)
    return sections


def worst_problem(knob: KnobInfo, problems: tuple[Problem, ...]) -> Problem | None:
    knob_problems = [problem for problem in problems if problem.key == knob.key]
    return min(knob_problems, key=lambda problem: [*SEVERITIES].index(problem.severity), default=None)


def is_worth_a_row(knob: KnobInfo, staged: Collection[str]) -> bool:
    """The config screen has all knobs; most of them nobody ever turns."""
    return knob.main or knob.is_set or knob.changed or knob.key in staged


@dataclass(frozen=True, slots=True)
class KnobGroups:
    """The knobs that are worth a row, each in one group."""

    pinned: tuple[KnobInfo, ...] = ()
    """The order is the one in which they were pinned."""
    changed: tuple[KnobInfo, ...] = ()
    """The file differs from what runs, a new value is collected, or the run was edited there."""
    few: tuple[KnobInfo, ...] = ()
    """The first of those that people turn."""
    rest: tuple[KnobInfo, ...] = ()


def knob_groups(
    table: KnobTable, staged: Collection[str], *, pins: Sequence[str] = (), edited: Collection[str] = ()
) -> KnobGroups:
    """`pins` and `edited`: keys. What is pinned is shown even where nobody turns it."""
    by_key = {knob.key: knob for knob in (*table.knobs, *table.others)}
    pinned = tuple(by_key[key] for key in pins if key in by_key)
    unpinned = [knob for knob in table.knobs if knob not in pinned and is_worth_a_row(knob, staged)]
    changed_knobs = [knob for knob in unpinned if knob.changed or knob.key in staged or knob.key in edited]
    other_knobs = [knob for knob in unpinned if knob not in changed_knobs]
    few = [knob for knob in other_knobs if knob.main][:_FEW]
    rest = [knob for knob in other_knobs if knob not in few]
    if len(rest) < _WORTH_FOLDING:
        few, rest = other_knobs, []
    return KnobGroups(pinned, tuple(changed_knobs), tuple(few), tuple(rest))
