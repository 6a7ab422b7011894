"""The prompt of a sample at other steps and in other runs, looked for as far as somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import NamedTuple

from rltui.core.rollouts.batches import BatchKey, RolloutSource, Sample, Transcript, same_prompt_in


class FoundPrompt(NamedTuple):
    """A place that was looked at for a prompt."""

    source: RolloutSource
    key: BatchKey
    sample: Sample | None
    """`None`: it is not there, or not found yet."""
    run: str = ""
    """The other run; empty: the run of the screen."""


FindPrompts = Callable[[BatchKey, Transcript], Iterator[FoundPrompt]]
"""Places to look at for the prompt of a sample, the nearest first; for a thread."""


def at_other_steps(source: RolloutSource) -> FindPrompts:
    def find(key: BatchKey, transcript: Transcript) -> Iterator[FoundPrompt]:
        for other, sample in source.same_prompt(key, transcript):
            yield FoundPrompt(source, other, sample)

    return find


def in_other_runs(runs: Sequence[tuple[str, RolloutSource]]) -> FindPrompts:
    """Every run gives its nearest step with the prompt, then every run its next one. `runs`: with names."""

    def find(key: BatchKey, transcript: Transcript) -> Iterator[FoundPrompt]:
        looking = [(name, source, same_prompt_in(source, key, transcript)) for name, source in runs]
        while looking:
            for name, source, positions in tuple(looking):
                for position, sample in positions:
                    yield FoundPrompt(source, position, sample, name)
                    if sample is not None:
                        break
                else:
                    looking.remove((name, source, positions))

    return find


class FoundPrompts:
    """Samples of one prompt: `look` reads further ones, `shown` is the current one."""

    def __init__(
        self, prompts: Sequence[FoundPrompt] = (), further: Iterator[FoundPrompt] | None = None
    ) -> None:
        """`further`: places where to look, the nearest first; each may be read from a file."""
        self._prompts = [*prompts]
        self._further = further
        self._index = 0

    @property
    def shown(self) -> FoundPrompt | None:
        return self._prompts[self._index] if self._index < len(self._prompts) else None

    async def look(self, places: int) -> AsyncIterator[FoundPrompt]:
        """Look in as many further places as it takes to move on by so many; each of them is told."""
        while max(0, self._index + places) >= len(self._prompts) and self._further is not None:
            prompt = await asyncio.to_thread(next, self._further, None)
            if prompt is None:
                self._further = None
                return
            if prompt.sample is not None:
                self._prompts.append(prompt)
            yield prompt

    def move(self, places: int) -> bool:
        """Show the one so many further on, or back; whether there is one."""
        index = max(0, self._index + places)
        if index >= len(self._prompts):
            return False
        self._index = index
        return True
