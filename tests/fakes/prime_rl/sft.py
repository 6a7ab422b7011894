"""Supervised fine-tuning: the trainer itself, and the launcher that later generations put in front of it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.fakes.prime_rl import step_lines
from tests.fakes.prime_rl.checkpoints import Checkpoints
from tests.fakes.prime_rl.children import Children, supervised
from tests.fakes.prime_rl.faults import fail_where_asked
from tests.fakes.prime_rl.folders import complete, wait_for
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.launcher import (
    attempt,
    attempt_folder,
    devices,
    prepare_folder,
    trainer_command,
    write_env_servers,
)
from tests.fakes.prime_rl.lines import Printer, refuse
from tests.fakes.prime_rl.metrics_file import Metrics
from tests.fakes.prime_rl.resolve import component, eval_servers, run_folder, source_name, with_evals
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import has, merge, set_at, value_at, write
from tests.fakes.prime_rl.weight_group import Sender


def sft(generation: Generation, arguments: list[str]) -> int:
    """The program `sft`: in the first generation the trainer, later a launcher."""
    if generation.name == "A1":
        return sft_trainer(generation, arguments)
    tree = component(generation, "sft", parse(generation, "sft", arguments))
    if tree.get("inference") is not None and tree.get("eval") is None:
        refuse(generation.name, "SFTConfig", [("", "Value error, [inference] needs [eval]")])
    out = Printer()
    folder = run_folder(generation, tree, "sft")
    prepare_folder(generation, tree, folder, out)
    configs, logs = attempt(folder, "sft") if generation.has_attempts else (folder / "configs", None)
    is_evaluated = generation.is_late and tree.get("eval") is not None
    if is_evaluated:
        with_evals(generation, tree)
    write(_trainer_config(generation, tree, folder), configs / f"sft{generation.config_suffix}")
    if is_evaluated:
        if tree.get("inference") is not None:
            write(tree["inference"], configs / "inference.json")
        write(_eval_config(generation, tree, folder), configs / f"{_eval_name(generation)}.json")
        write_env_servers(generation, eval_servers(tree), configs)
    if value_at(tree, "dry_run", False):
        out.success("Dry run complete. To start an SFT run locally, remove --dry-run from your command.")
        return 0
    output = logs or attempt_folder(generation, folder)
    return supervised(generation, out, lambda children: _launch(children, tree, configs, output))


def sft_trainer(generation: Generation, arguments: list[str]) -> int:
    """A rank of the trainer: steps until `max_steps`, a checkpoint at the end."""
    tree = component(generation, "sft", parse(generation, "sft", arguments))
    set_at(tree, "output_dir", str(run_folder(generation, tree, "sft")))
    out = Printer()
    out.info("Starting SFT trainer in World(world_size=1, rank=0)")
    checkpoints = Checkpoints(generation, tree, "trainer")
    metrics = Metrics(generation, tree)
    resume_step = checkpoints.resume_step(out)
    if resume_step is not None:
        out.info(f"Resuming training from checkpoint step {resume_step}")
    # A checkpoint's number is the next step's where steps count from 0, else the last one's.
    step = (resume_step or 0) + generation.first_step
    max_steps: int | None = value_at(tree, "max_steps")
    weights = _Weights(generation, tree, out) if generation.is_late and tree.get("eval") is not None else None
    if weights is not None and generation.has_attempts:
        weights.send(resume_step or 0)
    out.info(f"Starting training loop (max_steps={max_steps or 'infinite'})")
    first_step = step
    while max_steps is None or step - generation.first_step < max_steps:
        completed_steps = step if generation.is_late else step + 1
        fail_where_asked(generation, "sft", step, out)
        time.sleep(switches().step_s)
        out.success(step_lines.sft(generation, step, switches().step_s))
        metrics.row(step, {"loss/mean": step_lines.loss(step), "time/step": switches().step_s})
        if completed_steps != max_steps and checkpoints.is_due(completed_steps):
            checkpoints.save(completed_steps, out)
        if weights is not None and completed_steps != max_steps and weights.is_due(completed_steps):
            out.info(f"Broadcasting weights at step {completed_steps}")
            weights.send(completed_steps)
        step += 1
    if step > first_step:
        checkpoints.save(step - generation.first_step, out, last=True)
    if weights is not None:
        out.info("Broadcasting final weights")
        weights.send(step - generation.first_step)
    out.info("Peak memory: 34.5 GiB")
    out.success("SFT trainer finished!")
    return 0


class _Weights:
    """The trainer's end of the broadcasts for evaluations; in autumn it waits for the other end each time."""

    def __init__(self, generation: Generation, tree: Tree, out: Printer) -> None:
        self._generation = generation
        self._broadcasts = Path(tree["output_dir"]) / "broadcasts"
        self._interval = int(value_at(tree, "eval.interval", 100))
        in_memory = value_at(tree, "weight_broadcast.type", "filesystem") == "nccl"
        out.info(f"Initializing weight broadcast (type='{'nccl' if in_memory else 'filesystem'}')")
        self._group = Sender(int(value_at(tree, "weight_broadcast.port", 29501))) if in_memory else None

    def is_due(self, step: int) -> bool:
        return step % self._interval == 0

    def send(self, step: int) -> None:
        folder, (offered, taken, done) = self._broadcasts / f"step_{step}", self._generation.markers
        if self._group is None and not self._generation.has_attempts:
            complete(folder, f"weights v{step}", mark=offered)
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / offered).touch()
        wait_for(folder / taken)
        if self._group is None:
            complete(folder, f"weights v{step}", mark=done)
        else:
            self._group.send(step)
            (folder / done).touch()


