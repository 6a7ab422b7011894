"""One merged `rl.toml` with `rollouts_per_example`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.frameworks.base import Framework
from rltui.frameworks.prime_rl.detection import MERGED, generations
from rltui.frameworks.prime_rl.merged.check import check
from rltui.frameworks.prime_rl.merged.derive import derive
from rltui.frameworks.prime_rl.merged.knobs import KNOBS, defaults
from rltui.frameworks.prime_rl.merged.run import template_values


def role(path: str, data: Mapping[str, Any]) -> str | None:
    """What the file is to this generation."""
    return generations(path, data).get(MERGED)


PRIME_RL_MERGED = Framework(
    id=MERGED,
    title="prime-rl, one file (winter and spring 2026)",
    layouts={"rl": "prime-rl-merged", "sft": "prime-rl-sft"},
    roles=role,
    template_values=template_values,
    knobs=KNOBS,
    defaults=defaults,
    required=(frozenset({"rl"}), frozenset({"sft"})),
    check=check,
    derive=derive,
)
