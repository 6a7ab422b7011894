"""How a checkout of prime-rl is found and dated."""

from __future__ import annotations

from rltui.frameworks.base import Checkout
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, SPLIT

CHECKOUT = Checkout(
    project="prime-rl",
    variable="RLTUI_PRIME_RL",
    programs=("rl", "inference", "orchestrator", "trainer", "sft", "torchrun"),
    generations=(
        ("packages/prime-rl-configs/src/prime_rl/configs/monitors.py", CURRENT),
        ("packages/prime-rl-configs/src/prime_rl/configs/eval.py", CURRENT),
        ("src/prime_rl/entrypoints/dashboard.py", CURRENT),
        ("src/prime_rl/entrypoints", MERGED),
        ("src/prime_rl/configs", MERGED),
        ("src/prime_rl", SPLIT),
    ),
)
"""All three generations call themselves the same; what lies in the tree tells them apart. Today's has
run folders, which came two days before `monitors.py` (2026-08-15, 9975d8868); the other two are of autumn."""

SOURCES = (
    "packages/prime-rl-configs/src/**/*.py",
    "src/prime_rl/configs/**/*.py",
    "src/prime_rl/**/config*.py",
)
"""Where the config classes of all generations lie in the tree."""
PACKAGES = ("prime-rl", "prime-rl-configs", "verifiers", "vllm")
"""Whose versions say which keys there are, and what they do."""
