"""One merged `rl.toml` with `group_size`, run folders, env servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.frameworks.base import Framework
from rltui.frameworks.prime_rl.current.check import check
from rltui.frameworks.prime_rl.current.derive import derive
from rltui.frameworks.prime_rl.current.knobs import KNOBS, defaults
from rltui.frameworks.prime_rl.current.run import template_values
from rltui.frameworks.prime_rl.detection import CURRENT, generations


def role(path: str, data: Mapping[str, Any]) -> str | None:
    """What the file is to this generation."""
    return generations(path, data).get(CURRENT)


PRIME_RL = Framework(
    id=CURRENT,
    title="prime-rl (summer 2026 on)",
    layouts={"rl": "prime-rl", "sft": "prime-rl-sft"},
    roles=role,
    template_values=template_values,
    knobs=KNOBS,
    defaults=defaults,
    required=(frozenset({"rl"}), frozenset({"sft"})),
    check=check,
    derive=derive,
)
