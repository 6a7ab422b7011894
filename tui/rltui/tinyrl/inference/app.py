"""HTTP routes over the engine, with vLLM's paths."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from rltui.tinyrl.errors import TinyrlError
from rltui.tinyrl.inference.chat_api import (
    ChatRequest,
    chat_chunks,
    chat_response,
    error_body,
    error_response,
)
from rltui.tinyrl.inference.engine import Engine, EngineDeadError
from rltui.tinyrl.inference.generation import Completion, Sequence, new_sequence
from rltui.tinyrl.tokenizer import ChatTokenizer


@dataclass(frozen=True, slots=True)
class Served:
    """What the routes speak for."""

    engine: Engine
    tokenizer: ChatTokenizer
    model_name: str
    gpu_memory_utilization: float


class Routes:
    """The handlers."""

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
            return error_response(400, "BadRequestError", "weight_dir must name a folder", "weight_dir")
        try:
            await asyncio.wrap_future(self._served.engine.update_weights(Path(folder)))
        except TinyrlError as error:
            return error_response(400, "BadRequestError", str(error), "weight_dir")
        except EngineDeadError as error:
            return error_response(503, "InternalServerError", str(error))
        return JSONResponse({"status": "ok"})

    async def chat(self, request: Request) -> Response:
        served = self._served
        body = await _json_object(request)
        if body is None:
            return error_response(400, "BadRequestError", "the body must be a JSON object")
        try:
            chat = ChatRequest.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            param = ".".join(str(part) for part in first["loc"])
            return error_response(400, "BadRequestError", f"{param}: {first['msg']}", param)
        if chat.model not in (None, served.model_name):
            return error_response(404, "NotFoundError", f"The model `{chat.model}` does not exist.", "model")
        prompt_ids = served.tokenizer.encode_chat([message.model_dump() for message in chat.messages])
        longest = served.engine.max_len
        params = chat.sampling_params(len(prompt_ids), longest)
        if params.max_tokens < 1 or len(prompt_ids) + params.max_tokens > longest:
            message = (
                f"This model's maximum context length is {longest} tokens, but {len(prompt_ids)} prompt"
                " tokens and"
                f" {params.max_tokens} completion tokens were asked for. Please reduce one of them."
            )
            return error_response(400, "BadRequestError", message, "max_tokens")
        sequences = [new_sequence(prompt_ids, params, index) for index in range(chat.n)]
        if chat.stream:
            return self._streamed(chat, prompt_ids, sequences)
        try:
            served.engine.submit(sequences)
            completions = await asyncio.gather(*(asyncio.wrap_future(item.future) for item in sequences))
        except EngineDeadError as error:
            return error_response(503, "InternalServerError", str(error))
        finally:
            for sequence in sequences:
                sequence.cancelled = True  # no effect on those that have finished
        answer = chat_response(chat, served.model_name, prompt_ids, completions, served.tokenizer)
        return JSONResponse(answer)

    def _streamed(self, chat: ChatRequest, prompt_ids: list[int], sequences: list[Sequence]) -> Response:
        served = self._served
        try:
            served.engine.submit(sequences)
        except EngineDeadError as error:
            return error_response(503, "InternalServerError", str(error))

        async def finished(index: int, sequence: Sequence) -> tuple[int, Completion]:
            return index, await asyncio.wrap_future(sequence.future)

        async def events() -> AsyncIterator[str]:
            done = asyncio.as_completed([finished(*item) for item in enumerate(sequences)])
            try:
                async for event in chat_chunks(chat, served.model_name, prompt_ids, done, served.tokenizer):
                    yield event
            except EngineDeadError as error:
                yield f"data: {json.dumps(error_body(503, 'InternalServerError', str(error)))}\n\n"
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
    return error_response(404, "NotFoundError", f"no such path: {request.url.path}")


def build_app(served: Served) -> Starlette:
    """The ASGI application."""
    routes = Routes(served)
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
