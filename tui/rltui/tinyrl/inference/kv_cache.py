"""Room for the keys and values of many sequences, packed so that the busy rows are always the first ones."""

from __future__ import annotations

import torch

from rltui.tinyrl.model import LayerCache, ModelShape

_BYTES_PER_NUMBER = 4


def bytes_per_token(shape: ModelShape) -> int:
    """Keys and values of one token over all layers, float32."""
    return 2 * shape.num_hidden_layers * shape.num_key_value_heads * shape.head_dim * _BYTES_PER_NUMBER


class KvCache:
    """`rows` sequences of at most `max_len` tokens, cut from one allocation."""

    def __init__(
        self, shape: ModelShape, rows: int, max_len: int, device: torch.device, pool_bytes: int | None = None
    ) -> None:
        """`pool_bytes`: allocate and hold this much, also where the rows need less, as vLLM does."""
        self.rows, self.max_len = rows, max_len
        layout = (shape.num_hidden_layers, 2, rows, shape.num_key_value_heads, max_len, shape.head_dim)
        needed = rows * max_len * bytes_per_token(shape)
        self.pool_bytes = max(needed, pool_bytes or 0)
        self.capacity_tokens = self.pool_bytes // bytes_per_token(shape)
        # zeros, not empty: masked keys still enter a product, and stray NaN would survive it
        pool = torch.zeros(self.pool_bytes // _BYTES_PER_NUMBER, dtype=torch.float32, device=device)
        self._numbers = pool[: needed // _BYTES_PER_NUMBER].view(layout)

    def layers(self, first: int, end: int) -> list[LayerCache]:
        """Views of the rows `first` to `end` (not included), for the model to read and write."""
        return [LayerCache(layer[0, first:end], layer[1, first:end]) for layer in self._numbers]

    def move_row(self, source: int, target: int) -> None:
        """Copy a row, to close the gap a finished sequence leaves."""
        self._numbers[:, :, target] = self._numbers[:, :, source]