def _trainer_config(generation: Generation, tree: Tree, folder: Path) -> Tree:
    """The config that the trainer gets. The latest ones join the run's folder themselves."""
    left_out = ("dry_run", "clean", "clean_output_dir")
    trainer_tree = merge({key: value for key, value in tree.items() if key not in left_out}, {}, deep=True)
    if not generation.is_late:
        set_at(trainer_tree, "output_dir", str(folder))
    return trainer_tree


def _eval_name(generation: Generation) -> str:
    return "eval" if generation.has_attempts else "evals"


def _eval_config(generation: Generation, tree: Tree, folder: Path) -> Tree:
    """What the launcher derives for the process of the evaluations."""
    resume_step = value_at(tree, "resume.step") if has(tree, "resume") else None
    online = {
        "broadcasts_dir": str(folder / "broadcasts"),
        "max_steps": value_at(tree, "max_steps"),
        "resume_step": resume_step,
    }
    common = {
        "model": value_at(tree, "model.name", "Qwen/Qwen3-0.6B"),
        "weight_broadcast": tree["weight_broadcast"],
        "output_dir": str(folder),
    }
    if generation.has_attempts:
        return {**tree["eval"], **common, **online}
    table = merge(tree["eval"], {}, deep=True)
    addresses = {source_name(source): address for _, source, address in eval_servers(tree)}
    for source in table["source"]:
        source["serve"] = {"address": addresses.get(source_name(source), value_at(source, "serve.address"))}
    return {**common, "eval": table, "online": online}


def _launch(children: Children, tree: Tree, configs: Path, logs: Path) -> int:
    generation, out = children.generation, children.out
    key = "deployment.num_train_gpus" if generation.is_late else "deployment.num_gpus"
    ranks = int(value_at(tree, key, 1))
    jobs = ["trainer"]
    if generation.is_late and tree.get("inference") is not None:
        infer = int(value_at(tree, "deployment.num_infer_gpus", 1))
        device_ids = devices(infer + ranks)
        environment = {"CUDA_VISIBLE_DEVICES": ",".join(device_ids[:infer])}
        children.start(
            "inference", ["inference", "@", f"{configs}/inference.json"], logs / "inference.log", environment
        )
    if generation.is_late and tree.get("eval") is not None:
        for _, source, _ in eval_servers(tree):
            name = source_name(source)
            argv = ["env-server", "@", f"{configs}/envs/eval/{name}.json"]
            children.start(f"env/eval/{name}", argv, logs / "envs" / "eval" / f"{name}.log")
        name = _eval_name(generation)
        program = ["python", "-m", "prime_rl.eval.online"] if generation.has_attempts else ["evals"]
        pins = {"PRL_ATTEMPT_CONFIG_DIR": str(configs), "PRL_ATTEMPT_LOG_DIR": str(logs)}
        children.start(name, [*program, "@", f"{configs}/{name}.json"], logs / f"{name}.log", pins)
        jobs.append(name)
    out.info(f"Starting SFT trainer with {ranks} GPU(s)")
    config = configs / f"sft{generation.config_suffix}"
    argv = trainer_command(generation, "prime_rl.trainer.sft.train", ranks, logs, config)
    output = logs / f"trainer{generation.log_suffix}"
    children.start("trainer", argv, output)
    out.success("Startup complete. Showing trainer logs...")
    children.follow(output)
    code = children.watch(jobs)
    if code == 0:
        out.success("SFT training finished!")
    return code
