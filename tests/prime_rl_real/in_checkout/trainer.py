"""Takes the place of prime-rl's `trainer/rl/train.py` in a checkout for the CPU.

The hand-over is prime-rl's own: config classes, batches, weight files, checkpoints, metrics file, logger. The
model and its gradient step are plain transformers, since prime-rl's need CUDA.
"""

from __future__ import annotations

import asyncio
import time

import prime_rl._compat  # noqa: F401 - before anything that imports ring_flash_attn
import torch
import torch.distributed as dist
from prime_rl import monitors
from prime_rl.configs.trainer import TrainerConfig
from prime_rl.trainer.ckpt import Progress, setup_ckpt_manager
from prime_rl.trainer.world import get_world
from prime_rl.transports.rollouts import MicroBatch, setup_micro_batch_receiver
from prime_rl.transports.weights.filesystem import FileSystemWeightBroadcast
from prime_rl.utils.config import cli
from prime_rl.utils.logger import format_time, setup_logger
from prime_rl.utils.process import set_proc_title
from prime_rl.utils.utils import clean_exit, resolve_latest_ckpt_step
from transformers import AutoModelForCausalLM, PreTrainedModel


def gradients(model: PreTrainedModel, batch: MicroBatch) -> tuple[float, float, float]:
    """Add the policy gradient of a batch; means over its trained tokens of loss, entropy and mismatch KL."""
    start = 0
    losses, entropies, mismatches = [], [], []
    for length in batch.sequence_lengths:
        part = slice(start, start + length)
        tokens = torch.tensor(batch.input_ids[part])
        mask = torch.tensor(batch.loss_mask[part])[1:]
        start += length
        if not mask.any():
            continue
        logits = model(tokens[None]).logits[0, :-1].float()
        logprobs = (logits / torch.tensor(batch.temperatures[part])[1:, None]).log_softmax(-1)
        chosen = logprobs.gather(1, tokens[1:, None])[:, 0]
        log_ratio = chosen - torch.tensor(batch.inference_logprobs[part])[1:]
        advantages = torch.tensor(batch.advantages[part])[1:]
        losses.append(-(log_ratio.exp() * advantages)[mask])
        entropies.append(-(logprobs.exp() * logprobs).sum(-1)[mask].detach())
        mismatches.append((log_ratio.exp() - 1 - log_ratio)[mask].detach())
    if not losses:
        return 0.0, 0.0, 0.0
    loss = torch.cat(losses).mean()
    loss.backward()
    return loss.item(), float(torch.cat(entropies).mean()), float(torch.cat(mismatches).mean())


@clean_exit
def train(config: TrainerConfig) -> None:
    logger = setup_logger(config.log.level, json_logging=config.log.json_logging)
    logger.info(f"Starting RL trainer in {get_world()} in {config.output_dir}")
    asyncio.run(
        monitors.setup(
            wandb=config.monitors.wandb,
            file=config.monitors.file,
            output_dir=config.output_dir,
            run_config=config,
        )
    )
    dist.init_process_group("gloo")
    checkpoints = setup_ckpt_manager(config.output_dir, config.ckpt, resume=config.resume)
    model = AutoModelForCausalLM.from_pretrained(config.model.name, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.optim.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    broadcast = FileSystemWeightBroadcast(config.output_dir, config.weight_broadcast)
    progress = Progress()
    if config.resume is not None:
        step = config.resume.step or resolve_latest_ckpt_step(checkpoints.ckpt_dir)
        if step is not None:
            checkpoints.load(step, model, [optimizer], scheduler, progress)
            progress.step += 1
            logger.info(f"Resuming training from checkpoint step {step}")
    batches = setup_micro_batch_receiver(config.output_dir, 0, progress.step, config.rollout_transport)
    logger.info(f"Starting training loop (max_steps={config.max_steps or 'infinite'})")
    logger.info(f"Broadcasting startup policy weights (v{progress.step - 1}) to inference engines")
    broadcast.broadcast_weights(model, step=progress.step - 1)
    while True:
        began = time.perf_counter()
        batches.wait()
        micro_batches = batches.receive()
        computing = time.perf_counter()
        means = [gradients(model, batch) for batch in micro_batches]
        loss, entropy, mismatch = (sum(column) / len(means) for column in zip(*means, strict=True))
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        now = time.perf_counter()
        tokens = sum(len(batch.input_ids) for batch in micro_batches)
        rate = tokens / (now - computing)
        broadcast.broadcast_weights(model, step=progress.step)
        broadcast.maybe_clean(progress.step, config.ckpt and config.ckpt.interval)
        last = progress.step == config.max_steps
        progress.total_tokens += tokens
        progress.total_samples += len(micro_batches)
        if last or (config.ckpt and config.ckpt.interval and progress.step % config.ckpt.interval == 0):
            logger.info("Writing final checkpoint" if last else f"Saving checkpoint at step {progress.step}")
            checkpoints.save(progress.step, model, [optimizer], scheduler, progress)
            checkpoints.maybe_clean()
        logger.success(
            f"Step {progress.step} | {format_time(now - began):>7} | Loss {loss:.4f} | Entropy {entropy:.4f}"
            f" | Mismatch KL {mismatch:.4f} | Grad. Norm {norm:.4f} | LR {config.optim.lr:.2e}"
            f" | Throughput {rate:.0f} tokens/s | MFU 0.0% | Peak Mem. 0.0 GiB"
        )
        row = {
            "loss/mean": loss,
            "entropy/all/mean": entropy,
            "perf/throughput": rate,
            "perf/peak_memory": 0.0,
            "optim/grad_norm": norm,
            "optim/lr": config.optim.lr,
            "time/step": now - began,
            "step": progress.step,
        }
        asyncio.run(monitors.log(row, step=progress.step))
        if last:
            break
        progress.step += 1
    logger.success("RL trainer finished!")


def main() -> None:
    set_proc_title("Trainer")
    train(cli(TrainerConfig))


if __name__ == "__main__":
    main()
