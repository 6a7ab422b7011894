"""The environment of this example for `vf-eval` of verifiers, before 0.4 and since.

It uses the examples of `tinyrl eval` with seed 0, so the rewards are comparable.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from difflib import SequenceMatcher
from importlib.util import find_spec
from typing import Any


def words(count: int, seed: int = 0, min_chars: int = 4, max_chars: int = 7) -> Iterator[str]:
    """Random lowercase words that training never uses."""
    for number in range(count):
        rng = random.Random(f"eval/{seed}/{number}")
        yield "".join(rng.choices(string.ascii_lowercase, k=rng.randint(min_chars, max_chars)))


def likeness(completion: str, answer: str) -> float:
    """Share of the answer that is right, 0 to 1."""
    return SequenceMatcher(None, completion, answer, autojunk=False).ratio()


if find_spec("verifiers.v1") is None:
    from datasets import Dataset

    import verifiers as vf

    def load_environment(count: int = 100, seed: int = 0) -> vf.Environment:
        """One question, one answer."""

        def lcs(completion: Any, answer: str, **_: Any) -> float:  # noqa: ANN401 - as verifiers passes it
            return likeness(completion[-1]["content"], answer)

        rows = [{"question": word, "answer": word[::-1]} for word in words(count, seed)]
        return vf.SingleTurnEnv(eval_dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[lcs]))

else:
    import verifiers.v1 as vf

    __all__ = ["ReverseText"]

    class Word(vf.TaskData):
        answer: str

    class Reverse(vf.Task[Word]):
        @vf.reward
        async def lcs(self, trace: vf.Trace) -> float:
            """How much of the answer is right."""
            return likeness(trace.last_reply, self.data.answer)

    class ReverseText(vf.Taskset[Reverse, vf.TasksetConfig]):
        def load(self) -> Iterator[Reverse]:
            """One task a word."""
            for number, word in enumerate(words(100)):
                yield Reverse(Word(idx=number, prompt=word, answer=word[::-1]), self.config.task)
