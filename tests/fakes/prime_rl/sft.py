"""Supervised fine-tuning: the trainer itself, and the launcher that later generations put in front of it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.fakes.prime_rl import step_lines
from tests.fakes.prime_rl.checkpoints import Checkpoints
from tests.fakes.prime_rl.children import Children, supervised
from tests.fakes.prime_rl.faults import fail_where_asked
from tests.fakes.prime_rl.folders import wait_for
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.launcher import attempt_folder, devices, prepare_folder, trainer_command
from tests.fakes.prime_rl.lines import Printer, refuse
from tests.fakes.prime_rl.metrics_file import Metrics
from tests.fakes.prime_rl.resolve import component, run_folder
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import merge, set_at, value_at, write


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
    configs = folder / "configs"
    write(_trainer_config(generation, tree, folder), configs / f"sft{generation.config_suffix}")
    serves = generation.is_late and tree.get("inference") is not None
    if serves:
        write(tree["inference"], configs / "inference.json")
        write({"max_steps": value_at(tree, "max_steps"), "output_dir": str(folder)}, configs / "evals.json")
    if value_at(tree, "dry_run", False):
        out.success("Dry run complete. To start an SFT run locally, remove --dry-run from your command.")
        return 0
    logs = attempt_folder(generation, folder)
    return supervised(generation, out, lambda children: _launch(children, tree, configs, logs, serves=serves))


def sft_trainer(generation: Generation, arguments: list[str]) -> int:
    """A rank of the trainer: steps until `max_steps`, a checkpoint at the end."""
    tree = component(generation, "sft", parse(generation, "sft", arguments))
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
        step += 1
    if step > first_step:
        checkpoints.save(step - generation.first_step, out, last=True)
    out.info("Peak memory: 34.5 GiB")
    out.success("SFT trainer finished!")
    return 0


def evals(generation: Generation, arguments: list[str]) -> int:
    """The program `evals`, beside an SFT run: until the trainer's last checkpoint is there."""
    tree = component(generation, "evals", parse(generation, "evals", arguments))
    wait_for(
        Path(tree["output_dir"]) / "checkpoints" / f"step_{tree['max_steps']}" / "trainer" / "progress.pt"
    )
    Printer().success("Evals finished!")
    return 0


def _trainer_config(generation: Generation, tree: Tree, folder: Path) -> Tree:
    """The config that the trainer gets: without the launcher's keys."""
    left_out = ("dry_run", "clean", "clean_output_dir", "run", "inference", "eval")
    trainer_tree = merge({key: value for key, value in tree.items() if key not in left_out}, {}, deep=True)
    set_at(trainer_tree, "output_dir", str(folder))
    return trainer_tree


def _launch(children: Children, tree: Tree, configs: Path, logs: Path, *, serves: bool) -> int:
    generation, out = children.generation, children.out
    key = "deployment.num_train_gpus" if generation.is_late else "deployment.num_gpus"
    ranks = int(value_at(tree, key, 1))
    jobs = ["trainer"]
    if serves:
        infer = int(value_at(tree, "deployment.num_infer_gpus", 1))
        device_ids = devices(infer + ranks)
        environment = {"CUDA_VISIBLE_DEVICES": ",".join(device_ids[:infer])}
        children.start(
            "inference", ["inference", "@", f"{configs}/inference.json"], logs / "inference.log", environment
        )
        children.start("evals", ["evals", "@", f"{configs}/evals.json"], logs / "evals.log")
        jobs.append("evals")
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
