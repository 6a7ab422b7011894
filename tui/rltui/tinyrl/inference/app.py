"""HTTP routes over the engine, with vLLM's paths."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from rltui.tinyrl import TinyrlError
from rltui.tinyrl.inference.engine import (
    BatchingEngine,
    Completion,
    EngineDeadError,
    SamplingParams,
    Sequence,
    new_sequence,
)
from rltui.tinyrl.language import ChatTokenizer


class TextPart(BaseModel):
    """Text in a message that comes in parts; other types are refused, as nothing here can see pictures."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")
    role: str
    content: str | list[TextPart] | None = None
    """`None` if an assistant only called tools."""

    def plain(self) -> dict[str, str]:
        """The message in the shape that chat templates take."""
        text_parts = self.content if isinstance(self.content, list) else ()
        text = "\n".join(text_part.text for text_part in text_parts)
        return {"role": self.role, "content": self.content if isinstance(self.content, str) else text}


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


def _error_response(status: int, kind: str, message: str, param: str | None = None) -> JSONResponse:
    """An error in OpenAI's shape."""
    return JSONResponse(_error_body(status, kind, message, param), status_code=status)


def _error_body(status: int, kind: str, message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def _chat_response(
    request: ChatRequest,
    model: str,
    prompt_ids: list[int],
    completions: list[Completion],
    tokenizer: ChatTokenizer,
) -> dict[str, Any]:
    generated = sum(len(completion.token_ids) for completion in completions)
    body: dict[str, Any] = {
        **_head(model, "chat.completion"),
        "choices": [_choice(request, index, item, tokenizer) for index, item in enumerate(completions)],
        "usage": _usage(len(prompt_ids), generated),
    }
    if request.return_token_ids:
        body["prompt_token_ids"] = prompt_ids
    return body


async def _chat_chunks(
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
        full_choice = _choice(request, index, item, tokenizer)
        logprobs = (full_choice["logprobs"] or {}).get("content")
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
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


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


@dataclass(frozen=True, slots=True)
class Served:
    engine: BatchingEngine
    tokenizer: ChatTokenizer
    model_name: str
    gpu_memory_utilization: float


class _Routes:
    def __init__(self, served: Served) -> None:
        self._served = served

    async def health(self, _: Request) -> Response:
        return Response(status_code=200 if self._served.engine.failure is None else 503)

    async def version(self, _: Request) -> Response:
        return JSONResponse({"version": f"tinyrl {version('rltui')}"})

    async def models(self, _: Request) -> Response:
        name = self._served.model_name
        card = {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "tinyrl",
            "root": name,
            "parent": None,
            "max_model_len": self._served.engine.max_len,
        }
        return JSONResponse({"object": "list", "data": [card]})

    async def metrics(self, _: Request) -> Response:
        served = self._served
        text = served.engine.statistics.exposition(served.model_name, served.gpu_memory_utilization)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def update_weights(self, request: Request) -> Response:
        body = await _json_object(request)
        folder = body.get("weight_dir") if body is not None else None
        if not isinstance(folder, str):
            return _error_response(400, "BadRequestError", "weight_dir must name a folder", "weight_dir")
        try:
            await asyncio.wrap_future(self._served.engine.update_weights(Path(folder)))
        except TinyrlError as error:
            return _error_response(400, "BadRequestError", str(error), "weight_dir")
        except EngineDeadError as error:
            return _error_response(503, "InternalServerError", str(error))
        return JSONResponse({"status": "ok"})

    async def chat(self, request: Request) -> Response:
        served = self._served
        body = await _json_object(request)
        if body is None:
            return _error_response(400, "BadRequestError", "the body must be a JSON object")
        try:
            chat = ChatRequest.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            param = ".".join(str(part) for part in first["loc"])
            return _error_response(400, "BadRequestError", f"{param}: {first['msg']}", param)
        if chat.model not in (None, served.model_name):
            return _error_response(404, "NotFoundError", f"The model `{chat.model}` does not exist.", "model")
        prompt_ids = served.tokenizer.encode_chat([message.plain() for message in chat.messages])
        longest = served.engine.max_len
        params = chat.sampling_params(len(prompt_ids), longest)
        if params.max_tokens < 1 or len(prompt_ids) + params.max_tokens > longest:
            message = (
                f"This model's maximum context length is {longest} tokens, but {len(prompt_ids)} prompt"
                " tokens and"
                f" {params.max_tokens} completion tokens were asked for. Please reduce one of them."
            )
            return _error_response(400, "BadRequestError", message, "max_tokens")
        sequences = [new_sequence(prompt_ids, params, index) for index in range(chat.n)]
        if chat.stream:
            return self._stream(chat, prompt_ids, sequences)
        try:
            served.engine.submit(sequences)
            completions = await asyncio.gather(*(asyncio.wrap_future(item.future) for item in sequences))
        except EngineDeadError as error:
            return _error_response(503, "InternalServerError", str(error))
        finally:
            for sequence in sequences:
                sequence.cancelled = True  # no effect on those that have finished
        answer = _chat_response(chat, served.model_name, prompt_ids, completions, served.tokenizer)
        return JSONResponse(answer)

    def _stream(self, chat: ChatRequest, prompt_ids: list[int], sequences: list[Sequence]) -> Response:
        served = self._served
        try:
            served.engine.submit(sequences)
        except EngineDeadError as error:
            return _error_response(503, "InternalServerError", str(error))

        async def finished(index: int, sequence: Sequence) -> tuple[int, Completion]:
            return index, await asyncio.wrap_future(sequence.future)

        async def events() -> AsyncIterator[str]:
            done = asyncio.as_completed([finished(*item) for item in enumerate(sequences)])
            try:
                async for event in _chat_chunks(chat, served.model_name, prompt_ids, done, served.tokenizer):
                    yield event
            except EngineDeadError as error:
                yield f"data: {json.dumps(_error_body(503, 'InternalServerError', str(error)))}\n\n"
            finally:
                for sequence in sequences:
                    sequence.cancelled = True  # its reader is gone, or it has finished

        return StreamingResponse(events(), media_type="text/event-stream")


async def _json_object(request: Request) -> dict[str, Any] | None:
    try:
        body = await request.json()
    except (ValueError, ClientDisconnect):
        return None  # in the second case nobody reads the answer
    return body if isinstance(body, dict) else None


async def _not_found(request: Request, _: Exception) -> Response:
    return _error_response(404, "NotFoundError", f"no such path: {request.url.path}")


def build_app(served: Served) -> Starlette:
    routes = _Routes(served)
    return Starlette(
        routes=[
            Route("/health", routes.health),
            Route("/ping", routes.health, methods=["GET", "POST"]),
            Route("/version", routes.version),
            Route("/metrics", routes.metrics),
            Route("/v1/models", routes.models),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/update_weights", routes.update_weights, methods=["POST"]),
        ],
        exception_handlers={404: _not_found},
    )
