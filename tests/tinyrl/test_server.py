"""The inference program over real HTTP; one server, in a thread, for all tests of this file but one."""

from __future__ import annotations

import asyncio
import json
import logging.handlers
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
import uvicorn
from tests.house.walks import REPOSITORY
from tests.tinyrl.conftest import TINY_SHAPE, write_tiny_model
from tests.waiting import retry_until

from rltui.services.rollouts import open_rollouts
from rltui.tinyrl import TinyrlError, evaluation
from rltui.tinyrl.config import EVAL_OPTIONS, EvalConfig, RlConfig
from rltui.tinyrl.config_file import load_config, parse_arguments
from rltui.tinyrl.inference import server as inference
from rltui.tinyrl.inference.app import Served, build_app
from rltui.tinyrl.inference.engine import BatchingEngine, SlotCache
from rltui.tinyrl.inference.listener import bind
from rltui.tinyrl.language import ChatTokenizer
from rltui.tinyrl.model import load_model

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


pytestmark = pytest.mark.xdist_group("a server of tinyrl")


@dataclass
class Server:
    client: httpx.Client
    model: str


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[Server]:
    """What the program serves. Nothing of it may fail unseen: uvicorn logs that."""
    tokenizer = ChatTokenizer(tiny_model)
    cache = SlotCache(TINY_SHAPE, rows=256, max_len=128, device=torch.device("cpu"))
    engine = BatchingEngine(load_model(tiny_model), cache, tokenizer.end_id)
    app = build_app(Served(engine, tokenizer, str(tiny_model), 0.25))
    failures = logging.handlers.BufferingHandler(1000)
    failures.setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addHandler(failures)
    web = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]})
    engine.start()
    thread.start()
    retry_until(lambda: is_up(url))
    with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield Server(client, str(tiny_model))
    web.should_exit = True
    thread.join()
    engine.stop()
    assert not failures.buffer


def test_program_serves_until_it_is_asked_to_end(
    tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    words = ["--model.name", str(tiny_model), "--inference.server.port", str(port)]
    config = load_config(RlConfig, parse_arguments(words))

    def ask() -> None:
        retry_until(lambda: is_up(f"http://127.0.0.1:{port}"))
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        assert inference.run(config, listener) == 0
        asked.result()
    signal.signal(signal.SIGTERM, before)
    captured = capsys.readouterr()
    assert "Application startup complete." in captured.err
    assert re.search(r"CPU KV cache size: [\d,]+ tokens", captured.out)


def test_models_and_version(server: Server) -> None:
    (card,) = server.client.get("/v1/models").json()["data"]
    assert (card["id"], card["max_model_len"]) == (server.model, 128)
    assert "version" in server.client.get("/version").json()


def test_chat_gives_choices_logprobs_and_token_ids(server: Server) -> None:
    request = {**HELLO, "model": server.model, "n": 3, "logprobs": True, "return_token_ids": True, "seed": 4}
    body = server.client.post(CHAT, json=request).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    for choice in body["choices"]:
        content = choice["logprobs"]["content"]
        assert len(content) == len(choice["token_ids"]) <= 8
        assert choice["finish_reason"] == ("stop" if choice["token_ids"][-1] == 1 else "length")
        assert all(item["logprob"] <= 0 for item in content)
    assert body["usage"]["prompt_tokens"] == len(body["prompt_token_ids"]) == 8
    assert server.client.post(CHAT, json=request).json()["choices"] == body["choices"]


def test_a_stream_says_the_same_in_pieces(server: Server) -> None:  # F11
    request = {**HELLO, "n": 2, "seed": 4, "logprobs": True}
    whole = server.client.post(CHAT, json=request).json()
    options = {"stream": True, "stream_options": {"include_usage": True}}
    with server.client.stream("POST", CHAT, json={**request, **options}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert events.pop() == "[DONE]"
    chunks = [json.loads(event) for event in events]
    assert chunks[-1]["usage"] == whole["usage"]
    assert chunks[-1]["choices"] == []
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    for choice in whole["choices"]:
        own = [each for chunk in chunks for each in chunk["choices"] if each["index"] == choice["index"]]
        assert "".join(each["delta"].get("content", "") for each in own) == choice["message"]["content"]
        assert own[0]["delta"]["role"] == "assistant"
        assert own[-1]["finish_reason"] == choice["finish_reason"]
        pieces = [each["logprobs"]["content"][0] for each in own if each["logprobs"]]
        assert pieces == choice["logprobs"]["content"]


def test_concurrent_requests_share_batches(server: Server) -> None:
    async def many() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.client.base_url, timeout=20, trust_env=False) as client:
            return await asyncio.gather(
                *(client.post(CHAT, json={**HELLO, "seed": seed}) for seed in range(40))
            )

    answers = asyncio.run(many())
    assert {answer.status_code for answer in answers} == {200}


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"messages": []}, 400, "messages"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": 500}, 400, "maximum context length is 128 tokens"),
        ({"temperature": -1}, 400, "temperature"),
    ],
)
def test_bad_requests_get_openai_errors(
    server: Server, change: dict[str, Any], status: int, words: str
) -> None:
    answer = server.client.post(CHAT, json={**HELLO, **change})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == status
    assert words in error["message"]


def test_broken_json_and_unknown_paths_are_errors_too(server: Server) -> None:
    assert server.client.post(CHAT, content=b"{").status_code == 400
    assert server.client.get("/nothing").json()["error"]["code"] == 404


