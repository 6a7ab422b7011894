"""Whether a converted config means the same as before."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rltui.base.text import count_text

if TYPE_CHECKING:
    from rltui.core.config.report import Equivalence, ValueDifference


def equivalence_lines(found: Equivalence, told: Collection[str] = ()) -> list[str]:
    """One sentence, then a line for every value that is not known to be the same. Of keys that were dropped
    and defaults that are `told`, by their later names, a reader has heard before.
    """
    is_same = not (found.different or found.gone or found.unproven)
    parts = [f"{count_text(found.equal, 'value')} {'is' if found.equal == 1 else 'are'} the same"]
    parts += [f"{len(found.different)} different"] if found.different else []
    parts += [f"{len(found.gone)} without successor"] if found.gone else []
    parts += [f"{len(found.unproven)} not compared"] if found.unproven else []
    meaning = "same meaning: " if is_same else "meaning: "
    proof = "" if found.is_proven else "; not proven by the models of both releases"
    return [
        f"{meaning}{', '.join(parts)}, by {found.before} and {found.after}{proof}",
        *(_line(item) for item in found.different if item.is_set or item.to not in told),
        *(f"  {item.key} = {item.before}: no successor" for item in found.gone if item.to is not None),
        *([f"  not compared: {', '.join(found.unproven)}"] if found.unproven else []),
    ]


def _line(item: ValueDifference) -> str:
    origin = "" if item.is_set else "default "
    name = item.key if item.to in (None, item.key) else f"{item.key} → {item.to}"
    return f"  {name}: {origin}{item.before} before, {item.after} now"
