"""A model folder small enough for any test, and programs that are gone when the test is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from rltui.tinyrl.language import VOCAB_SIZE, write_tokenizer
from rltui.tinyrl.model import Architecture, CausalModel, write_model_files

torch.set_num_threads(1)

Start = Callable[..., "subprocess.Popen[str]"]

TINY_SHAPE = Architecture(
    vocab_size=VOCAB_SIZE,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    max_position_embeddings=128,
)


def write_tiny_model(folder: Path, seed: int) -> CausalModel:
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    model = CausalModel(TINY_SHAPE)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    write_tokenizer(folder)
    write_model_files(model, folder, end_token_id=1, pad_token_id=0)
    return model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_tiny_model(folder, seed=0)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_program(words: list[str], log: Path, cwd: Path) -> subprocess.Popen[str]:
    """Run `python -m rltui.tinyrl …` with all its output in `log`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with log.open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "rltui.tinyrl", *words],
            stdout=output, stderr=subprocess.STDOUT, cwd=cwd, env=environment, text=True,
        )  # fmt: skip


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts programs in the test's folder; their logs are `<program>.log`, or the given name."""
    started: list[subprocess.Popen[str]] = []

    def start_here(*words: str, log: str | None = None) -> subprocess.Popen[str]:
        started.append(start_program(list(words), tmp_path / f"{log or words[0]}.log", tmp_path))
        return started[-1]

    yield start_here
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
