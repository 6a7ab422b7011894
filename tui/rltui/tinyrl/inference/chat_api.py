"""The OpenAI chat shapes: what a request may say, and how answers and errors look."""

from __future__ import annotations

import time
import uuid
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from rltui.tinyrl.inference.generation import Completion, SamplingParams
from rltui.tinyrl.tokenizer import ChatTokenizer


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")
    role: str
    content: str


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
    return_token_ids: bool = False
    """vLLM's extension: `prompt_token_ids` in the answer and `token_ids` in each choice."""

    def sampling_params(self, prompt_tokens: int, max_len: int) -> SamplingParams:
        """Without a limit of its own the completion may fill the context window."""
        limit = self.max_completion_tokens or self.max_tokens or max_len - prompt_tokens
        return SamplingParams(limit, self.temperature, self.top_p, self.seed, self.ignore_eos)


def error_response(status: int, kind: str, message: str, param: str | None = None) -> JSONResponse:
    """An error in OpenAI's shape."""
    body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return JSONResponse(body, status_code=status)


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
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [_choice(request, index, item, tokenizer) for index, item in enumerate(completions)],
        "usage": {
            "prompt_tokens": len(prompt_ids),
            "completion_tokens": generated,
            "total_tokens": len(prompt_ids) + generated,
        },
    }
    if request.return_token_ids:
        body["prompt_token_ids"] = prompt_ids
    return body


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
