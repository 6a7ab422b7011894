"""The taskset `reverse-text` for verifiers: prime-rl's own example needs a data set from the Hub."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

import verifiers.v1 as vf
from sentences_to_reverse import SENTENCES, question

__all__ = ["ReverseText"]


class Sentence(vf.TaskData):
    answer: str


class Reverse(vf.Task[Sentence]):
    @vf.reward
    async def likeness(self, trace: vf.Trace) -> float:
        return SequenceMatcher(None, trace.last_reply, self.data.answer).ratio()


class ReverseText(vf.Taskset[Reverse, vf.TasksetConfig]):
    def load(self) -> Iterator[Reverse]:
        for number, text in enumerate(SENTENCES * 20):
            yield Reverse(Sentence(idx=number, prompt=question(text), answer=text[::-1]), self.config.task)
