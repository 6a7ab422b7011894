"""One file for each of the three programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.frameworks.base import Framework
from rltui.frameworks.prime_rl.detection import SPLIT, generations
from rltui.frameworks.prime_rl.split.check import check
from rltui.frameworks.prime_rl.split.derive import derive
from rltui.frameworks.prime_rl.split.knobs import KNOBS, defaults
from rltui.frameworks.prime_rl.split.run import template_values


def role(path: str, data: Mapping[str, Any]) -> str | None:
    """What the file is to this generation."""
    return generations(path, data).get(SPLIT)


PRIME_RL_SPLIT = Framework(
    id=SPLIT,
    title="prime-rl, three files (2025)",
    layouts={"orchestrator": "prime-rl-split", "sft": "prime-rl-sft"},
    roles=role,
    template_values=template_values,
    knobs=KNOBS,
    defaults=defaults,
    required=(frozenset({"trainer", "orchestrator", "inference"}), frozenset({"sft"})),
    check=check,
    derive=derive,
)
