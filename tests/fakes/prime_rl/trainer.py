"""The RL trainer of all generations; rank and world size come from torchrun's variables."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from tests.fakes.prime_rl import step_lines
from tests.fakes.prime_rl.batches import Receiver
from tests.fakes.prime_rl.checkpoints import Checkpoints
from tests.fakes.prime_rl.faults import fail_where_asked
from tests.fakes.prime_rl.folders import complete, steps, wait_for
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.lines import Printer
from tests.fakes.prime_rl.metrics_file import Metrics
from tests.fakes.prime_rl.resolve import component
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import value_at
from tests.fakes.prime_rl.weight_group import Sender, stuck


def trainer(generation: Generation, arguments: list[str]) -> int:
    """The program `trainer`, which is also a rank of torchrun's."""
    tree = component(generation, "trainer", parse(generation, "trainer", arguments))
    if generation.is_late:
        _Current(generation, tree).run()
    else:
        _Files(generation, tree).run()
    return 0


class _Trainer:
    def __init__(self, generation: Generation, tree: Tree) -> None:
        self.generation = generation
        self.tree = tree
        self.rank = int(os.environ.get("RANK", "0"))
        world = int(os.environ.get("WORLD_SIZE", "1"))
        self.output = Path(value_at(tree, "output_dir", "outputs"))
        self.broadcasts = self.output / generation.own_folder / "broadcasts"
        file = self.output / "logs" / "trainer" / f"rank_{self.rank}.log"
        self.out = Printer(file if generation.name in ("A1", "B0") else None)
        self.max_steps: int | None = value_at(tree, "max_steps")
        self.checkpoints = Checkpoints(generation, tree, "trainer")
        self.metrics = Metrics(generation, tree)
        where = "" if generation.name == "A1" else f" in {self.output}"
        self.out.info(f"Starting RL trainer in World(world_size={world}, rank={self.rank}){where}")

    def is_done(self, step: int) -> bool:
        """Whether there is nothing to do at this step."""
        past = step - self.generation.first_step
        return self.max_steps is not None and past >= self.max_steps

    def train(self, step: int) -> float:
        """One optimizer step; its duration in seconds."""
        fail_where_asked(self.generation, "trainer", step, self.out)
        started_at = time.monotonic()
        self.out.info("Starting forward and backward pass (batch_size=1)")
        time.sleep(switches().step_s)
        return time.monotonic() - started_at

    def tell(self, step: int, time_s: float, *, resumed: bool = False) -> None:
        self.out.success(step_lines.trainer(self.generation, step, time_s))
        self.metrics.row(step, {"perf/throughput": 12345.0, "perf/peak_memory": 34.5})
        self.metrics.row(step, {"optim/lr": 3e-6, "optim/grad_norm": 0.1234})
        policies = step_lines.policies(step, switches().shows, resumed=resumed)
        self.metrics.row(step, {"loss/mean": step_lines.loss(step), "entropy/all/mean": 0.5, **policies})
        self.metrics.row(step, {"time/step": time_s, "time/wait_for_batch": 0.0})

    def finish(self, last_step: int, saved: int) -> None:
        if last_step > saved:
            self.checkpoints.save(last_step, self.out, last=True)
        self.out.info("Peak memory: 34.5 GiB")
        self.out.success("RL trainer finished!")


