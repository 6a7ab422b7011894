"""The taskset `reverse-text` for verifiers: prime-rl's own example needs a data set from the Hub."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

import verifiers.v1 as vf

__all__ = ["ReverseText"]

SENTENCES = ("a fast red kite", "no rain today", "seven small boats", "the old clock", "winter is long")


class Sentence(vf.TaskData):
    answer: str


class Reverse(vf.Task[Sentence]):
    @vf.reward
    async def likeness(self, trace: vf.Trace) -> float:
        return SequenceMatcher(None, trace.last_reply, self.data.answer).ratio()


class ReverseText(vf.Taskset[Reverse, vf.TasksetConfig]):
    def load(self) -> Iterator[Reverse]:
        for number, text in enumerate(SENTENCES * 20):
            yield Reverse(
                Sentence(idx=number, prompt=f"Reverse: {text}", answer=text[::-1]), self.config.task
            )
