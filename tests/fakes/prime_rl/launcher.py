"""The launcher `rl`: resolves the config, prepares the run's folder, starts everything, ends it together."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from urllib.parse import urlparse

from tests.fakes.prime_rl.children import Children, supervised
from tests.fakes.prime_rl.dashboard import register
from tests.fakes.prime_rl.folders import remove_beyond, steps
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.lines import Printer, raise_uncaught
from tests.fakes.prime_rl.resolve import env_servers, run_folder, source_name, whole
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import has, value_at, write

PARTS = ("trainer", "orchestrator", "inference")


def rl(generation: Generation, arguments: list[str]) -> int:
    """The program `rl` of the checkout."""
    tree = whole(generation, parse(generation, "rl", arguments))
    folder = run_folder(generation, tree)
    out = Printer(
        folder / "logs" / "rl.log" if generation.name in ("A1", "B0") and not _dumps(tree) else None
    )
    if generation.name == "B0" and _dumps(tree):
        target = Path(value_at(tree, "dump_config"))
        out.warning(
            "--dump-config is set. No RL training will be started. Only writing resolved subconfigs to disk."
        )
        write_parts(generation, tree, target)
        out.success(f"Config dump complete. Files written to {target}")
        return 0
    prepare_folder(generation, tree, folder, out)
    configs, logs = _config_folder(generation, folder), None
    if generation.has_attempts:
        configs, logs = attempt(folder, "rl")
    write_parts(generation, tree, configs)
    out.info(f"Wrote subconfigs to {configs}")
    if value_at(tree, "dry_run", False):
        out.success("Dry run complete. To start an RL run locally, remove --dry-run from your command.")
        return 0
    out.info("Starting RL run")
    if generation.has_attempts and value_at(tree, "dashboard", True):
        register([folder.parent])
    _check_ports(generation, tree)
    output = logs or attempt_folder(generation, folder)
    return supervised(generation, out, lambda children: _launch(children, tree, configs, output))


def write_parts(generation: Generation, tree: Tree, folder: Path) -> None:
    """The config of each process."""
    for part in PARTS:
        if tree.get(part) is not None:
            write(tree[part], folder / f"{part}{generation.config_suffix}")
    if generation.is_late:
        write_env_servers(generation, env_servers(tree["orchestrator"]), folder)


def write_env_servers(generation: Generation, servers: list[tuple[str, Tree, str]], folder: Path) -> None:
    for split, source, address in servers:
        place = folder / "envs" / split / f"{source_name(source)}.json"
        server = {"env": source.get("env", {}), "serve": {"address": address}, "log": {"level": "warn"}}
        if generation.has_attempts:
            server |= {"serve": {}, "address_file": str(place.with_suffix(".address").absolute())}
        write(server, place)


def prepare_folder(generation: Generation, tree: Tree, folder: Path, out: Printer) -> None:
    """Change the run's folder as the launchers do, also when they only resolve: they delete things there."""
    clean = bool(value_at(tree, generation.clean_key, generation.name == "A1"))
    if generation.name == "A1":
        if clean:
            for name in ("logs", "broadcasts", "rollouts"):
                if name != "broadcasts" or not value_at(tree, "ckpt.resume_step"):
                    shutil.rmtree(folder / name, ignore_errors=True)
        return
    resume = _resume_step(generation, tree, folder)
    if resume is None:
        if clean and not os.environ.get("NEVER_CLEAN" if generation.is_late else "NEVER_CLEAN_OUTPUT_DIR"):
            if folder.exists():
                out.warning(f"Cleaning existing directory: {folder}")
                shutil.rmtree(folder)
        else:
            _refuse_used(generation, folder)
    folder.mkdir(parents=True, exist_ok=True)
    own_folder = folder / generation.own_folder
    for stale in {folder / generation.batches, own_folder / generation.batches, own_folder / "broadcasts"}:
        if numbers := remove_beyond(stale, -1 if resume is None else resume):
            out.info(f"Deleting {len(numbers)} step directories in {stale} ({','.join(map(str, numbers))})")


def attempt_folder(generation: Generation, folder: Path) -> Path:
    """Folder of this launch's logs: in the last generation a new one, to which `latest` points."""
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    if not generation.is_late:
        return logs
    return _numbered(logs, 1 + max(_attempts(logs), default=0))


def attempt(folder: Path, program: str) -> tuple[Path, Path]:
    """Folders of this launch for configs and for logs, dry runs included; both or neither may be pinned."""
    pins = [os.environ.get(f"PRL_ATTEMPT_{kind}_DIR") for kind in ("CONFIG", "LOG")]
    if all(pins):
        return Path(str(pins[0])), Path(str(pins[1]))
    if any(pins):
        raise_uncaught("ValueError: PRL_ATTEMPT_CONFIG_DIR and PRL_ATTEMPT_LOG_DIR must be set together")
    kinds = (folder / "configs", folder / "logs")
    number = 1 + max((number for kind in kinds for number in _attempts(kind)), default=0)
    configs, logs = (_numbered(kind, number) for kind in kinds)
    (configs / "command.txt").write_text(f"uv run {program} @ {program}.toml\n")
    return configs / "resolved", logs


def _attempts(folder: Path) -> list[int]:
    return [int(entry.name.removeprefix("attempt_")) for entry in folder.glob("attempt_*")]


def _numbered(folder: Path, number: int) -> Path:
    """A new folder of an attempt, to which `latest` points."""
    target = folder / f"attempt_{number}"
    target.mkdir(parents=True)
    link = folder / f".{target.name}"
    link.symlink_to(target.name)
    link.replace(folder / "latest")
    return target