class _Files(_Trainer):
    """Batches and weights through the file system; a checkpoint's number is the next step's."""

    def run(self) -> None:
        if self.generation.name != "A1":
            shutil.rmtree(self.output / "rollouts", ignore_errors=True)
        step = self.checkpoints.resume_step(self.out)
        if step is None:
            step = 0
        else:
            self.out.info(f"Resuming training from checkpoint step {step}")
        self.out.info(f"Starting from step {step} (total_tokens=0, total_samples=0)")
        self.out.info(f"Starting training loop (max_steps={self.max_steps or 'infinite'})")
        saved = start = step
        while True:
            if step > 0 and self.rank == 0:
                self._broadcast(step)
            if step != start and not self.is_done(step) and self.checkpoints.is_due(step) and self.rank == 0:
                self.checkpoints.save(step, self.out)
                saved = step
            if self.is_done(step):
                break
            self.out.info(f"Starting training step {step}")
            self.out.info("Waiting for training batch to arrive")
            wait_for(self._batch(step))
            self.tell(step, self.train(step))
            step += 1
        if self.rank == 0:
            self.finish(step, saved)

    def _batch(self, step: int) -> Path:
        folder = self.output / self.generation.own_folder / "rollouts" / f"step_{step}"
        return folder / (f"rank_{self.rank}.pt" if self.generation.name == "A1" else "rollouts.bin")

    def _broadcast(self, step: int) -> None:
        """Publish weights, and remove those that no orchestrator in step can want any more."""
        complete(self.broadcasts / f"step_{step}", f"weights of step {step}")
        oldest = step - int(value_at(self.tree, "max_async_level", 1))
        keep = self.checkpoints.interval
        for number in steps(self.broadcasts):
            if number < oldest and not (keep and number % keep == 0):
                shutil.rmtree(self.broadcasts / f"step_{number}")


class _Current(_Trainer):
    """The last generation: steps count from 1, a checkpoint's number is the last step that was done."""

    def run(self) -> None:
        port = value_at(self.tree, "rollout_transport.port", 5555)
        completed_steps = self.checkpoints.resume_step(self.out) or 0
        step = completed_steps + 1
        in_memory = value_at(self.tree, "weight_broadcast.type", "filesystem") == "nccl"
        self.out.info(f"Initializing weight broadcast (type='{'nccl' if in_memory else 'filesystem'}')")
        group = None
        if in_memory and self.rank == 0:
            group = Sender(int(value_at(self.tree, "weight_broadcast.port", 29501)))
        if completed_steps:
            self.out.info(f"Resuming training from checkpoint step {completed_steps}")
        self.out.info(f"Starting from step {step} (total_tokens=0, total_samples=0)")
        batches = self._batches(port)
        if self.rank > 0:
            stuck()  # the other ranks compute in lockstep: torchrun ends them
        self.out.info(f"Starting training loop (max_steps={self.max_steps or 'infinite'})")
        self.out.info(f"Broadcasting startup policy weights (v{completed_steps}) to inference engines")
        self._broadcast(completed_steps, group)
        saved = completed_steps
        while not self.is_done(step):
            self._wait_for_batch(batches, step)
            time_s = self.train(step)
            if group is None or step != self.max_steps:
                self._broadcast(step, group)
            if step != self.max_steps and self.checkpoints.is_due(step):
                self.checkpoints.save(step, self.out)
                saved = step
            self.tell(step, time_s, resumed=completed_steps > 0)
            if self.generation.has_attempts:
                (self.output / "trainer_step").write_text(str(step))
            step += 1
        self.finish(step - 1, saved)

    def _batches(self, port: int) -> Receiver | None:
        if value_at(self.tree, "rollout_transport.type", "zmq") != "zmq":
            return None
        self.out.info(f"ZMQ micro batch receiver initialized: endpoint=tcp://localhost:{port}")
        return Receiver(port, self.rank)

    def _wait_for_batch(self, batches: Receiver | None, step: int) -> None:
        if batches is not None:
            batches.receive()
        else:
            wait_for(self.output / self.generation.batches / f"step_{step}" / f"rank_{self.rank}.bin")

    def _broadcast(self, version: int, group: Sender | None) -> None:
        folder = self.broadcasts / f"step_{version}"
        offered, taken, done = self.generation.markers
        if group is None:
            complete(folder, f"weights v{version}", mark=offered)
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / offered).touch()
        wait_for(folder / taken)
        group.send(version)
        (folder / done).touch()
