"""The orchestrator of the generations that hand over batches and weights through the file system."""

from __future__ import annotations

import time
from pathlib import Path

from tests.fakes.prime_rl import step_lines
from tests.fakes.prime_rl.checkpoints import Checkpoints
from tests.fakes.prime_rl.faults import fail_where_asked
from tests.fakes.prime_rl.folders import complete_steps, wait_for
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.lines import Printer, raise_uncaught
from tests.fakes.prime_rl.pool import Pool
from tests.fakes.prime_rl.rollout_files import write_batch, write_readable
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import value_at, write


class FilesOrchestrator:
    """Counts its own steps from 0; the trainer's counter is another one."""

    def __init__(self, generation: Generation, tree: Tree) -> None:
        self.generation = generation
        self.tree = tree
        self.output = Path(value_at(tree, "output_dir", "outputs"))
        self.broadcasts = self.output / "broadcasts"
        own_file = self.output / "logs" / "orchestrator.log"
        self.out = Printer(own_file if generation.name != "B1" else None)
        self.checkpoints = Checkpoints(generation, tree, "orchestrator")
        self.pool = Pool(generation, tree, self.out)
        self.max_async = int(value_at(tree, "max_async_level", 1))
        self.is_strict = bool(value_at(tree, "strict_async_level", not generation.adopts_latest))
        self.weights = 0
        """Step of the weights that the server has, as far as this process knows."""

    def run(self) -> None:
        self.out.info("Starting orchestrator")
        if self.generation.name != "A1":
            write(self.tree, self.output / "control" / "orch.toml")
        self._write_environment_logs()
        self.pool.wait_until_ready()
        step = self._begin()
        max_steps: int | None = value_at(self.tree, "max_steps")
        self.out.info(f"Starting orchestrator loop (max_steps={max_steps or 'infinite'})")
        start = saved = step
        while max_steps is None or step < max_steps:
            is_last = max_steps is not None and step == max_steps - 1
            if step != start and not is_last and self.checkpoints.is_due(step):
                self.checkpoints.save(step, self.out)
                saved = step
            self._step(step)
            step += 1
        if step > saved:
            self.checkpoints.save(step, self.out, last=True)
        self.out.success("Orchestrator finished.")

    def _write_environment_logs(self) -> None:
        """Environments run in this process at first, in servers of their own later."""
        environments = value_at(self.tree, "train.env", value_at(self.tree, "env", []))
        for name in (entry.get("name") or entry.get("id") or "env" for entry in environments):
            if self.generation.name == "B1":
                file = self.output.parent / "logs" / "envs" / "train" / name / "env_server.log"
            elif self.generation.name == "B0":
                file = self.output / "logs" / "train" / f"{name}.log"
            else:
                continue
            Printer(file).info(f"Environment {name} ready")

    def _begin(self) -> int:
        """The first step; the server gets the weights for it, where the generation sees to that."""
        step = self.checkpoints.resume_step(self.out)
        if step is None:
            reset = ". Resetting weights to base model" if self.generation.can_reload else ""
            self.out.info(f"Training from scratch{reset}")
            if self.generation.can_reload:
                self.pool.reload_weights()
            return 0
        self.out.info(f"Resuming training from checkpoint step {step}")
        folder = self.broadcasts / f"step_{step}"
        if not (folder / "STABLE").exists():
            raise_uncaught(f"FileNotFoundError: Weight directory not found: {folder}")
        self.pool.update_weights(folder)
        self.weights = step
        return step

    def _step(self, step: int) -> None:
        self.out.info(f"Starting orchestrator step {step}")
        fail_where_asked(self.generation, "orchestrator", step, self.out)
        started_at = time.monotonic()
        self._adopt_weights(step)
        self.pool.ask()
        time.sleep(switches().step_s / 4)
        total = value_at(self.tree, "batch_size", 128)
        self.out.raw(
            f"\rGenerating rollouts (train):  50%|█████     | {total // 2}/{total} [00:00<00:00, 99.31it/s]"
            f"\rGenerating rollouts (train): 100%|██████████| {total}/{total} [00:00<00:00, 99.31it/s]\n"
        )
        write_readable(self.generation, self.output, step)
        write_batch(self.generation, self.output, step, int(value_at(self.tree, "num_train_workers", 1)))
        time_s = time.monotonic() - started_at
        behind = step - self.weights
        self.out.success(step_lines.orchestrator(self.generation, step, time_s, behind=behind))

    def _adopt_weights(self, step: int) -> None:
        """Load weights at most `max_async_level` steps old: waits for them, for ever."""
        due = max(step - self.max_async, 0)
        required_step = due if self.is_strict else max(due, *complete_steps(self.broadcasts), 0)
        if required_step <= self.weights:
            return
        folder = self.broadcasts / f"step_{required_step}"
        if not (folder / "STABLE").exists():
            self._tell_wait(required_step)
            started_at = time.monotonic()
            wait_for(folder / "STABLE")
            self._tell_end_of_wait(required_step, time.monotonic() - started_at)
        self.pool.update_weights(folder)
        self.weights = required_step

    def _tell_wait(self, required_step: int) -> None:
        if self.generation.name == "A1":
            self.out.info("Async barrier active: Waiting for trainer to catch up...")
        else:
            self.out.info(
                f"Orchestrator paused: waiting for trainer process to complete checkpoint {required_step} "
                f"(>{self.max_async} step(s) ahead). Training is progressing normally."
            )

    def _tell_end_of_wait(self, required_step: int, time_s: float) -> None:
        if self.generation.name == "A1":
            self.out.info("Async barrier cleared")
        else:
            self.out.info(f"Orchestrator resumed: checkpoint {required_step} ready (after {time_s:.2f}s)")