def trainer_command(generation: Generation, module: str, ranks: int, logs: Path, config: Path) -> list[str]:
    """torchrun, as the launchers call it."""
    below = logs.parent / "torchrun" if generation.name in ("A1", "B0") else logs / "trainer" / "torchrun"
    role = ["--role=trainer"] if generation.role == "trainer" else []
    return [
        "torchrun",
        *role,
        "--rdzv-endpoint=localhost:29400",
        f"--rdzv-id={uuid.uuid4().hex}",
        f"--log-dir={below}",
        "--local-ranks-filter=0",
        "--redirect=3",
        "--tee=3",
        f"--nproc-per-node={ranks}",
        "-m",
        module,
        "@",
        str(config),
    ]


def devices(count: int) -> list[str]:
    """The GPUs that a launcher hands out, by their real numbers; ends the process where there are too few."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible_devices = visible.split(",") if visible else [str(index) for index in range(switches().gpus)]
    if count > len(visible_devices):
        raise_uncaught(
            f"ValueError: Requested {count} GPUs via deployment settings, but only {len(visible_devices)} "
            f"physical GPU(s) are available: [{', '.join(visible_devices)}]"
        )
    return visible_devices[:count]


def _launch(children: Children, tree: Tree, configs: Path, logs: Path) -> int:
    generation, out = children.generation, children.out
    infer, train = _split(generation, tree)
    files = {part: configs / f"{part}{generation.config_suffix}" for part in PARTS}
    outputs = {part: logs / f"{part}{generation.log_suffix}" for part in PARTS}
    if tree.get("inference") is not None:
        out.info(f"Starting inference on GPU(s) {' '.join(infer)}")
        argv = ["inference", "@", str(files["inference"])]
        children.start("inference", argv, outputs["inference"], {"CUDA_VISIBLE_DEVICES": ",".join(infer)})
    if generation.is_late:
        for split, source, address in env_servers(tree["orchestrator"]):
            name = source_name(source)
            out.info(f"Starting {split} env server {name} at {address}")
            config = configs / "envs" / split / f"{name}.json"
            output = logs / "envs" / split / f"{name}.log"
            children.start(f"{split} env server {name}", ["env-server", "@", str(config)], output)
    out.info("Starting orchestrator process")
    children.start("orchestrator", ["orchestrator", "@", str(files["orchestrator"])], outputs["orchestrator"])
    out.info(f"Starting trainer on GPU(s) {' '.join(train)}")
    argv = trainer_command(generation, "prime_rl.trainer.rl.train", len(train), logs, files["trainer"])
    children.start("trainer", argv, outputs["trainer"], {"CUDA_VISIBLE_DEVICES": ",".join(train)})
    followed_program = "orchestrator" if generation.is_late else "trainer"
    out.success(f"Startup complete. Showing {followed_program} logs...")
    children.follow(outputs[followed_program])
    code = children.watch(("orchestrator", "trainer"))
    if code == 0:
        out.success("Training finished!" if generation.is_late else "RL training finished!")
    return code


def _split(generation: Generation, tree: Tree) -> tuple[list[str], list[str]]:
    """Devices of inference and trainer."""
    if generation.name == "A1":
        infer = [str(index) for index in tree.get("inference_gpu_ids") or [0]]
        return infer, [str(index) for index in tree.get("trainer_gpu_ids") or [1]]
    engines = int(value_at(tree, "deployment.num_infer_gpus", 1)) if tree.get("inference") is not None else 0
    device_ids = devices(engines + int(value_at(tree, "deployment.num_train_gpus", 1)))
    return device_ids[:engines], device_ids[engines:]


def _config_folder(generation: Generation, folder: Path) -> Path:
    place = generation.launcher_files.format(output=folder)
    return Path(place) if "{output}" in generation.launcher_files else Path(place) / uuid.uuid4().hex


def _dumps(tree: Tree) -> bool:
    return value_at(tree, "dump_config") is not None


def _resume_step(generation: Generation, tree: Tree, folder: Path) -> int | None:
    """The step to go on from, -1 turned into the newest; `None` for a run from scratch."""
    if generation.is_late:
        requested = (
            value_at(tree, "resume.step", -1) if has(tree, "resume") and tree["resume"] is not None else None
        )
    else:
        requested = value_at(tree, "ckpt.resume_step")
    if requested is None:
        return None
    return int(requested) if requested != -1 else max(steps(folder / "checkpoints"), default=None)


def _refuse_used(generation: Generation, folder: Path) -> None:
    if generation.stale_output == "checkpoints" and steps(folder / "checkpoints"):
        raise_uncaught(
            f"FileExistsError: Directory '{folder}' already contains checkpoints from a previous run. "
            "Set ckpt.resume_step=-1 or clean_output_dir=true."
        )
    launcher = ("configs", "rl.sbatch", "sft.sbatch")
    if generation.has_attempts and not any(path.is_file() for path in (folder / "logs").rglob("*")):
        launcher = ("configs", "launcher", "logs")
    entries = folder.iterdir() if generation.stale_output == "anything" and folder.exists() else ()
    if any(entry.name not in launcher for entry in entries):
        raise_uncaught(
            f"FileExistsError: Run directory '{folder}' already contains artifacts from a previous run. "
            "Pass --resume, --clean or another run.name."
        )


def _check_ports(generation: Generation, tree: Tree) -> None:
    if generation.name == "A1" or tree.get("inference") is None:
        return
    key = "model.client.base_url" if generation.is_late else "client.base_url"
    base = value_at(tree, f"orchestrator.{key}", "http://localhost:8000/v1")
    client = urlparse(base[0] if isinstance(base, list) else base).port
    server = value_at(tree, "inference.server.port", 8000)
    if client != server:
        raise_uncaught(
            f"ValueError: orchestrator.{key} port ({client}) does not match inference.server.port ({server})."
        )
