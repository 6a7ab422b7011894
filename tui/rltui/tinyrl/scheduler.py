"""Keeps rollouts in flight and hands out full batches."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tqdm import tqdm

from rltui.tinyrl.rollouts import Rollout

Group = list[Rollout]


@dataclass(frozen=True, slots=True)
class BatchTarget:
    """How much makes a batch; exactly one is set."""

    rollouts: int | None
    tokens: int | None

    @property
    def total(self) -> int:
        return self.rollouts or self.tokens or 0

    def measure(self, group: Group) -> int:
        """What a group adds to the total."""
        return len(group) if self.rollouts else sum(rollout.token_count for rollout in group)


class RolloutScheduler:
    """Groups are requested in the order of their examples, never more at once than the limit allows."""

    def __init__(
        self,
        request: Callable[[int, int], Awaitable[Group]],
        *,
        target: BatchTarget,
        group_size: int,
        inflight_limit: int,
        next_example_id: int,
    ) -> None:
        """`request(example_id, policy_version)` draws one group."""
        self.next_example_id = next_example_id
        self._request, self._target = request, target
        self._group_size, self._inflight_limit = group_size, inflight_limit
        self._inflight: set[asyncio.Future[Group]] = set()
        self._finished: list[Group] = []

    async def collect(self, version: int, oldest_version: int) -> tuple[list[Rollout], int]:
        """One batch, by example; and how many rollouts were dropped for being older than `oldest_version`."""
        dropped = 0
        batch: list[Group] = []
        held, total = 0, self._target.total
        waiting, self._finished = self._finished, []
        bar = tqdm(
            total=total, desc="Generating rollouts (train)", file=sys.stderr, mininterval=0.1, leave=True
        )
        with bar:
            while held < total:
                while waiting and held < total:
                    group = waiting.pop(0)
                    if group[0].policy_version < oldest_version:
                        dropped += len(group)
                        continue
                    batch.append(group)
                    held += self._target.measure(group)
                    bar.update(min(total, held) - bar.n)
                if held < total:
                    self._refill(batch, version)
                    waiting.extend(await self._next_finished())
        self._finished = waiting
        batch.sort(key=lambda group: group[0].example_id)
        return [rollout for group in batch for rollout in group], dropped

    def _refill(self, batch: list[Group], version: int) -> None:
        """Start groups up to the limit: what the batch lacks, and as much ahead as is allowed."""
        group_size = self._group_size
        busy = len(self._inflight) * group_size
        if self._target.rollouts is not None:
            needed = self._target.rollouts - sum(map(len, batch))
            ahead = max(0, self._inflight_limit - self._target.rollouts)
            room = min(self._inflight_limit, needed + ahead) - busy
        else:
            room = self._inflight_limit - busy
        for _ in range(max(0, room) // group_size):
            task = asyncio.ensure_future(self._request(self.next_example_id, version))
            self._inflight.add(task)
            self.next_example_id += 1

    async def _next_finished(self) -> list[Group]:
        done, _ = await asyncio.wait(self._inflight, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            self._inflight.discard(task)
        return sorted((task.result() for task in done), key=lambda group: group[0].example_id)

    async def close(self) -> None:
        """Cancel what is in flight and wait until it is gone."""
        for task in self._inflight:
            task.cancel()
        await asyncio.gather(*self._inflight, return_exceptions=True)
        self._inflight.clear()
