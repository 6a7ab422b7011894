"""A Qwen3-architecture language model in plain torch, with the parameter names of `transformers`.

Written here rather than imported because three processes share two cores: `transformers` costs each of them
two more seconds of start-up, and its cache cannot hold sequences that come and go in one batch.
`tests/tinyrl/test_model.py` holds that both compute the same logits from the same weight file.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers that define the architecture; written to `config.json` under their `transformers` names."""

    vocab_size: int
    hidden_size: int = 96
    intermediate_size: int = 256
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    num_key_value_heads: int = 4
    head_dim: int = 24
    max_position_embeddings: int = 512
    rope_theta: float = 1_000.0
    rms_norm_eps: float = 1e-6


@dataclass(slots=True)
class LayerCache:
    """Keys and values of one layer, each [rows, key-value heads, max length, head_dim]."""

    keys: torch.Tensor
    values: torch.Tensor


def rotary_tables(positions: torch.Tensor, head_dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of each position, [batch, length, head_dim], halves repeated as in Qwen3."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim
    angles = positions[..., None].float() * theta**-exponents
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn [batch, heads, length, head_dim] by the angles of its positions."""
    first, second = states.chunk(2, dim=-1)
    return states * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]


class _Module(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy here: one untyped base, not five
    """Where torch's untyped class enters."""


class Attention(_Module):
    """Grouped-query attention with per-head RMS norms on queries and keys."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        query_width = shape.num_attention_heads * shape.head_dim
        key_width = shape.num_key_value_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, query_width, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, key_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, key_width, bias=False)
        self.o_proj = nn.Linear(query_width, shape.hidden_size, bias=False)
        self.q_norm = nn.RMSNorm(shape.head_dim, eps=shape.rms_norm_eps)
        self.k_norm = nn.RMSNorm(shape.head_dim, eps=shape.rms_norm_eps)

    def forward(
        self,
        hidden: torch.Tensor,
        rotary: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
        cache: LayerCache | None,
        positions: torch.Tensor,
    ) -> torch.Tensor:
        batch, length, _ = hidden.shape
        by_head = (batch, length, -1, self.shape.head_dim)
        queries = rotate(self.q_norm(self.q_proj(hidden).view(by_head)).transpose(1, 2), *rotary)
        keys = rotate(self.k_norm(self.k_proj(hidden).view(by_head)).transpose(1, 2), *rotary)
        values = self.v_proj(hidden).view(by_head).transpose(1, 2)
        if cache is not None:
            rows = torch.arange(batch, device=hidden.device)[:, None]
            cache.keys[rows, :, positions] = keys.transpose(1, 2)
            cache.values[rows, :, positions] = values.transpose(1, 2)
            keys, values = cache.keys[:, :, : mask.shape[-1]], cache.values[:, :, : mask.shape[-1]]
        mixed = functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=mask[:, None],
            enable_gqa=self.shape.num_attention_heads != self.shape.num_key_value_heads,
        )
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(_Module):
    """SwiGLU."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))


class Layer(_Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.mlp = FeedForward(shape)

    def forward(
        self,
        hidden: torch.Tensor,
        rotary: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
        cache: LayerCache | None,
        positions: torch.Tensor,
    ) -> torch.Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), rotary, mask, cache, positions)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Decoder(_Module):
    """Embedding, layers, final norm: the part `transformers` calls `model`."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)


class CausalModel(_Module):
    """Next-token model; the output layer shares the embedding's weights."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        caches: list[LayerCache] | None = None,
    ) -> torch.Tensor:
        """Logits [batch, length, vocabulary].

        `token_ids`, `positions`: [batch, length]. `mask`: bool [batch, length, keys], true where a query
        may look. With `caches`, new keys and values are written at `positions` and all earlier ones are
        read from there.
        """
        hidden = self.model.embed_tokens(token_ids)
        rotary = rotary_tables(positions, self.shape.head_dim, self.shape.rope_theta)
        for index, layer in enumerate(self.model.layers):
            hidden = layer(hidden, rotary, mask, caches[index] if caches else None, positions)
        return functional.linear(self.model.norm(hidden), self.model.embed_tokens.weight)
