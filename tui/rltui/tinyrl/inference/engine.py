"""The engine: one thread that owns the model and generates for every request at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from rltui.tinyrl.inference.statistics import Statistics
from rltui.tinyrl.model import Architecture, CausalModel, LayerCache, load_weights

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    token_ids: list[int]
    """Includes the end token where the model chose it."""
    logprobs: list[float]
    """Per token, under the distribution it was drawn from: after temperature, before top_p."""
    finish_reason: FinishReason


@dataclass(slots=True)
class Sequence:
    prompt_ids: list[int]
    params: SamplingParams
    draws: torch.Tensor
    """Uniform numbers, one per token: a seed gives the same text whatever else is in the batch."""
    future: Future[Completion] = field(default_factory=Future)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    arrived_s: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    """Set by the front if nobody waits any more; the engine drops the sequence at its next step."""


def new_sequence(prompt_ids: list[int], params: SamplingParams, index: int) -> Sequence:
    """The `index`-th of a request's `n` completions; each has its own draws."""
    generator = torch.Generator()
    if params.seed is None:
        generator.seed()
    else:
        generator.manual_seed((params.seed * 1_000_003 + index) % 2**63)
    return Sequence(prompt_ids, params, torch.rand(params.max_tokens, generator=generator))


def sample(
    logits: torch.Tensor, temperatures: torch.Tensor, top_p: torch.Tensor, draws: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Next tokens and their log-probabilities; `logits` is [rows, vocabulary], all else [rows].

    Temperature 0 takes the likeliest token, and reports its log-probability at temperature 1.
    """
    greedy = temperatures == 0
    scaled = logits / torch.where(greedy, torch.ones_like(temperatures), temperatures)[:, None]
    logprobs = torch.log_softmax(scaled.float(), dim=-1)
    sorted_probs, order = logprobs.exp().sort(dim=-1, descending=True)
    mass_before = sorted_probs.cumsum(dim=-1) - sorted_probs
    sorted_probs = torch.where(mass_before < top_p[:, None], sorted_probs, torch.zeros_like(sorted_probs))
    cumulative = sorted_probs.cumsum(dim=-1)
    thresholds = torch.where(greedy, torch.zeros_like(draws), draws)[:, None] * cumulative[:, -1:]
    rank = (cumulative <= thresholds).sum(dim=-1).clamp_max(logits.shape[-1] - 1)
    # rounding may put a draw behind the last allowed token
    rank = torch.minimum(rank, (sorted_probs > 0).sum(dim=-1) - 1)
    tokens = order.gather(1, rank[:, None])[:, 0]
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


_BYTES_PER_NUMBER = 4


def _bytes_per_token(shape: Architecture) -> int:
    """Size of the keys and values of one token over all layers, float32."""
    return 2 * shape.num_hidden_layers * shape.num_key_value_heads * shape.head_dim * _BYTES_PER_NUMBER


class SlotCache:
    """`rows` sequences of at most `max_len` tokens, cut from one allocation."""

    def __init__(
        self,
        shape: Architecture,
        rows: int,
        max_len: int,
        device: torch.device,
        pool_bytes: int | None = None,
    ) -> None:
        """`pool_bytes`: allocate and hold this much, even if the rows need less, as vLLM does."""
        self.rows, self.max_len = rows, max_len
        layout = (shape.num_hidden_layers, 2, rows, shape.num_key_value_heads, max_len, shape.head_dim)
        needed = rows * max_len * _bytes_per_token(shape)
        self.pool_bytes = max(needed, pool_bytes or 0)
        self.capacity_tokens = self.pool_bytes // _bytes_per_token(shape)
        # zeros, not empty: masked keys still enter a product, and stray NaN would survive it
        pool = torch.zeros(self.pool_bytes // _BYTES_PER_NUMBER, dtype=torch.float32, device=device)
        self._numbers = pool[: needed // _BYTES_PER_NUMBER].view(layout)

    def layers(self, first: int, end: int) -> list[LayerCache]:
        """Views of the rows `first` to `end` (not included), for the model to read and write."""
        return [LayerCache(layer[0, first:end], layer[1, first:end]) for layer in self._numbers]

    def move_row(self, source: int, target: int) -> None:
        """Copy a row, to close the gap a finished sequence leaves."""
        self._numbers[:, :, target] = self._numbers[:, :, source]


class EngineDeadError(Exception):
    """The engine thread has failed; the server has to be started again."""


class BatchingEngine:
    """Continuous batching: sequences join and leave between two tokens, in whatever number."""

    def __init__(self, model: CausalModel, cache: SlotCache, end_token_id: int) -> None:
        self.statistics = Statistics(cache.capacity_tokens)
        self.failure: BaseException | None = None
        self._model, self._cache, self._end_token_id = model.eval(), cache, end_token_id
        self._device = next(model.parameters()).device
        self._waiting: deque[Sequence] = deque()
        self._updates: deque[tuple[Path, Future[None]]] = deque()
        self._running: list[Sequence] = []
        """Sequence i owns row i of the cache."""
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @property
    def max_len(self) -> int:
        """Longest prompt plus completion, in tokens."""
        return self._cache.max_len

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; unfinished requests fail."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def submit(self, sequences: list[Sequence]) -> None:
        """Queue sequences; each one's future is resolved by the engine thread."""
        with self._wake:
            if self.failure is not None or self._stopping:
                raise EngineDeadError("the engine is not running")
            for sequence in sequences:
                # a front that is cancelled must not take the future from under the engine
                sequence.future.set_running_or_notify_cancel()
            self._waiting.extend(sequences)
            self.statistics.waiting = len(self._waiting)
            self._wake.notify()

    def update_weights(self, folder: Path) -> Future[None]:
        """Load other weights between two tokens; sequences under way go on with them."""
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        with self._wake:
            if self.failure is not None or self._stopping:
                raise EngineDeadError("the engine is not running")
            self._updates.append((folder, future))
            self._wake.notify()
        return future

    def _run(self) -> None:
        torch.set_num_threads(1)
        try:
            while self._step():
                pass
        except Exception as error:  # noqa: BLE001 - whatever it is, waiting requests must learn of it
            self.failure = error
        finally:
            self._fail_everything(EngineDeadError(f"the engine stopped: {self.failure or 'shutdown'}"))

    def _step(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._waiting or self._updates or self._running or self._stopping)
            if self._stopping:
                return False
            updates, self._updates = self._updates, deque()
            room = self._cache.rows - len(self._running)
            admitted = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            self.statistics.waiting = len(self._waiting)
        for folder, future in updates:
            try:
                load_weights(self._model, folder)
            except Exception as error:  # noqa: BLE001 - the caller gets it; the old weights are still in place
                future.set_exception(error)
            else:
                future.set_result(None)
        with torch.inference_mode():
            # those already running go first: rows that finish now are closed up before new ones are laid
            # behind them
            if self._running:
                self._decode()
            if admitted:
                # owned before the first thing that can fail: a sequence in no list would never be answered
                first = len(self._running)
                self._running.extend(admitted)
                self._prefill(admitted, first)
        self._drop_finished()
        return True

    def _prefill(self, admitted: list[Sequence], first: int) -> None:
        lengths = torch.tensor([len(sequence.prompt_ids) for sequence in admitted])
        longest = int(lengths.max())
        tokens = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(sequence.prompt_ids) for sequence in admitted], batch_first=True
        ).to(self._device)
        positions = torch.arange(longest, device=self._device).expand(len(admitted), longest)
        mask = torch.ones(longest, longest, dtype=torch.bool, device=self._device).tril()
        caches = self._cache.layers(first, first + len(admitted))
        # padding writes keys behind the prompt; decoding overwrites each before it may be looked at
        logits = self._model(tokens, positions, mask.expand(len(admitted), -1, -1), caches)
        for sequence in admitted:
            self.statistics.prefilled(len(sequence.prompt_ids), sequence.arrived_s)
        rows = torch.arange(len(admitted), device=self._device)
        self._take_tokens(admitted, logits[rows, lengths.to(self._device) - 1])

    def _decode(self) -> None:
        running = self._running
        tokens = torch.tensor([[sequence.token_ids[-1]] for sequence in running], device=self._device)
        last = [len(sequence.prompt_ids) + len(sequence.token_ids) - 1 for sequence in running]
        positions = torch.tensor(last, device=self._device)[:, None]
        keys = torch.arange(max(last) + 1, device=self._device)
        mask = (keys <= positions)[:, None]
        logits = self._model(tokens, positions, mask, self._cache.layers(0, len(running)))
        self._take_tokens(running, logits[:, 0])
        self._drop_finished()

    def _take_tokens(self, sequences: list[Sequence], logits: torch.Tensor) -> None:
        draws = torch.stack([sequence.draws[len(sequence.token_ids)] for sequence in sequences])
        temperatures = torch.tensor([sequence.params.temperature for sequence in sequences])
        top_p = torch.tensor([sequence.params.top_p for sequence in sequences])
        tokens, logprobs = sample(logits.cpu(), temperatures, top_p, draws)
        for sequence, token, logprob in zip(sequences, tokens.tolist(), logprobs.tolist(), strict=True):
            sequence.token_ids.append(token)
            sequence.logprobs.append(logprob)
        self.statistics.generated(len(sequences))

    def _finish_reason(self, sequence: Sequence) -> FinishReason | None:
        params: SamplingParams = sequence.params
        if sequence.token_ids[-1] == self._end_token_id and not params.ignore_eos:
            return "stop"
        return "length" if len(sequence.token_ids) >= params.max_tokens else None

    def _drop_finished(self) -> None:
        row = 0
        while row < len(self._running):
            sequence = self._running[row]
            reason = self._finish_reason(sequence)
            if reason is None and not sequence.cancelled:
                row += 1
                continue
            last = self._running.pop()
            if last is not sequence:
                self._cache.move_row(len(self._running), row)
                self._running[row] = last
            self.statistics.finished("abort" if sequence.cancelled else reason or "abort")
            if not sequence.cancelled:
                sequence.future.set_result(
                    Completion(sequence.token_ids, sequence.logprobs, reason or "length")
                )
        used = sum(len(sequence.prompt_ids) + len(sequence.token_ids) for sequence in self._running)
        self.statistics.running, self.statistics.used_tokens = len(self._running), used

    def _fail_everything(self, error: Exception) -> None:
        with self._wake:
            self._stopping = True
            orphans = [*self._running, *self._waiting]
            updates = list(self._updates)
        for sequence in orphans:
            if not sequence.future.done():
                sequence.future.set_exception(error)
        for _, future in updates:
            future.set_exception(error)
