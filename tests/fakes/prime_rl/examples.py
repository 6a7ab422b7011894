"""Small configs of every generation, on ports of their own, that the stand-ins run through in seconds."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.prime_rl.generation import GENERATIONS, Name

_DATA = Path(__file__).parents[2] / "data" / "prime_rl"


@dataclass(frozen=True, slots=True)
class Ports:
    """Free ones; which program needs which depends on the generation."""

    server: int
    engine: int
    weights: int
    batches: int
    """The port behind it is used as well, for READY."""
    env: int


def free_ports() -> Ports:
    """Chosen by the kernel; so are the successor of `batches` and the router's port for its metrics."""
    with ExitStack() as stack:

        def free(number: int = 0) -> int:
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", number))
            return int(probe.getsockname()[1])

        def free_pair(above: int) -> int:
            while True:
                first = free()
                try:
                    free(first + above)
                except (OSError, OverflowError):
                    continue
                return first

        return Ports(free_pair(21_000), free(), free(), free_pair(1), free())


def write_example(
    folder: Path, generation: Name, ports: Ports, *, max_steps: int, interval: int
) -> list[Path]:
    """The files that a person would have: reverse-text with checkpoints every `interval` steps."""
    url = f"http://localhost:{ports.server}/v1"
    if generation == "A1":
        ckpt = f"\n[ckpt]\ninterval = {interval}\n"
        extra_lines = {
            "train.toml": ckpt,
            "orch.toml": f'{ckpt}\n[client]\nbase_url = ["{url}"]\n',
            "infer.toml": f"\n[server]\nport = {ports.server}\n",
        }
        return [
            _write(folder / name, _text(f"era_a/{name}", max_steps) + more)
            for name, more in extra_lines.items()
        ]
    late = GENERATIONS[generation].is_late
    text = _text(f"era_{generation.lower()}/rl.toml" if late else "era_b/rl.toml", max_steps)
    text = text.replace("[ckpt] # Checkpoint at the end of training", f"[ckpt]\ninterval = {interval}")
    if late:
        text = text.replace("[inference]", f"[inference]\nbackend_port = {ports.engine}")
        if generation == "C":
            text = text.replace("[orchestrator]", f"[orchestrator]\nenv_server_base_port = {ports.env}")
        text = text.replace("\ninterval = 10\nkeep_last = 2", f"\ninterval = {interval}")
        text += f'\n[orchestrator.model.client]\nbase_url = "{url}"\n'
        text += f'\n[weight_broadcast]\ntype = "nccl"\nport = {ports.weights}\n'
        text += f'\n[rollout_transport]\ntype = "zmq"\nport = {ports.batches}\n'
    else:
        text += f'\n\n[orchestrator.client]\nbase_url = ["{url}"]\n'
    return [_write(folder / "rl.toml", f"{text}\n[inference.server]\nport = {ports.server}\n")]


def write_evaluated_sft(
    folder: Path, generation: Name, ports: Ports, *, max_steps: int, interval: int, every: int
) -> Path:
    """Write SFT with a server and evaluations every so many steps, which the last generations have."""
    text = _text("era_c/sft.toml", max_steps)
    text = text.replace("[ckpt] # Checkpoint at the end of training", f"[ckpt]\ninterval = {interval}")
    text = text.replace("interval = 25", f"interval = {every}")
    if generation == "D":
        text = text.replace("num_examples = 32", "").replace(
            "[eval.sampling]", "[eval.select]\nlimit = 32\n\n[eval.sampling]"
        )
    else:
        text = text.replace("num_examples = 32", f"env_server_base_port = {ports.env}")
    text = text.replace("[inference]", f"[inference]\nbackend_port = {ports.engine}")
    text += f"\n[inference.server]\nport = {ports.server}\n\n[weight_broadcast]\nport = {ports.weights}\n"
    return _write(folder / "sft.toml", text + 'type = "nccl"\n')


def write_sft_example(folder: Path, generation: Name, *, max_steps: int, interval: int) -> Path:
    """Write the example without the evals of the last generation, which would need a server."""
    text = _text("era_b/sft.toml", max_steps)
    text = text.replace("[ckpt] # Checkpoint at the end of training", f"[ckpt]\ninterval = {interval}")
    if GENERATIONS[generation].is_late:
        text += "\n[deployment]\nnum_train_gpus = 1\n"
    return _write(folder / "sft.toml", text)


def _text(name: str, max_steps: int) -> str:
    lines = (_DATA / name).read_text().splitlines()
    return "\n".join(f"max_steps = {max_steps}" if line.startswith("max_steps") else line for line in lines)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path
