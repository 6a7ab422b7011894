from __future__ import annotations

import asyncio

import pytest

from rltui.tinyrl.rollouts import BatchTarget, Group, Rollout, RolloutScheduler
from rltui.tinyrl.weight_transfer import TrainingSequence


class FakeServer:
    """Answers groups of four after a few turns of the loop, the later ones first."""

    def __init__(self) -> None:
        self.busy = 0
        self.most_busy = 0

    async def request(self, example_id: int, version: int) -> Group:
        self.busy += 4
        self.most_busy = max(self.most_busy, self.busy)
        for _ in range(5 - example_id % 5):
            await asyncio.sleep(0)
        self.busy -= 4
        rollout = Rollout(example_id, "ab", "ba", [3, 5], [5, 1], [0.0, 0.0], 1.0, 0.0, "stop", version)
        return [rollout] * 4


def scheduler(server: FakeServer, target: BatchTarget, limit: int) -> RolloutScheduler:
    return RolloutScheduler(
        server.request, target=target, group_size=4, inflight_limit=limit, next_example_id=0
    )


def test_a_rollout_is_trained_on_up_to_the_longest() -> None:
    rollout = Rollout(0, "ab", "ba", [3, 5], [6, 1], [-0.5, -0.25], 1.0, 0.5, "length", 2)
    expected = TrainingSequence([3, 5, 6], [False, False, True], [0.0, 0.0, -0.5], 0.5, 1.0)
    assert rollout.training_sequence(3, 0.0) == expected
    assert rollout.is_truncated


async def test_batches_are_full_and_in_order() -> None:
    server = FakeServer()
    rollouts = scheduler(server, BatchTarget(16, None), 16)
    for first in (0, 4):
        batch, dropped = await rollouts.collect(0, 0)
        assert [item.example_id for item in batch[::4]] == list(range(first, first + 4))
        assert dropped == 0
    assert server.most_busy == 16


@pytest.mark.parametrize("limit", [4, 8])
async def test_limit_holds(limit: int) -> None:
    server = FakeServer()
    batch, _ = await scheduler(server, BatchTarget(32, None), limit).collect(0, 0)
    assert len(batch) == 32
    assert server.most_busy == limit


async def test_token_batches_stop_at_the_target() -> None:
    rollouts = scheduler(FakeServer(), BatchTarget(None, 40), 8)
    batch, _ = await rollouts.collect(0, 0)
    assert sum(item.token_count for item in batch) == 48
    await rollouts.close()


async def test_oversampled_rollouts_are_kept_until_too_old() -> None:
    server = FakeServer()
    rollouts = scheduler(server, BatchTarget(8, None), 16)
    await rollouts.collect(0, 0)
    assert rollouts.next_example_id == 4
    batch, dropped = await rollouts.collect(1, 0)
    assert {item.policy_version for item in batch} == {0}
    assert dropped == 0
    _, dropped = await rollouts.collect(9, 9)
    assert dropped == 8
    await rollouts.close()
    assert server.busy in {0, 4, 8}  # cancelled requests do not count down
