"""The orchestrator of the last generation: bound to the trainer by a READY and by an in-memory broadcast."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType

from tests.fakes.prime_rl import step_lines
from tests.fakes.prime_rl.batches import Sender
from tests.fakes.prime_rl.checkpoints import Checkpoints
from tests.fakes.prime_rl.env_server import is_up
from tests.fakes.prime_rl.faults import fail_where_asked
from tests.fakes.prime_rl.folders import POLL_S, complete_steps, wait_for
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.lines import Printer
from tests.fakes.prime_rl.metrics_file import Metrics
from tests.fakes.prime_rl.pool import Pool
from tests.fakes.prime_rl.resolve import env_servers, source_name
from tests.fakes.prime_rl.rollout_files import write_batch, write_readable
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import value_at

TARGET_LAG = 1
"""A batch is held back until the weights of so many steps before its predecessor are there."""


class _InterruptedError(Exception):
    """SIGINT. For SIGTERM prime-rl has no handler: it ends the process at once, and cancels nothing."""


class CurrentOrchestrator:
    """Steps count from 1; policy v0 is the base model, vN what step N made."""

    def __init__(self, generation: Generation, tree: Tree) -> None:
        self.generation = generation
        self.tree = tree
        self.output = Path(value_at(tree, "output_dir", "outputs"))
        self.broadcasts = self.output / "broadcasts"
        self.out = Printer()
        self.checkpoints = Checkpoints(generation, tree, "orchestrator")
        self.metrics = Metrics(generation, tree)
        self.pool = Pool(generation, tree, self.out)
        self.max_steps: int | None = value_at(tree, "max_steps")
        self.in_memory = value_at(tree, "weight_broadcast.type", "filesystem") == "nccl"
        self.batch_size = int(value_at(tree, "batch_size", 128))
        self.version = 0
        self.step = 1
        """Number of the next batch to ship."""
        self.sender: Sender | None = None

    def run(self) -> int:
        """The exit code. An interrupt writes this half of a checkpoint and ends with 1."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, self._interrupt)
        started_at = time.monotonic()
        saved = 0
        try:
            saved = self._begin()
            self.out.info(f"Starting orchestrator loop (max_steps={self.max_steps or 'infinite'})")
            while self.max_steps is None or self.step <= self.max_steps:
                self._ship()
                if self.step - 1 != self.max_steps and self.checkpoints.is_due(self.step - 1):
                    saved = self.step - 1
                    self.checkpoints.save(saved, self.out)
            self._wait_for_final_broadcast()
        except _InterruptedError:
            self._end_forced(time.monotonic() - started_at)
            return 1
        self.out.success(f"Orchestrator step loop done in {round(time.monotonic() - started_at)}s")
        if self.step - 1 > saved:
            self.checkpoints.save(self.step - 1, self.out, last=True)
        self.out.success("Orchestrator finished.")
        return 0

    def _begin(self) -> int:
        """Handshakes with everybody; the number of the last step that was done before."""
        self.out.info("Loading training environments")
        for split, source, address in env_servers(self.tree):
            found = self._published(split, source) if self.generation.has_attempts else address
            while not is_up(found):
                time.sleep(POLL_S)
            self.out.info(f"Env {source_name(source)} ready at {found}")
        self.out.success("Train environment(s) ready")
        resume_step = self.checkpoints.resume_step(self.out)
        self.pool.wait_until_ready()
        self.out.info(f"Initializing weight broadcast (type='{'nccl' if self.in_memory else 'filesystem'}')")
        if self.in_memory:
            self.pool.init_broadcaster(int(value_at(self.tree, "weight_broadcast.port", 29501)))
        completed_steps = resume_step or 0
        if resume_step is not None:
            self.out.info(f"Resuming orchestrator from checkpoint step {resume_step}")
        else:
            self.out.info("Training from scratch")
        if value_at(self.tree, "rollout_transport.type", "zmq") == "zmq":
            port = int(value_at(self.tree, "rollout_transport.port", 5555))
            self.sender = Sender(port, int(value_at(self.tree, "num_train_workers", 1)))
            self.out.info(f"ZMQ micro batch sender initialized: endpoint=tcp://localhost:{port}")
        folder = self.broadcasts / f"step_{completed_steps}"
        if not self.in_memory:
            wait_for(folder / self.generation.markers[0])
        self._update_policy(completed_steps)
        self.step = completed_steps + 1
        return completed_steps

    def _published(self, split: str, source: Tree) -> str:
        """The address that the server wrote down; read once, whoever wrote it."""
        pinned = os.environ.get("PRL_ATTEMPT_CONFIG_DIR")
        configs = Path(pinned) if pinned else self.output / "configs" / "latest" / "resolved"
        file = configs / "envs" / split / f"{source_name(source)}.address"
        wait_for(file)
        return file.read_text()

    def _ship(self) -> None:
        step = self.step
        fail_where_asked(self.generation, "orchestrator", step, self.out)
        started_at = time.monotonic()
        self._take_new_policy()
        self.pool.ask()
        half = self.batch_size // 2
        self.out.info(
            f"Train batch {half}/{self.batch_size} (50.0%) (+4 buffered); "
            "48 inflight episodes (train=48, eval=0)"
        )
        time.sleep(switches().step_s / 4)
        needed = step - 1 - TARGET_LAG
        if self.version < needed:
            self.out.info(
                f"Holding batch {step} until the trainer publishes policy v{needed} "
                f"(currently v{self.version})"
            )
            self._wait_for_policy(needed)
        write_readable(self.generation, self.output, step)
        if self.sender is not None:
            self.sender.send(step)
        else:
            write_batch(self.generation, self.output, step, int(value_at(self.tree, "num_train_workers", 1)))
        time_s = time.monotonic() - started_at
        behind = step - 1 - self.version
        shows = switches().shows
        if "discards" in shows and self.generation.has_attempts:
            self.out.warning(step_lines.DISCARDED)
        self.out.success(step_lines.orchestrator(self.generation, step, time_s, behind=behind))
        self.metrics.row(
            step,
            {
                **step_lines.rollouts(step, shows),
                "train/agg/effective/num_total_tokens/mean": 99.9,
                "progress/tokens": 12800.0,
                "time/step": time_s,
                "off_policy/max": float(max(behind, 0)),
            },
            {"watcher/policy_version": float(self.version)},
        )
        self.step += 1

    def _wait_for_policy(self, version: int) -> None:
        while self.version < version:
            time.sleep(POLL_S)
            self._take_new_policy()

    def _take_new_policy(self) -> None:
        newest = max(complete_steps(self.broadcasts, self.generation.markers[0]), default=0)
        if newest > self.version:
            if not self.generation.has_attempts:  # later at DEBUG alone
                self.out.info(f"Updating policy in-flight to v{newest}")
            self._update_policy(newest)

    def _update_policy(self, version: int) -> None:
        folder = self.broadcasts / f"step_{version}"
        self.pool.update_weights(
            folder, ready_file=folder / self.generation.markers[1] if self.in_memory else None
        )
        self.version = version

    def _wait_for_final_broadcast(self) -> None:
        if not self.in_memory or self.max_steps is None or self.version >= self.max_steps - 1:
            return
        final = self.max_steps - 1
        self.out.info(f"Waiting for the trainer's final broadcast (v{final}) before shutdown")
        self._wait_for_policy(final)

    def _end_forced(self, time_s: float) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self.out.warning(
            f"Orchestrator interrupted after {round(time_s)}s — forcing cleanup (not a clean exit)"
        )
        if self.step > 1:
            self.checkpoints.save(self.step - 1, self.out, last=True)
        self.out.warning("Orchestrator cleanup complete (forced).")

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        raise _InterruptedError
