"""What the house is like: `python -m tests.house.measure [CHECKOUT] [--quick]`. `--quick` runs nothing.

The figures are read, not gated: only import circles are a test (`test_house.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.house.source import House, house
from tests.house.walks import REPOSITORY, status_beside_python, walks


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    figure: float
    what: Sequence[str] = field(default=())
    """The offenders."""


def of_source(read: House) -> list[Measure]:
    """What can be counted without running anything."""
    circles = [" ↔ ".join(circle) for circle in read.circles()]
    same = [f"{name}: {', '.join(homes)}" for name, homes in read.same_names().items()]
    return [
        Measure("files", len(read.modules)),
        Measure("lines", read.lines),
        Measure("public names per 1,000 lines", round(read.names_per_1000_lines, 1)),
        Measure("percent of lines that import", round(read.import_share, 1)),
        Measure("import circles", len(circles), circles),
        Measure("classes over 300 lines", len(read.long_classes()), read.long_classes()),
        Measure("functions over 60 lines", len(read.long_functions()), read.long_functions()),
        Measure("short modules with one importer", len(read.splinters()), read.splinters()),
        Measure("class names used twice", len(same), same),
    ]


def of_runs(root: Path) -> list[Measure]:
    """What shows when it runs."""
    edit, reading = walks(root)
    status_s, python_s = status_beside_python(root)
    return [
        Measure("modules a knob edit passes (daemon, services)", len(edit.acting), edit.acting),
        Measure("… with core and frameworks", len(edit.modules)),
        Measure("… returns to one of them", edit.returns),
        Measure("modules a GPU reading passes", len(reading.modules), reading.modules),
        Measure("… returns to one of them", reading.returns),
        Measure("`status --json` in starts of Python", round(status_s / python_s, 2)),
    ]


def as_text(measures: Sequence[Measure]) -> str:
    width = max(len(measure.name) for measure in measures)
    lines = [f"{'':{width}}  {'figure':>8}"]
    lines += [f"{each.name:{width}}  {each.figure:>8,}" for each in measures]
    for each in measures:
        lines += [f"\n{each.name}:", *(f"  {what}" for what in each.what)] if each.what else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, default=REPOSITORY)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    root = arguments.checkout.resolve()
    measures = of_source(house(root / "tui"))
    print(as_text(measures if arguments.quick else [*measures, *of_runs(root)]))


if __name__ == "__main__":
    main()
