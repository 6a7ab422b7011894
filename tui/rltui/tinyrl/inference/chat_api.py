"""The OpenAI chat shapes: what a request may say, and how answers and errors look."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from rltui.tinyrl.inference.generation import Completion, SamplingParams
from rltui.tinyrl.tokenizer import ChatTokenizer


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")
    role: str
    content: str


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")
    include_usage: bool = False


class ChatRequest(BaseModel):
    """Unknown fields are ignored, as in vLLM."""

    model_config = ConfigDict(extra="ignore")
    model: str | None = None
    messages: list[ChatMessage] = Field(min_length=1)
    n: int = Field(default=1, ge=1, le=1024)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0.0, le=100.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    seed: int | None = Field(default=None, ge=0)
    logprobs: bool = False
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    """vLLM's extension: `prompt_token_ids` in the answer and `token_ids` in each choice."""

    def sampling_params(self, prompt_tokens: int, max_len: int) -> SamplingParams:
        """Without a limit of its own the completion may fill the context window."""
        limit = self.max_completion_tokens or self.max_tokens or max_len - prompt_tokens
        return SamplingParams(limit, self.temperature, self.top_p, self.seed, self.ignore_eos)


def error_response(status: int, kind: str, message: str, param: str | None = None) -> JSONResponse:
    """An error in OpenAI's shape."""
    return JSONResponse(error_body(status, kind, message, param), status_code=status)


def error_body(status: int, kind: str, message: str, param: str | None = None) -> dict[str, Any]:
    """What stands in it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def chat_response(
    request: ChatRequest,
    model: str,
    prompt_ids: list[int],
    completions: list[Completion],
    tokenizer: ChatTokenizer,
) -> dict[str, Any]:
    """The answer to a chat request."""
    generated = sum(len(completion.token_ids) for completion in completions)
    body: dict[str, Any] = {
        **_head(model, "chat.completion"),
        "choices": [_choice(request, index, item, tokenizer) for index, item in enumerate(completions)],
        "usage": _usage(len(prompt_ids), generated),
    }
    if request.return_token_ids:
        body["prompt_token_ids"] = prompt_ids
    return body


async def chat_chunks(
    request: ChatRequest,
    model: str,
    prompt_ids: list[int],
    completions: Iterable[Awaitable[tuple[int, Completion]]],
    tokenizer: ChatTokenizer,
) -> AsyncIterator[str]:
    """The answer as server-sent events: a choice's text, a token each, when that choice is done.

    `completions`: choice number and completion, in the order in which they finish.
    """
    head, generated = _head(model, "chat.completion.chunk"), 0
    usage: dict[str, Any] = {"usage": None} if request.stream_options.include_usage else {}
    for finished in completions:
        index, item = await finished
        generated += len(item.token_ids)
        whole = _choice(request, index, item, tokenizer)
        logprobs = (whole["logprobs"] or {}).get("content")
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": tokenizer.decode([token])} for token in item.token_ids]
        for number, delta in enumerate(deltas):
            choice = {"index": index, "delta": delta, "finish_reason": None, "logprobs": None}
            if number and logprobs:
                choice["logprobs"] = {"content": [logprobs[number - 1]]}
            if number and request.return_token_ids:
                choice["token_ids"] = [item.token_ids[number - 1]]
            yield _event({**head, "choices": [choice], **usage})
        last = {"index": index, "delta": {}, "finish_reason": item.finish_reason, "logprobs": None}
        yield _event({**head, "choices": [last], **usage})
    if request.stream_options.include_usage:
        yield _event({**head, "choices": [], "usage": _usage(len(prompt_ids), generated)})
    yield "data: [DONE]\n\n"


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def _head(model: str, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


def _usage(prompt_tokens: int, generated: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": generated,
        "total_tokens": prompt_tokens + generated,
    }


def _choice(request: ChatRequest, index: int, item: Completion, tokenizer: ChatTokenizer) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": index,
        "message": {"role": "assistant", "content": tokenizer.decode(item.token_ids)},
        "finish_reason": item.finish_reason,
        "logprobs": None,
    }
    if request.logprobs:
        content = []
        for token_id, logprob in zip(item.token_ids, item.logprobs, strict=True):
            text = tokenizer.token_text(token_id)
            content.append(
                {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
            )
        choice["logprobs"] = {"content": content}
    if request.return_token_ids:
        choice["token_ids"] = item.token_ids
    return choice
