from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.tinyrl.conftest import TINY_SHAPE, write_tiny_model

from rltui.tinyrl import TinyrlError
from rltui.tinyrl.inference.engine import (
    BatchingEngine,
    Completion,
    EngineDeadError,
    SamplingParams,
    SlotCache,
    new_sequence,
    sample,
)
from rltui.tinyrl.model import load_model

PROMPTS = [[3, 20, 30], [3, 40, 41, 42, 43, 44, 1, 4], [3], [3, 50, 60, 1, 4]] * 2


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[BatchingEngine]:
    cache = SlotCache(TINY_SHAPE, rows=5, max_len=64, device=torch.device("cpu"))
    running = BatchingEngine(load_model(tiny_model), cache, end_token_id=1)
    running.start()
    yield running
    running.stop()


def generate(engine: BatchingEngine, prompts: list[list[int]], params: SamplingParams) -> list[Completion]:
    sequences = [new_sequence(prompt, params, index) for index, prompt in enumerate(prompts)]
    engine.submit(sequences)
    return [item.future.result(timeout=20) for item in sequences]


def test_batched_completions_equal_those_drawn_alone(engine: BatchingEngine) -> None:
    params = SamplingParams(max_tokens=12, seed=5)
    together = generate(engine, PROMPTS, params)
    for index, prompt in enumerate(PROMPTS):
        alone = new_sequence(prompt, params, index)
        engine.submit([alone])
        assert alone.future.result(timeout=20).token_ids == together[index].token_ids
    assert len({tuple(item.token_ids) for item in together}) > 1


def test_logprobs_are_those_of_a_full_forward_pass(engine: BatchingEngine, tiny_model: Path) -> None:
    params = SamplingParams(max_tokens=12, temperature=0.7, seed=1, ignore_eos=True)
    model = load_model(tiny_model)
    for prompt, item in zip(PROMPTS, generate(engine, PROMPTS, params), strict=True):
        tokens = torch.tensor([prompt + item.token_ids])
        length = tokens.shape[1]
        with torch.no_grad():
            mask = torch.ones(1, length, length, dtype=torch.bool).tril()
            logits = model(tokens, torch.arange(length)[None], mask)[0]
        expected = torch.log_softmax(logits / 0.7, -1)[:-1].gather(1, tokens[0, 1:, None])[:, 0]
        assert torch.allclose(torch.tensor(item.logprobs), expected[len(prompt) - 1 :], atol=1e-4, rtol=1e-4)


def test_counts_add_up_and_the_cache_is_empty_at_the_end(engine: BatchingEngine) -> None:
    completions = generate(engine, PROMPTS, SamplingParams(max_tokens=9, seed=2))
    statistics = engine.statistics
    assert statistics.generation_tokens == sum(len(item.token_ids) for item in completions)
    assert statistics.prompt_tokens == sum(map(len, PROMPTS))
    assert statistics.successes["stop"] + statistics.successes["length"] == len(PROMPTS)
    engine.stop()
    assert (statistics.running, statistics.waiting, statistics.used_tokens) == (0, 0, 0)


def test_new_weights_change_the_answer(engine: BatchingEngine, tmp_path: Path) -> None:
    greedy = SamplingParams(max_tokens=15, temperature=0.0, ignore_eos=True)
    before = generate(engine, PROMPTS[:4], greedy)
    write_tiny_model(tmp_path / "other", seed=9)
    engine.update_weights(tmp_path / "other").result(timeout=20)
    assert generate(engine, PROMPTS[:4], greedy) != before


def test_bad_weights_are_refused_and_serving_goes_on(engine: BatchingEngine, tmp_path: Path) -> None:
    with pytest.raises(TinyrlError, match="cannot load weights"):
        engine.update_weights(tmp_path).result(timeout=20)
    assert len(generate(engine, PROMPTS, SamplingParams(max_tokens=2))) == len(PROMPTS)


def test_failure_reaches_everyone_who_waits(engine: BatchingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(engine, "_prefill", broken)
    sequence = new_sequence([3, 4], SamplingParams(max_tokens=2), 0)
    engine.submit([sequence])
    with pytest.raises(EngineDeadError, match="boom"):
        sequence.future.result(timeout=20)
    with pytest.raises(EngineDeadError):
        engine.submit([sequence])


def test_sample_respects_greedy_and_top_p() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2]] * 4))
    temperatures = torch.tensor([0.0, 1.0, 1.0, 1.0])
    top_p = torch.tensor([1.0, 1.0, 0.6, 1.0])
    tokens, logprobs = sample(logits, temperatures, top_p, torch.tensor([0.99, 0.99, 0.999999, 0.4]))
    assert tokens.tolist() == [0, 2, 1, 0]
    assert torch.allclose(logprobs.exp(), torch.tensor([0.5, 0.2, 0.3, 0.5]), atol=1e-5)


def test_sample_draws_in_proportion() -> None:
    probabilities = torch.tensor([0.1, 0.6, 0.3])
    rows = 20_000
    draws = torch.rand(rows, generator=torch.Generator().manual_seed(0))
    ones = torch.ones(rows)
    tokens, _ = sample(probabilities.log().expand(rows, 3), ones, ones, draws)
    shares = torch.bincount(tokens, minlength=3) / rows
    assert torch.allclose(shares, probabilities, atol=0.02, rtol=0)
