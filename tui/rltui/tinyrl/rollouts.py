"""One group of attempts at one example: asking for it, scoring it, writing it down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from rltui.tinyrl import reverse_text
from rltui.tinyrl.config import RlConfig
from rltui.tinyrl.errors import TinyrlError
from rltui.tinyrl.files import new_file
from rltui.tinyrl.packing import TrainingSequence
from rltui.tinyrl.policy_loss import group_advantages


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt."""

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
    """Of the weights the group was asked of; newer ones may have come in on the way."""

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
            "task": reverse_text.ENV_ID,
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
    text = reverse_text.example_text(config.seed, example_id, args.min_chars, args.max_chars)
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
            f"the inference server refused a rollout (HTTP {response.status_code}): {response.text}"
        )
    answer = response.json()
    choices = answer["choices"]
    contents = [choice["message"]["content"] for choice in choices]
    rewards = [reverse_text.reward(content, text) for content in contents]
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


def write_rollouts(output_dir: Path, step: int, env_name: str, rollouts: list[Rollout]) -> None:
    """`rollouts/step_N/train_rollouts.jsonl`, one attempt per line."""
    with new_file(output_dir / "rollouts" / f"step_{step}" / "train_rollouts.jsonl") as partial:
        lines = [json.dumps(rollout.record(step, env_name)) for rollout in rollouts]
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
