"""Runs the stand-in that a program of the checkout is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import cast

from tests.fakes.prime_rl.generation import GENERATIONS, Generation, Name

Program = Callable[[Generation, list[str]], int]

PROGRAMS = {
    "rl": "launcher:rl",
    "inference": "engine:inference",
    "orchestrator": "orchestrator:orchestrator",
    "trainer": "trainer:trainer",
    "torchrun": "torchrun:torchrun",
    "sft": "sft:sft",
    "sft-trainer": "sft:sft_trainer",
}
"""Program → module and function; those of every generation."""

CURRENT_PROGRAMS = {"env-server": "env_server:env_server", "evals": "online_eval:evals"}
"""Programs of the last generation."""


def run(program: str, generation: Name) -> None:
    """Run it with the command line's arguments; exits."""
    module, _, function = {**PROGRAMS, **CURRENT_PROGRAMS}[program].partition(":")
    body = cast("Program", getattr(import_module(f"tests.fakes.prime_rl.{module}"), function))
    sys.exit(body(GENERATIONS[generation], sys.argv[1:]))
