"""The warm-up: supervised training of a new model on demonstrations, many of which stop too early.

The model before its first step is stored in its folder `base`.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from rltui.tinyrl import language, log_lines
from rltui.tinyrl.config import DataSection, SftConfig
from rltui.tinyrl.device import device, peak_gib, total_gib
from rltui.tinyrl.files import BASE_NAME, new_model_folder
from rltui.tinyrl.language import ASSISTANT, END, PAD, USER, VOCAB_SIZE, ChatTokenizer, write_tokenizer
from rltui.tinyrl.metrics import log_metrics
from rltui.tinyrl.model import Architecture, CausalModel, write_model_files

_IGNORED = -100
"""Target of tokens that do not count, as in torch's cross entropy."""


@dataclass(slots=True)
class SftBatch:
    """Right-padded: both [examples, length]; the padding is never looked at, as attention is causal."""

    token_ids: torch.Tensor
    targets: torch.Tensor


def _draw_batch(data: DataSection, size: int, tokenizer: ChatTokenizer, rng: random.Random) -> SftBatch:
    """`size` new demonstrations; only the answer and its end token count."""
    token_rows, target_rows = [], []
    for _ in range(size):
        text = language.draw_text(rng, data.min_chars, data.max_chars)
        answer = language.demonstration(text, rng, data.give_up_frac)
        prompt = tokenizer.encode(f"{USER}{text}{END}{ASSISTANT}")
        tokens = prompt + tokenizer.encode(f"{answer}{END}")
        token_rows.append(torch.tensor(tokens))
        target_rows.append(torch.tensor([_IGNORED] * (len(prompt) - 1) + tokens[len(prompt) :] + [_IGNORED]))
    pad = torch.nn.utils.rnn.pad_sequence
    return SftBatch(
        pad(token_rows, batch_first=True), pad(target_rows, batch_first=True, padding_value=_IGNORED)
    )


def _loss_sum(model: CausalModel, batch: SftBatch) -> torch.Tensor:
    """Cross entropy over the tokens that count."""
    size, length = batch.token_ids.shape
    positions = torch.arange(length, device=batch.token_ids.device).expand(size, length)
    mask = torch.ones(length, length, dtype=torch.bool, device=positions.device).tril().expand(size, -1, -1)
    logits = model(batch.token_ids, positions, mask)
    return functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=_IGNORED, reduction="sum"
    )


def learning_rate(config: SftConfig, step: int) -> float:
    """Rises over the warm-up, then falls linearly to almost nothing at the last step."""
    warmup_frac = min(1.0, step / max(1, config.scheduler.warmup_steps))
    return config.optim.lr * warmup_frac * (1 - (step - 1) / config.max_steps)


def _train_step(
    model: CausalModel, optimizer: torch.optim.Optimizer, batch: SftBatch, config: SftConfig
) -> tuple[float, float]:
    """One update over the batch in micro-batches; returns (mean loss, gradient norm)."""
    counted = int((batch.targets != _IGNORED).sum())
    optimizer.zero_grad()
    total = 0.0
    size = config.data.micro_batch_size
    for tokens, targets in zip(batch.token_ids.split(size), batch.targets.split(size), strict=True):
        loss = _loss_sum(model, SftBatch(tokens, targets)) / counted
        loss.backward()
        total += loss.item()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.optim.max_norm)
    optimizer.step()
    return total, float(norm)


def run(config: SftConfig) -> int:
    """Train and write the model folder."""
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    rng = random.Random(config.seed)
    target = device()
    log_lines.info(f"Starting SFT trainer in World(rank=0, world_size=1, device={target})")
    with new_model_folder(config.output_dir) as folder:
        write_tokenizer(folder)
        tokenizer = ChatTokenizer(folder)
        heads = config.model.num_attention_heads
        shape = Architecture(
            vocab_size=VOCAB_SIZE,
            head_dim=config.model.hidden_size // heads,
            num_key_value_heads=heads,
            **config.model.model_dump(),
        )
        model = CausalModel(shape).to(target)
        log_lines.info(
            f"Initialized a new model with {sum(p.numel() for p in model.parameters()):,} parameters"
        )
        _write_model(model, folder / BASE_NAME)
        log_lines.info(f"Starting training loop (max_steps={config.max_steps})")
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=config.optim.lr, weight_decay=config.optim.weight_decay, betas=(0.9, 0.95)
        )
        for step in range(1, config.max_steps + 1):
            started = time.monotonic()
            lr = learning_rate(config, step)
            for group in optimizer.param_groups:
                group["lr"] = lr
            batch = _draw_batch(config.data, config.data.batch_size, tokenizer, rng)
            batch = SftBatch(batch.token_ids.to(target), batch.targets.to(target))
            loss, norm = _train_step(model, optimizer, batch, config)
            elapsed_s = time.monotonic() - started
            rate = int((batch.targets != _IGNORED).sum()) / elapsed_s
            line = log_lines.sft_step(
                step=step,
                time_s=elapsed_s,
                loss=loss,
                grad_norm=norm,
                lr=lr,
                tokens_per_s=rate,
                peak_gib=peak_gib(),
                total_gib=total_gib(),
            )
            log_lines.success(line)
            log_metrics(
                folder,
                step,
                {
                    "loss/mean": loss,
                    "optim/lr": lr,
                    "optim/grad_norm": norm,
                    "perf/throughput": rate,
                    "perf/peak_memory": peak_gib(),
                    "time/step": elapsed_s,
                },
            )
        _write_model(model, folder)
        log_lines.info(f"Saving the model to {config.output_dir}")
    log_lines.success("SFT trainer finished!")
    return 0


def _write_model(model: CausalModel, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    write_tokenizer(folder)
    tokenizer = ChatTokenizer(folder)
    write_model_files(model, folder, tokenizer.encode(END)[0], tokenizer.encode(PAD)[0])
