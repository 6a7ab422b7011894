"""Prompts elsewhere are looked for only as far as somebody moves on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from rltui.core.rollouts.batches import BatchKey, RolloutSource, Sample
from rltui.ui.found_prompts import FoundPrompt, FoundPrompts

NOBODY = cast("RolloutSource", None)


def places(steps: str) -> Iterator[FoundPrompt]:
    """A digit is a step that has the prompt, a dot one that has not."""
    for at, step in enumerate(steps):
        yield FoundPrompt(NOBODY, BatchKey("train", at), None if step == "." else Sample(where=int(step)))


async def looked_at(prompts: FoundPrompts, steps: int) -> list[int]:
    return [place.key.step async for place in prompts.look(steps)]


async def test_it_stops_at_the_first_that_has_it_and_goes_on_from_there() -> None:
    prompts = FoundPrompts(further=places("..7.8"))
    assert await looked_at(prompts, 0) == [0, 1, 2]
    assert prompts.move(0)
    assert prompts.shown is not None
    assert prompts.shown.sample == Sample(where=7)
    assert await looked_at(prompts, 1) == [3, 4]
    assert prompts.move(1)
    assert await looked_at(prompts, 1) == []
    assert not prompts.move(1), "there is no further one: the last one stays"
    assert prompts.shown.sample == Sample(where=8)
    assert prompts.move(-5)
    assert prompts.shown.sample == Sample(where=7)


async def test_what_is_marked_is_compared_without_a_search() -> None:
    (marked,) = places("3")
    prompts = FoundPrompts([marked])
    assert await looked_at(prompts, 0) == []
    assert prompts.shown is marked
    assert FoundPrompts().shown is None