def test_requests_of_both_vf_evals_are_answered(server: Server) -> None:
    for line in (REPOSITORY / "tests/data/vf_eval_requests.jsonl").read_text().splitlines():
        recorded = json.loads(line)
        answer = server.client.post(CHAT, json=recorded["body"] | {"model": server.model})
        assert answer.status_code == 200, recorded["of"]
        if recorded["body"].get("stream"):
            assert answer.text.endswith("data: [DONE]\n\n"), recorded["of"]
            last = json.loads(answer.text.split("\n\n")[-3].removeprefix("data: "))
            assert last["usage"]["completion_tokens"] > 0, recorded["of"]
    picture = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    refused = server.client.post(CHAT, json={"messages": [{"role": "user", "content": picture}]})
    assert (refused.status_code, "content" in refused.json()["error"]["param"]) == (400, True)


def evaluate(server: Server, folder: Path, *words: str) -> int:
    more = ["--model", server.model, "-b", f"{server.client.base_url}/v1", "-n", "4", "-r", "2", *words]
    words = ("--results-dir", str(folder), *more)
    return evaluation.run(load_config(EvalConfig, parse_arguments(list(words), EVAL_OPTIONS)))


def test_evaluation_leaves_what_the_rollouts_screen_reads(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(server, tmp_path / "a", "-t", "9", "-T", "0.5") == 0
    rollouts = open_rollouts(tmp_path / "a")
    (batch,) = (rollouts.poll(), rollouts.batches())[1]
    while rollouts.poll(batch.key):
        pass
    samples = list(rollouts.table(batch.key))
    assert [sample.task for sample in samples] == [str(number) for number in range(4) for _ in range(2)]
    assert {sample.env for sample in samples} == {"reverse-text"}
    assert all(sample.truncated == (sample.output_tokens == 9) for sample in samples)
    assert all(sample.input_tokens > 5 and not sample.failed for sample in samples)
    metadata = json.loads((tmp_path / "a" / "metadata.json").read_text())
    assert metadata["sampling_args"] == {"max_tokens": 9, "temperature": 0.5}
    mean = sum(sample.reward for sample in samples) / 8
    assert f"reward: avg - {mean:.3f}, std - " in capsys.readouterr().out
    assert metadata["avg_reward"] == pytest.approx(mean)


def test_evaluation_that_cannot_succeed_says_so(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TinyrlError, match="max_tokens = 128 leaves no room for a prompt"):
        evaluate(server, tmp_path / "a", "-t", "128")
    assert evaluate(server, tmp_path / "b", "-t", "127") == 1  # with any prompt at all too long
    assert "8 of 8 rollouts failed: HTTP 400" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "b" / "results.jsonl").read_text().splitlines()]
    assert all("maximum context length" in row["error"] for row in rows)
    with pytest.raises(TinyrlError, match="already holds results: name a new folder"):
        evaluate(server, tmp_path / "b")
    with pytest.raises(TinyrlError, match="not model"):
        evaluate(server, tmp_path / "c", "-m", "other")


def test_metrics_have_vllm_names(server: Server) -> None:
    before = metric(server, "vllm:generation_tokens_total")
    tokens = server.client.post(CHAT, json=HELLO).json()["usage"]["completion_tokens"]
    assert metric(server, "vllm:generation_tokens_total") == before + tokens
    text = server.client.get("/metrics").text
    for name in (
        "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total",
        "request_success_total", "time_to_first_token_seconds_bucket", "time_to_first_token_seconds_count",
    ):  # fmt: skip
        assert f"\nvllm:{name}{{" in f"\n{text}"
    assert 'gpu_memory_utilization="0.25"' in text


def metric(server: Server, name: str) -> float:
    found = re.search(rf"^{name}{{.*}} (\S+)$", server.client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_update_weights_changes_answers(server: Server, tmp_path: Path) -> None:
    greedy = {**HELLO, "temperature": 0, "ignore_eos": True}
    before = server.client.post(CHAT, json=greedy).json()["choices"]
    write_tiny_model(tmp_path / "other", seed=3)
    update = server.client.post("/update_weights", json={"weight_dir": str(tmp_path / "other")})
    assert update.status_code == 200
    assert server.client.post(CHAT, json=greedy).json()["choices"] != before
    assert server.client.post("/update_weights", json={"weight_dir": server.model}).status_code == 200
    assert server.client.post(CHAT, json=greedy).json()["choices"] == before


@pytest.mark.parametrize("body", [{}, {"weight_dir": 3}, {"weight_dir": "/nowhere"}])
def test_bad_weights_are_refused(server: Server, body: dict[str, Any]) -> None:
    assert server.client.post("/update_weights", json=body).status_code == 400
    assert server.client.get("/health").status_code == 200


def test_client_that_leaves_in_the_middle_does_no_harm(server: Server) -> None:
    """The fixture's end finds any traceback in the log."""
    url = server.client.base_url
    body = json.dumps({**HELLO, "n": 64, "max_tokens": 50, "ignore_eos": True}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for sent in (body[:20], body):
        with socket.create_connection((url.host, url.port or 0)) as connection:
            connection.sendall(head + sent)
    retry_until(lambda: metric(server, "vllm:num_requests_running") == 0)
    assert server.client.post(CHAT, json=HELLO).status_code == 200
