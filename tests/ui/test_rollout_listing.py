"""The lists of the rollout screen, without an app: sorted, narrowed, grouped, searched and followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fakes import rollouts as fakes

from rltui.core.rollouts.batches import BatchKey, Sample
from rltui.services.rollouts import open_rollouts
from rltui.ui.rollout_listing import RolloutListing


def read_all(listing: RolloutListing) -> None:
    """As the screen does it: the cursor goes where the batches say."""
    for _ in range(20):
        update = listing.read(listing.key, listing.batches, {})
        index = listing.take_batches(update)
        if index is not None and listing.batches and listing.batches[index].key != listing.key:
            listing.choose(listing.batches[index].key)
        if listing.take_table(update):
            listing.lay_out()


def listed(listing: RolloutListing) -> list[Sample]:
    return [sample for index in range(listing.count) if (sample := listing.sample(index)) is not None]


@pytest.fixture
def listing(tmp_path: Path) -> RolloutListing:
    fakes.write_flat_run(tmp_path)
    listing = RolloutListing(open_rollouts(tmp_path))
    read_all(listing)
    return listing


def test_samples_are_sorted_narrowed_and_grouped(listing: RolloutListing) -> None:
    assert listing.key == BatchKey("train", 3)
    assert listing.count == 16
    assert listed(listing)[0].reward == 0.3, "the worst first"
    listing.sort(1)
    listing.lay_out()
    assert listed(listing)[-1].reward == 0.3, "the best first"
    listing.narrow()
    listing.lay_out()
    assert {sample.truncated for sample in listed(listing)} == {True}
    listing.narrow()
    listing.narrow()
    listing.lay_out()
    assert {sample.group for sample in listed(listing)} == {"3"}, "which has no spread"
    listing.narrow()
    listing.toggle_groups()
    listing.lay_out()
    assert listing.groups is not None
    assert [group.is_flat for group in listing.groups] == [True, False, False, False]
    listing.group, listing.groups = listing.groups[1].name, None
    listing.lay_out()
    assert {sample.group for sample in listed(listing)} == {"0"}


def test_the_newest_is_followed_until_a_person_moves(listing: RolloutListing, tmp_path: Path) -> None:
    fakes.write_flat_run(tmp_path, steps=(4,))
    read_all(listing)
    assert listing.key == BatchKey("train", 4)
    listing.follows_newest = False
    fakes.write_flat_run(tmp_path, steps=(5,))
    read_all(listing)
    assert len(listing.batches) == 5
    assert listing.key == BatchKey("train", 4)


async def test_a_search_lists_what_matches_and_ends_with_another_batch(listing: RolloutListing) -> None:
    pattern = re.compile("answer [12] of 0")
    assert [searched async for searched in listing.search(pattern)] == [0, 16]
    listing.lay_out()
    assert [sample.reward for sample in listed(listing)] == [0.4, 0.5]
    search = listing.search(pattern)
    assert await anext(search) == 0
    listing.choose(BatchKey("train", 2))
    assert [searched async for searched in search] == []
    assert listing.matches is None
    read_all(listing)
    search = listing.search(pattern)
    assert await anext(search) == 0
    listing.matches = None
    assert [searched async for searched in search] == [], "it was given up"


def test_samples_that_no_batch_took_are_listed_only_when_asked_for(tmp_path: Path) -> None:
    fakes.write_stream_run(tmp_path)
    listing = RolloutListing(open_rollouts(tmp_path))
    read_all(listing)
    assert listing.count == 7
    listing.toggle_all()
    read_all(listing)
    assert listing.count == 8
