"""Evaluations beside the trainer of SFT: the program `evals` of August 2026, since September a module."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType

from tests.fakes.prime_rl import step_lines
from tests.fakes.prime_rl.env_server import is_up
from tests.fakes.prime_rl.folders import POLL_S, complete_steps, wait_for
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.lines import Printer
from tests.fakes.prime_rl.metrics_file import Metrics
from tests.fakes.prime_rl.pool import Pool
from tests.fakes.prime_rl.resolve import component, source_name
from tests.fakes.prime_rl.rollout_files import write_evaluated
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import value_at

EPISODES = 8


def evals(generation: Generation, arguments: list[str]) -> int:
    """The program, until it has evaluated the weights of the last step."""
    return _OnlineEval(
        generation, component(generation, "evals", parse(generation, "evals", arguments))
    ).run()


class _OnlineEval:
    def __init__(self, generation: Generation, tree: Tree) -> None:
        self.generation = generation
        self.table = tree if generation.has_attempts else tree["eval"]
        self.online = tree if generation.has_attempts else tree["online"]
        self.tree = tree
        self.output = Path(tree["output_dir"])
        self.broadcasts = Path(self.online["broadcasts_dir"])
        self.in_memory = value_at(tree, "weight_broadcast.type", "filesystem") == "nccl"
        self.out = Printer()
        self.metrics = Metrics(generation, tree)
        client = {"client": self.table.get("client", {}), "name": tree["model"]}
        self.pool = Pool(generation, {"model": client}, self.out)
        self.last_step = int(self.online.get("resume_step") or 0)

    def run(self) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, _interrupt)
        try:
            self._begin()
            self._watch()
        except KeyboardInterrupt:
            return 1
        self.out.success("Online evals finished!" if self.generation.has_attempts else "Evals finished!")
        return 0

    def _begin(self) -> None:
        self.out.info("Loading eval environment(s)")
        for source in self.table["source"]:
            address = value_at(source, "serve.address") or self._published(source)
            while not is_up(address):
                time.sleep(POLL_S)
        self.out.success(f"Eval environment(s) ready ({', '.join(map(source_name, self.table['source']))})")
        self.pool.wait_until_ready()
        self.out.info(f"Initializing weight broadcast (type='{'nccl' if self.in_memory else 'filesystem'}')")
        if self.in_memory:
            self.pool.init_broadcaster(int(value_at(self.tree, "weight_broadcast.port", 29501)))
        if self.generation.has_attempts:  # every transport of autumn begins with the trainer's first weights
            wait_for(self.broadcasts / f"step_{self.last_step}" / self.generation.markers[0])
            self._receive(self.last_step)
        if self.online.get("resume_step") is None:
            self._evaluate(0)

    def _published(self, source: Tree) -> str:
        configs = os.environ.get("PRL_ATTEMPT_CONFIG_DIR") or self.output / "configs" / "latest" / "resolved"
        file = Path(configs) / "envs" / "eval" / f"{source_name(source)}.address"
        wait_for(file)
        return file.read_text()

    def _watch(self) -> None:
        max_steps = self.online.get("max_steps")
        self.out.info(f"Watching {self.broadcasts} for new weight broadcasts (max_steps={max_steps})")
        while max_steps is None or self.last_step < max_steps:
            if (step := self._newer()) is None:
                time.sleep(POLL_S)
                continue
            self.last_step = step
            self.out.info(f"Updating inference weights to broadcast step {step} ({self.broadcasts})")
            self._receive(step)
            self._evaluate(step)

    def _newer(self) -> int | None:
        offered = complete_steps(self.broadcasts, self.generation.markers[0])
        return next((step for step in offered if step > self.last_step), None)

    def _receive(self, step: int) -> None:
        folder, (_, ready, done) = self.broadcasts / f"step_{step}", self.generation.markers
        if self.in_memory:
            self.pool.update_weights(folder, ready_file=folder / ready)
            return
        if self.generation.has_attempts:
            (folder / ready).touch()
            wait_for(folder / done)
        self.pool.update_weights(folder)

    def _evaluate(self, step: int) -> None:
        """One episode after the other; in autumn a newer checkpoint cancels the rest."""
        started_at, reward = time.monotonic(), step_lines.reward(step)
        names = [source_name(source) for source in self.table["source"]]
        self.out.info(f"Starting evals in {', '.join(names)} at step {step} ({EPISODES} total rollouts)")
        may_cancel = self.generation.has_attempts and self.table.get("cancel_on_new_checkpoint", True)
        finished, newer = 0, None
        while finished < EPISODES:
            if may_cancel and (newer := self._newer()) is not None:
                self.out.warning(
                    f"Checkpoint {newer} is ready - cancelling unfinished eval episodes for step {step}"
                )
                break
            self.pool.ask()
            time.sleep(switches().eval_s / EPISODES)
            finished += 1
            share = f"{finished}/{EPISODES} ({finished / EPISODES:.1%})"
            self.out.info(
                f"Eval {names[0]} {share}; {EPISODES - finished} inflight episodes (cap 64, signal kv)"
            )
        write_evaluated(self.generation, self.output, step, finished)
        for name in names:
            self._finalize(name, step, finished, reward, time.monotonic() - started_at)
        if finished < EPISODES:
            self.out.warning(
                f"Cancelled {EPISODES - finished} unfinished eval episodes for step {step}; advancing to "
                f"checkpoint {newer}"
            )

    def _finalize(self, name: str, step: int, finished: int, reward: float, time_s: float) -> None:
        cancelled = EPISODES - finished
        values = {
            f"eval/{name}/effective/agent/reward/mean": reward,
            f"eval/{name}/policy_version": float(step),
            f"eval/{name}/all/cancelled/mean": cancelled / EPISODES,
        }
        if cancelled:
            values[f"eval/{name}/all/cancelled/count"] = float(cancelled)
        self.metrics.row(step, values)
        if cancelled:
            self.out.warning(
                f"Partially evaluated {name} (Step {step}) | {time_s:.1f}s | Reward {reward:.4f} "
                f"| Error 0.0% | Completed {finished}/{EPISODES} | Cancelled {cancelled}/{EPISODES}"
            )
            return
        timeout = " | Timeout 0.0%" if self.generation.has_attempts else ""
        self.out.success(
            f"Evaluated {name} (Step {step}) | {time_s:.1f}s | Reward {reward:.4f} | Turns 1.0 "
            f"| Branches 1.0 | Error 0.0% | Truncation 0.0%{timeout}"
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
