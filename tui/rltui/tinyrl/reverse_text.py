"""The task: give back a text with its characters in reverse order."""

from __future__ import annotations

import random
import string
from difflib import SequenceMatcher

ENV_ID = "reverse-text"


def draw_text(rng: random.Random, min_chars: int, max_chars: int) -> str:
    """Random lower-case letters."""
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(min_chars, max_chars)))


def example_text(seed: int, example_id: int, min_chars: int, max_chars: int) -> str:
    """The text of one example, the same in every run with this seed."""
    return draw_text(random.Random(f"{seed}/{example_id}"), min_chars, max_chars)


def reward(completion: str, text: str) -> float:
    """0 to 1: share of characters in common runs, as in prime-rl's reverse-text (LCS ratio)."""
    return SequenceMatcher(None, completion, text[::-1], autojunk=False).ratio()


def demonstration(text: str, rng: random.Random, give_up_frac: float) -> str:
    """The reversed text, or with that probability at most its first two characters."""
    answer = text[::-1]
    return answer[: rng.randint(0, 2)] if rng.random() < give_up_frac else answer
