"""Groups of attempts at one example: requesting, scoring and writing them, and a limit of those in flight."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tqdm import tqdm

from rltui.tinyrl import TinyrlError, language
from rltui.tinyrl.config import RlConfig
from rltui.tinyrl.files import new_file
from rltui.tinyrl.weight_transfer import TrainingSequence


@dataclass(frozen=True, slots=True)
class Rollout:
    example_id: int
    text: str
    completion: str
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    reward: float
    advantage: float
    finish_reason: str
    policy_version: int
    """Version of the weights at the request; newer ones may have been loaded meanwhile."""

    @property
    def is_truncated(self) -> bool:
        return self.finish_reason == "length"

    @property
    def token_count(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)

    def training_sequence(self, seq_len: int, temperature: float) -> TrainingSequence:
        """Prompt and completion, cut to `seq_len` tokens."""
        prompt, completion = len(self.prompt_ids), len(self.completion_ids)
        return TrainingSequence(
            token_ids=(self.prompt_ids + self.completion_ids)[:seq_len],
            completion_mask=([False] * prompt + [True] * completion)[:seq_len],
            logprobs=([0.0] * prompt + self.logprobs)[:seq_len],
            advantage=self.advantage,
            temperature=temperature or 1.0,  # greedy log-probabilities are reported at temperature 1
        )

    def record(self, step: int, env_name: str) -> dict[str, Any]:
        """The line in `train_rollouts.jsonl`, with prime-rl's field names."""
        return {
            "step": step,
            "example_id": self.example_id,
            "env_name": env_name,
            "task": language.ENV_ID,
            "prompt": [{"role": "user", "content": self.text}],
            "completion": [{"role": "assistant", "content": self.completion}],
            "answer": self.text[::-1],
            "reward": self.reward,
            "advantage": self.advantage,
            "is_truncated": self.is_truncated,
            "finish_reason": self.finish_reason,
            "policy_version": self.policy_version,
            "num_input_tokens": len(self.prompt_ids),
            "num_output_tokens": len(self.completion_ids),
        }


async def request_group(
    client: httpx.AsyncClient, config: RlConfig, example_id: int, policy_version: int
) -> list[Rollout]:
    """`rollouts_per_example` attempts at one example.

    Raises:
        httpx.TransportError: the server cannot be reached.
        TinyrlError: it refused.
    """
    args = config.orchestrator.env[0].args
    sampling = config.orchestrator.sampling
    text = language.example_text(config.seed, example_id, args.min_chars, args.max_chars)
    body = {
        "model": config.model.name,
        "messages": [{"role": "user", "content": text}],
        "n": config.orchestrator.rollouts_per_example,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": config.seed * 1_000_000 + example_id,
        "logprobs": True,
        "return_token_ids": True,
    }
    response = await client.post("/v1/chat/completions", json=body)
    if response.status_code != 200:
        raise TinyrlError(
            f"the inference server rejected a rollout (HTTP {response.status_code}): {response.text}"
        )
    answer = response.json()
    choices = answer["choices"]
    contents = [choice["message"]["content"] for choice in choices]
    rewards = [language.reward(content, text) for content in contents]
    return [
        Rollout(
            example_id=example_id,
            text=text,
            completion=content,
            prompt_ids=answer["prompt_token_ids"],
            completion_ids=choice["token_ids"],
            logprobs=[item["logprob"] for item in choice["logprobs"]["content"]],
            reward=reward,
            advantage=advantage,
            finish_reason=choice["finish_reason"],
            policy_version=policy_version,
        )
        for choice, content, reward, advantage in zip(
            choices, contents, rewards, group_advantages(rewards), strict=True
        )
    ]


def group_advantages(rewards: list[float]) -> list[float]:
    """Each reward's distance from its group's mean; exactly 0 if all are equal."""
    if min(rewards) == max(rewards):
        return [0.0] * len(rewards)
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def write_rollouts(output_dir: Path, step: int, env_name: str, rollouts: list[Rollout]) -> None:
    """Write `rollouts/step_N/train_rollouts.jsonl`, one attempt per line."""
    with new_file(output_dir / "rollouts" / f"step_{step}" / "train_rollouts.jsonl") as partial:
        lines = [json.dumps(rollout.record(step, env_name)) for rollout in rollouts]
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


Group = list[Rollout]


@dataclass(frozen=True, slots=True)
class BatchTarget:
    """The size of a batch; exactly one field is set."""

    rollouts: int | None
    tokens: int | None

    @property
    def total(self) -> int:
        return self.rollouts or self.tokens or 0

    def measure(self, group: Group) -> int:
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
        """`request(example_id, policy_version)` samples one group."""
        self.next_example_id = next_example_id
        self._request, self._target = request, target
        self._group_size, self._inflight_limit = group_size, inflight_limit
        self._inflight: set[asyncio.Future[Group]] = set()
        self._finished: list[Group] = []

    async def collect(self, version: int, oldest_version: int) -> tuple[list[Rollout], int]:
        """One batch, by example; and the number of rollouts dropped for being older than `oldest_version`."""
        dropped = 0
        batch: list[Group] = []
        collected, total = 0, self._target.total
        waiting, self._finished = self._finished, []
        bar = tqdm(
            total=total, desc="Generating rollouts (train)", file=sys.stderr, mininterval=0.1, leave=True
        )
        with bar:
            while collected < total:
                while waiting and collected < total:
                    group = waiting.pop(0)
                    if group[0].policy_version < oldest_version:
                        dropped += len(group)
                        continue
                    batch.append(group)
                    collected += self._target.measure(group)
                    bar.update(min(total, collected) - bar.n)
                if collected < total:
                    self._refill(batch, version)
                    waiting.extend(await self._next_finished())
        self._finished = waiting
        batch.sort(key=lambda group: group[0].example_id)
        return [rollout for group in batch for rollout in group], dropped

    def _refill(self, batch: list[Group], version: int) -> None:
        """Start groups up to the limit: those that the batch lacks, and further ones as far as allowed."""
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
        """Cancel the requests in flight and wait for their end."""
        for task in self._inflight:
            task.cancel()
        await asyncio.gather(*self._inflight, return_exceptions=True)
        self._inflight.clear()
