"""The orchestrator: samples rollouts from inference, scores them, ships batches, passes new weights on."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx

from rltui.tinyrl import log_lines, weight_transfer
from rltui.tinyrl.config import RlConfig
from rltui.tinyrl.files import remove_partials, set_aside_after
from rltui.tinyrl.metrics import distribution, log_metrics
from rltui.tinyrl.presence import POLL_S, PairingGuard, Peer, Presence
from rltui.tinyrl.rollouts import BatchTarget, Rollout, RolloutScheduler, request_group, write_rollouts
from rltui.tinyrl.server_client import new_client, push_weights, wait_until_ready
from rltui.tinyrl.weight_transfer import checkpoint_folder, new_half, resolve_resume_step


@dataclass(slots=True)
class RunTotals:
    """Totals since the beginning of the run, stored in checkpoints."""

    next_example_id: int = 0
    total_rollouts: int = 0
    total_tokens: int = 0
    total_tasks: int = 0

    def add(self, rollouts: list[Rollout], next_example_id: int) -> None:
        self.next_example_id = next_example_id
        self.total_rollouts += len(rollouts)
        self.total_tokens += sum(rollout.token_count for rollout in rollouts)
        self.total_tasks += len({rollout.example_id for rollout in rollouts})


def _group_shares(rollouts: list[Rollout]) -> dict[str, float]:
    """Share of groups in which no, every or some attempt was perfect."""
    groups = [
        [item.reward for item in group] for _, group in groupby(rollouts, key=lambda item: item.example_id)
    ]
    none = sum(max(rewards) < 1 for rewards in groups) / len(groups)
    every = sum(min(rewards) == 1 for rewards in groups) / len(groups)
    prefix = "train/agg/all/agent"
    return {
        f"{prefix}/solved_none": none,
        f"{prefix}/solved_all": every,
        f"{prefix}/solved_some": 1 - none - every,
    }


def _step_metrics(
    output_dir: Path,
    step: int,
    rollouts: list[Rollout],
    ages: list[int],
    dropped: int,
    progress: RunTotals,
    times: dict[str, float],
) -> None:
    """Append the row; `rollouts` is sorted by example, `ages` counts policy updates since each was
    sampled.
    """
    rewards = [rollout.reward for rollout in rollouts]
    inputs = [len(rollout.prompt_ids) for rollout in rollouts]
    outputs = [len(rollout.completion_ids) for rollout in rollouts]
    tokens = [float(rollout.token_count) for rollout in rollouts]
    trainable = [rollout.advantage != 0 for rollout in rollouts]
    values: dict[str, float] = {
        **distribution("train/agg/all/agent/reward", rewards),
        # every rollout that arrives whole is admitted, so both subsets are the same
        **distribution("train/agg/effective/agent/reward", rewards),
        **distribution("train/agg/effective/agent/num_total_tokens", tokens),
        **distribution("train/agg/all/num_total_tokens", tokens),
        **distribution("train/agg/all/num_input_tokens", [float(count) for count in inputs]),
        **distribution("train/agg/all/num_output_tokens", [float(count) for count in outputs]),
        "train/agg/all/agent/is_truncated/mean": sum(item.is_truncated for item in rollouts) / len(rollouts),
        "train/agg/all/agent/is_trainable/mean": sum(trainable) / len(rollouts),
        **_group_shares(rollouts),
        "progress/rollouts": len(rollouts),
        "progress/tasks": len({rollout.example_id for rollout in rollouts}),
        "progress/input_tokens": sum(inputs),
        "progress/output_tokens": sum(outputs),
        "progress/tokens": sum(inputs) + sum(outputs),
        "progress/total_rollouts": progress.total_rollouts,
        "progress/total_tokens": progress.total_tokens,
        "progress/total_tasks": progress.total_tasks,
        "off_policy/mean": sum(ages) / len(ages),
        "off_policy/max": max(ages),
        "off_policy/dropped": dropped,
        **times,
    }
    log_metrics(output_dir, step, values)


class Orchestrator:
    """One run from `start_step` to the end."""

    def __init__(self, config: RlConfig, client: httpx.AsyncClient) -> None:
        self.config, self.output_dir = config, config.output_dir.absolute()
        self._client = client
        self._start_step = resolve_resume_step(self.output_dir, config.resume_step)
        self.presence = Presence(self.output_dir, "orchestrator", self._start_step)
        self._guard = PairingGuard(Peer(self.output_dir, "trainer"), "trainer")
        self._version = self._start_step
        """Version of the weights in inference; counts training steps."""
        self._weights = Path(config.model.name).absolute()
        self._recovery = asyncio.Lock()
        self._server_incarnation = 0
        """Counts how often a lost server has come back."""
        self._progress = RunTotals()
        self._unsaved: dict[int, dict[str, Any]] = {}
        """States by step, to be written once the trainer has finished that step."""
        self._set_aside_other_history()
        if self._start_step:
            self._load_checkpoint()
        orchestrator = config.orchestrator
        self._scheduler = RolloutScheduler(
            self._request_group,
            target=BatchTarget(orchestrator.batch_size, orchestrator.token_batch_size),
            group_size=orchestrator.rollouts_per_example,
            inflight_limit=config.inflight_limit,
            next_example_id=self._progress.next_example_id,
        )

    def _set_aside_other_history(self) -> None:
        remove_partials(self.output_dir, "rollouts/*/.*", "checkpoints/*/.orchestrator.*")
        weight_transfer.remove_batches_through(self.output_dir, sys.maxsize)
        set_aside_after(self.output_dir, "rollouts", self._start_step, self.presence.session.id)

    def _load_checkpoint(self) -> None:
        folder = checkpoint_folder(self.output_dir, self._start_step)
        state = json.loads((folder / "orchestrator" / "state.json").read_text(encoding="utf-8"))
        self._progress = RunTotals(**state["progress"])
        self._weights = folder / "trainer" / "weights"

    async def run(self) -> None:
        """Ship every batch, then see the last weights into inference."""
        log_lines.info("Waiting for inference pool to be ready")
        await wait_until_ready(self._client, self.config.model.name)
        log_lines.success("Inference pool ready")
        if self._start_step:
            log_lines.info(f"Resuming training from checkpoint step {self._start_step}")
        else:
            log_lines.info("Training from scratch")
        # the server may have outlived an earlier run, and then holds that run's weights
        await self._push()
        log_lines.info(f"Starting orchestrator loop (max_steps={self.config.max_steps})")
        try:
            for step in range(self._start_step + 1, self.config.max_steps + 1):
                await self._one_step(step)
            await self._follow_policy(self.config.max_steps, newest=True)
        finally:
            await self._scheduler.close()

    async def _one_step(self, step: int) -> None:
        log_lines.info(f"Starting orchestrator step {step}")
        started = time.monotonic()
        needed = max(self._start_step, step - 1 - self.config.async_level)
        await self._follow_policy(needed, newest=not self.config.orchestrator.strict_async_level)
        ready = time.monotonic()
        oldest = self._version - self.config.orchestrator.max_off_policy_steps
        rollouts, dropped = await self._scheduler.collect(self._version, oldest)
        if dropped:
            log_lines.warning(f"Cancelled {dropped} old rollouts (max_off_policy_steps reached)")
        generated = time.monotonic()
        self._ship(step, rollouts)
        end = time.monotonic()
        self._progress.add(rollouts, self._scheduler.next_example_id)
        self._unsaved[step] = {"step": step, "progress": asdict(self._progress)}
        tokens = sum(rollout.token_count for rollout in rollouts)
        ages = [self._version - rollout.policy_version for rollout in rollouts]
        line = log_lines.orchestrator_step(
            step=step, time_s=end - started, reward=sum(item.reward for item in rollouts) / len(rollouts),
            tokens_per_s=tokens / (end - started), tokens_per_sample=tokens / len(rollouts),
            async_level=step - 1 - self._version, off_policy_steps=max(ages),
        )  # fmt: skip
        log_lines.success(line)
        times = {
            "time/step": end - started,
            "time/wait_for_policy": ready - started,
            "time/generate": generated - ready,
            "time/pack": end - generated,
        }
        _step_metrics(self.output_dir, step, rollouts, ages, dropped, self._progress, times)

    def _ship(self, step: int, rollouts: list[Rollout]) -> None:
        orchestrator = self.config.orchestrator
        env = orchestrator.env[0]
        write_rollouts(self.output_dir, step, env.name or env.id, rollouts)
        sequences = [
            item.training_sequence(orchestrator.seq_len or 0, orchestrator.sampling.temperature)
            for item in rollouts
        ]
        weight_transfer.write_batch(self.output_dir, step, self.presence.session.id, sequences)

    async def _follow_policy(self, needed: int, *, newest: bool) -> None:
        """Wait for the trainer's step `needed`, then send inference those weights, or the newest."""
        available = self._available_version()
        if available < needed:
            log_lines.info(
                f"Orchestrator paused: waiting for trainer process to complete checkpoint {needed}"
            )
            started = time.monotonic()
            while (available := self._available_version()) < needed:  # noqa: ASYNC110 - another process's file
                await asyncio.sleep(POLL_S)
            waited = time.monotonic() - started
            log_lines.info(f"Orchestrator resumed: checkpoint {needed} ready (after {waited:.2f}s)")
        version = available if newest else needed
        if version > self._version:
            self._version = version
            self._weights = weight_transfer.broadcast_folder(self.output_dir, version)
            await self._push()
        self._save_finished_states(available)
        weight_transfer.remove_batches_through(self.output_dir, available - 1)

    def _available_version(self) -> int:
        session = self._guard.session(self._start_step)
        latest = weight_transfer.latest_broadcast(self.output_dir, session.id) if session else None
        return self._start_step if latest is None else latest

    def _save_finished_states(self, finished_step: int) -> None:
        for step in [step for step in self._unsaved if step <= finished_step]:
            state = self._unsaved.pop(step)
            ckpt = self.config.ckpt
            if ckpt is not None and (step % ckpt.interval == 0 or step == self.config.max_steps):
                with new_half(self.output_dir, step, "orchestrator") as folder:
                    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")

    async def _push(self) -> None:
        incarnation = self._server_incarnation
        try:
            await push_weights(self._client, self._weights)
        except httpx.TransportError as error:
            await self._recover(error, incarnation)

    async def _recover(self, error: httpx.TransportError, incarnation: int) -> None:
        """Wait for a lost server; it comes back with the base model's weights, so send it the current ones.

        Every request in flight comes here if a server is lost; `incarnation` tells the first from the rest.
        """
        async with self._recovery:
            if incarnation != self._server_incarnation:
                return
            log_lines.warning(f"Inference server was lost ({error!r}); waiting for it to come back")
            while incarnation == self._server_incarnation:
                await wait_until_ready(self._client, self.config.model.name)
                try:
                    await push_weights(self._client, self._weights)
                except httpx.TransportError:
                    continue  # lost again
                self._server_incarnation += 1
            log_lines.success("Inference pool ready")

    async def _request_group(self, example_id: int, version: int) -> list[Rollout]:
        while True:
            incarnation = self._server_incarnation
            try:
                return await request_group(self._client, self.config, example_id, version)
            except httpx.TransportError as error:
                await self._recover(error, incarnation)
                version = self._version


async def _run_until_signal(config: RlConfig) -> int:
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []
    main = asyncio.current_task()

    def stop(number: signal.Signals) -> None:
        received.append(number)
        if main is not None:
            main.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        async with new_client(config.base_url) as client:
            orchestrator = Orchestrator(config, client)
            try:
                await orchestrator.run()
            finally:
                orchestrator.presence.close()
    except asyncio.CancelledError:
        if not received:
            raise
        log_lines.warning(f"Received {received[0].name}, stopping")
        return 128 + received[0]
    log_lines.success("Orchestrator finished.")
    return 0


def run(config: RlConfig) -> int:
    return asyncio.run(_run_until_signal(config))
