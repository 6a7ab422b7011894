"""The RL trainer: waits for batches, updates the policy, broadcasts its weights."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from pathlib import Path

import torch

from rltui.tinyrl import log_lines, weight_transfer
from rltui.tinyrl.batches import LossParts, PackedRow, pack, packed_row, policy_loss
from rltui.tinyrl.config import RlConfig
from rltui.tinyrl.device import device, peak_gib
from rltui.tinyrl.files import new_folder, remove_partials, set_aside_after
from rltui.tinyrl.metrics import log_metrics
from rltui.tinyrl.model import copy_model_files, load_model, load_weights
from rltui.tinyrl.presence import POLL_S, PairingGuard, Peer, Presence
from rltui.tinyrl.weight_transfer import (
    TrainingSequence,
    checkpoint_folder,
    keep_newest,
    new_half,
    resolve_resume_step,
)

_THROUGHPUT_WINDOW_STEPS = 10


class Trainer:
    """Policy, optimizer and progress of the run."""

    def __init__(self, config: RlConfig) -> None:
        self.config = config
        self.output_dir = config.output_dir
        self.step = resolve_resume_step(self.output_dir, config.resume_step)
        """Steps finished; the version of the weights."""
        self.presence = Presence(self.output_dir, "trainer", self.step)
        self._guard = PairingGuard(Peer(self.output_dir, "orchestrator"), "orchestrator")
        self._source = Path(config.model.name)
        self._device = device()
        self.model = load_model(self._source, self._device)
        optim = config.trainer.optim
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=optim.lr, weight_decay=optim.weight_decay, betas=(0.9, optim.betas2)
        )
        self._recent: deque[tuple[int, float]] = deque(maxlen=_THROUGHPUT_WINDOW_STEPS)
        self._set_aside_other_history()
        if self.step:
            self._load_checkpoint()

    def _set_aside_other_history(self) -> None:
        remove_partials(self.output_dir, "broadcasts/.*", "weights/.*", "checkpoints/*/.trainer.*")
        weight_transfer.remove_broadcasts_through(self.output_dir, sys.maxsize)
        for name in ("checkpoints", "weights"):
            set_aside_after(self.output_dir, name, self.step, self.presence.session.id)

    def _load_checkpoint(self) -> None:
        folder = checkpoint_folder(self.output_dir, self.step) / "trainer"
        load_weights(self.model, folder / "weights")
        state = torch.load(folder / "optimizer.pt", map_location=self._device, weights_only=True)
        self.optimizer.load_state_dict(state)
        log_lines.info(f"Resuming training from checkpoint step {self.step}")

    def run(self) -> None:
        log_lines.info(f"Starting training loop (max_steps={self.config.max_steps})")
        while self.step < self.config.max_steps:
            self._one_step()
        log_lines.info("Writing final checkpoint")
        with new_folder(self.output_dir / "weights" / f"step_{self.step}") as folder:
            copy_model_files(self.model, self._source, folder)
        log_lines.info(f"Peak memory: {peak_gib():.1f} GiB")

    def _one_step(self) -> None:
        started = time.monotonic()
        log_lines.info("Waiting for training batch to arrive")
        sequences = self._wait_for_batch(self.step + 1)
        received = time.monotonic()
        rows = [packed_row(group) for group in pack(sequences, self.config.trainer.model.seq_len or 0)]
        warmup = max(1, self.config.trainer.scheduler.warmup_steps)
        lr = self.config.trainer.optim.lr * min(1.0, (self.step + 1) / warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        losses, grad_norm = self._update(rows)
        self.step += 1
        update_end = time.monotonic()
        with weight_transfer.new_broadcast(self.output_dir, self.step, self.presence.session.id) as folder:
            copy_model_files(self.model, self._source, folder)
        weight_transfer.remove_broadcasts_through(self.output_dir, self.step - self.config.async_level - 2)
        broadcast = time.monotonic()
        self._save_checkpoint()
        finished = time.monotonic()
        token_count = sum(len(row.token_ids) for row in rows)
        self._recent.append((token_count, finished - started))
        rate = sum(tokens for tokens, _ in self._recent) / sum(seconds for _, seconds in self._recent)
        counted = max(1, sum(loss_parts.tokens for loss_parts in losses))
        loss = sum(float(loss_parts.loss.detach()) for loss_parts in losses) / counted
        entropy = sum(loss_parts.entropy for loss_parts in losses) / counted
        mismatch_kl = sum(loss_parts.mismatch_kl for loss_parts in losses) / counted
        line = log_lines.trainer_step(
            step=self.step,
            time_s=finished - started,
            loss=loss,
            entropy=entropy,
            mismatch_kl=mismatch_kl,
            grad_norm=grad_norm,
            lr=lr,
            tokens_per_s=rate,
            peak_gib=peak_gib(),
        )
        log_lines.success(line)
        metrics = {
            "loss/mean": loss, "entropy/all/mean": entropy, "mismatch_kl/all/mean": mismatch_kl,
            "is_masked/all/mean": sum(loss_parts.masked for loss_parts in losses) / counted,
            "optim/lr": lr, "optim/grad_norm": grad_norm,
            "perf/throughput": rate, "perf/peak_memory": peak_gib(),
            "time/wait_for_batch": received - started, "time/forward_backward": update_end - received,
            "time/broadcast_weights": broadcast - update_end, "time/save_ckpt": finished - broadcast,
        }  # fmt: skip
        log_metrics(self.output_dir, self.step, metrics)

    def _wait_for_batch(self, step: int) -> list[TrainingSequence]:
        while True:
            session = self._guard.session(self.step)
            batch = weight_transfer.read_batch(self.output_dir, step, session.id) if session else None
            if batch is not None:
                return batch
            time.sleep(POLL_S)

    def _update(self, rows: list[PackedRow]) -> tuple[list[LossParts], float]:
        bounds = self.config.trainer.loss
        token_count = max(1, sum(int(row.loss_mask.sum()) for row in rows))
        self.optimizer.zero_grad()
        losses = []
        for row in rows:
            logits = self.model(
                row.token_ids[None].to(self._device),
                row.positions[None].to(self._device),
                row.mask[None].to(self._device),
            )
            loss_parts = policy_loss(
                logits[0],
                targets=row.targets.to(self._device),
                loss_mask=row.loss_mask.to(self._device),
                old_logprobs=row.logprobs.to(self._device),
                advantages=row.advantages.to(self._device),
                temperatures=row.temperatures.to(self._device),
                ratio_bounds=(bounds.mask_ratio_low, bounds.mask_ratio_high),
            )
            (loss_parts.loss / token_count).backward()
            losses.append(loss_parts)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.trainer.optim.max_norm)
        self.optimizer.step()
        return losses, float(norm)

    def _save_checkpoint(self) -> None:
        ckpt = self.config.ckpt
        if ckpt is None or (self.step % ckpt.interval and self.step != self.config.max_steps):
            return
        log_lines.info(f"Saving checkpoint at step {self.step}")
        with new_half(self.output_dir, self.step, "trainer") as folder:
            (folder / "weights").mkdir()
            copy_model_files(self.model, self._source, folder / "weights")
            torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")
            (folder / "state.json").write_text(json.dumps({"step": self.step}), encoding="utf-8")
        if ckpt.keep_last is not None:
            keep_newest(self.output_dir, ckpt.keep_last)


def run(config: RlConfig) -> int:
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    trainer = Trainer(config)
    log_lines.info(
        f"Starting RL trainer in World(rank=0, world_size=1, device={device()}) in {config.output_dir}"
    )
    try:
        trainer.run()
    finally:
        trainer.presence.close()
    log_lines.success("RL trainer finished!")
    return 0
