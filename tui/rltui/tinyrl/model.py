"""A Qwen3-architecture language model in plain torch, with the parameter names of `transformers`.

Written here rather than imported because three processes share two cores: `transformers` costs each of them
4 more seconds of CPU at its start, twice what torch costs, and its cache cannot hold sequences that come and
go in one batch. `tests/tinyrl/test_model.py` holds that both compute the same logits from the same weight
file.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from rltui.tinyrl import TinyrlError


@dataclass(frozen=True, slots=True)
class Architecture:
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


def _rotary_tables(positions: torch.Tensor, head_dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of each position, [batch, length, head_dim], halves repeated as in Qwen3."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim
    angles = positions[..., None].float() * theta**-exponents
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def _rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn [batch, heads, length, head_dim] by the angles of its positions."""
    first, second = states.chunk(2, dim=-1)
    return states * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]


class _Module(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy here: one untyped base, not five
    """The point at which torch's untyped class enters."""


class _Attention(_Module):
    """Grouped-query attention with per-head RMS norms on queries and keys."""

    def __init__(self, shape: Architecture) -> None:
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
        queries = _rotate(self.q_norm(self.q_proj(hidden).view(by_head)).transpose(1, 2), *rotary)
        keys = _rotate(self.k_norm(self.k_proj(hidden).view(by_head)).transpose(1, 2), *rotary)
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


class _FeedForward(_Module):
    """SwiGLU feed-forward layer."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))


class _Layer(_Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.self_attn = _Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.mlp = _FeedForward(shape)

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


class _Decoder(_Module):
    """Embedding, layers, final norm: the part `transformers` calls `model`."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)


class CausalModel(_Module):
    """Next-token model; the output layer shares the embedding's weights."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.shape = shape
        self.model = _Decoder(shape)
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
        rotary = _rotary_tables(positions, self.shape.head_dim, self.shape.rope_theta)
        for index, layer in enumerate(self.model.layers):
            hidden = layer(hidden, rotary, mask, caches[index] if caches else None, positions)
        return functional.linear(self.model.norm(hidden), self.model.embed_tokens.weight)


_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def write_model_files(model: CausalModel, folder: Path, end_token_id: int, pad_token_id: int) -> None:
    """Write config and weights of a new model, as `transformers.AutoModelForCausalLM` reads them."""
    shape = {field.name: getattr(model.shape, field.name) for field in fields(Architecture)}
    rope_theta = shape.pop("rope_theta")
    config: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "float32",
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "use_cache": True,
        "eos_token_id": end_token_id,
        "pad_token_id": pad_token_id,
        "rope_theta": rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
        **shape,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    _write_weights(model, folder)


def _write_weights(model: CausalModel, folder: Path) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def copy_model_files(model: CausalModel, source: Path, folder: Path) -> None:
    """Fill a model folder with the weights of `model` and everything else from `source`."""
    shutil.copy(source / "config.json", folder)
    for name in _TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copy(source / name, folder)
    _write_weights(model, folder)


def read_shape(folder: Path) -> Architecture:
    """The architecture in `config.json`.

    Raises:
        TinyrlError: no model there, or one of another architecture.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise TinyrlError(
            f"model.name = '{folder}' is not a model folder ({error.strerror}: config.json); create it"
            " first with `python -m rltui.tinyrl sft @ sft.toml`, or correct model.name"
        ) from error
    if config.get("model_type") != "qwen3" or not config.get("tie_word_embeddings"):
        raise TinyrlError(
            f"{folder}: only Qwen3 models with tied embeddings can be run, not {config.get('model_type')}"
        )
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    names = [field.name for field in fields(Architecture) if field.name != "rope_theta"]
    return Architecture(**{name: config[name] for name in names}, rope_theta=theta)


def load_weights(model: CausalModel, folder: Path) -> None:
    """Put the folder's weights into `model`.

    Raises:
        TinyrlError: the file is missing, damaged, or of another shape.
    """
    try:
        tensors = load_file(str(folder / "model.safetensors"))
    except (OSError, SafetensorError) as error:
        raise TinyrlError(f"{folder}: cannot load weights: {error}") from error
    tensors.pop("lm_head.weight", None)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    # compared before the first copy: a mismatch half-way would leave a model of two halves
    if {name: tensor.shape for name, tensor in tensors.items()} != expected:
        raise TinyrlError(f"{folder}: cannot load weights: not the shapes of the model that is loaded")
    model.load_state_dict(tensors)


def load_model(folder: Path, device: torch.device | str = "cpu") -> CausalModel:
    """The folder's model on `device`.

    Raises:
        TinyrlError: as `read_shape` and `load_weights`.
    """
    model = CausalModel(read_shape(folder))
    load_weights(model, folder)
    model.to(device)
    return model
