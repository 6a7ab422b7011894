"""The evaluator: asks a served model texts that training never draws, and stores answers as `vf-eval` does.

`results.jsonl` grows as examples are done, in their order; `metadata.json` marks it as complete.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
from tqdm import tqdm

from rltui.tinyrl import TinyrlError, language, log_lines
from rltui.tinyrl.config import EvalConfig
from rltui.tinyrl.files import append_json_line, new_file
from rltui.tinyrl.server_client import new_client, wait_until_ready

Row = dict[str, Any]


def _sampling(config: EvalConfig) -> dict[str, int | float]:
    training = config.orchestrator.sampling
    return {
        "max_tokens": config.max_tokens or training.max_tokens,
        "temperature": training.temperature if config.temperature is None else config.temperature,
    }


async def _rows(client: httpx.AsyncClient, config: EvalConfig, example_id: int) -> list[Row]:
    """The rollouts of one example; a refusal or a lost server is their error."""
    args = config.orchestrator.env[0].args
    text = language.eval_text(config.seed, example_id, args.min_chars, args.max_chars)
    messages = [{"role": "user", "content": text}]
    body = {
        "model": config.model.name,
        "messages": messages,
        "n": config.rollouts_per_example,
        "seed": config.seed * 1_000_000 + example_id,
        "return_token_ids": True,
        **_sampling(config),
    }
    started = time.monotonic()
    answer: dict[str, Any] = {}
    try:
        response = await client.post("/v1/chat/completions", json=body)
        if response.status_code == 200:
            answer, problem = response.json(), ""
        else:
            problem = f"HTTP {response.status_code}: {response.text}"
    except (httpx.TransportError, ValueError) as error:  # or no JSON
        problem = f"{type(error).__name__}: {error}"
    common: Row = {
        "example_id": example_id,
        "env_name": config.orchestrator.env[0].name or language.ENV_ID,
        "task": language.ENV_ID,
        "prompt": messages,
        "answer": text[::-1],
        "generation_ms": 1000 * (time.monotonic() - started),
    }
    if problem:
        failed = {"completion": [], "reward": 0.0, "lcs": 0.0, "is_truncated": False, "error": problem}
        return [common | failed] * config.rollouts_per_example
    return [
        common | _score(choice, text) | {"num_input_tokens": answer["usage"]["prompt_tokens"]}
        for choice in answer["choices"]
    ]


def _score(choice: dict[str, Any], text: str) -> Row:
    content = choice["message"]["content"]
    reward = language.reward(content, text)
    return {
        "completion": [{"role": "assistant", "content": content}],
        "reward": reward,
        "lcs": reward,
        "is_truncated": choice["finish_reason"] == "length",
        "finish_reason": choice["finish_reason"],
        "num_output_tokens": len(choice["token_ids"]),
        "error": None,
    }


async def _evaluate(config: EvalConfig, client: httpx.AsyncClient, results: Path) -> list[Row]:
    """Ask all examples; returns the rows, which are in the file too."""
    slots = asyncio.Semaphore(config.max_concurrent)

    async def one(example_id: int) -> list[Row]:
        async with slots:
            return await _rows(client, config, example_id)

    tasks = [asyncio.create_task(one(example_id)) for example_id in range(config.num_examples)]
    rows: list[Row] = []
    total = config.num_examples * config.rollouts_per_example
    with tqdm(total=total, desc="Evaluating", file=sys.stderr, mininterval=0.1, leave=True) as bar:
        for task in tasks:
            for row in await task:
                append_json_line(results, row)
                rows.append(row)
            bar.update(len(rows) - bar.n)
    return rows


async def _run(config: EvalConfig) -> int:
    name = f"{language.ENV_ID}--{config.model.name.replace('/', '--')}"  # as by `vf-eval`
    folder = config.results_dir or config.output_dir / "evals" / name / uuid.uuid4().hex[:8]
    if (folder / "results.jsonl").exists():
        raise TinyrlError(f"results_dir = '{folder}' already holds results: name a new folder")
    async with new_client(config.base_url) as client:
        log_lines.info(f"Waiting for {config.base_url} to serve {config.model.name}")
        context = await wait_until_ready(client, config.model.name)
        longest = _sampling(config)["max_tokens"]
        if context is not None and longest >= context:
            raise TinyrlError(
                f"max_tokens = {longest} leaves no room for a prompt: the server takes {context} tokens,"
                " prompt and answer together"
            )
        log_lines.info(
            f"Starting evaluation of {config.model.name} on {language.ENV_ID} ({config.num_examples}"
            f" examples, {config.rollouts_per_example} rollouts each)"
        )
        started = time.monotonic()
        rows = await _evaluate(config, client, folder / "results.jsonl")
        seconds = time.monotonic() - started
    rewards = [row["reward"] for row in rows]
    mean = statistics.fmean(rewards)
    metadata = {
        "env_id": language.ENV_ID,
        "env_args": config.orchestrator.env[0].args.model_dump(),
        "model": config.model.name,
        "base_url": f"{config.base_url}/v1",
        "num_examples": config.num_examples,
        "rollouts_per_example": config.rollouts_per_example,
        "sampling_args": _sampling(config),
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "time_ms": 1000 * seconds,
        "avg_reward": mean,
        "avg_metrics": {"lcs": mean},
        "state_columns": [],
    }
    with new_file(folder / "metadata.json") as partial:
        partial.write_text(json.dumps(metadata), encoding="utf-8")
    # the figure that everybody looks for, as `vf-eval` prints it
    sys.stdout.write(f"reward: avg - {mean:.3f}, std - {statistics.pstdev(rewards):.3f}\n")
    failed = [row["error"] for row in rows if row["error"]]
    if failed:
        log_lines.warning(f"{len(failed)} of {len(rows)} rollouts failed: {failed[0]}")
    log_lines.info(f"Results saved to {folder}")
    log_lines.success(f"Evaluation completed in {seconds:.2f} seconds")
    return 1 if len(failed) == len(rows) else 0


def run(config: EvalConfig) -> int:
    return asyncio.run(_run(config))
