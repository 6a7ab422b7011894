from __future__ import annotations

import pytest

from rltui.core.command_text import short_command, ssh_host


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/venv/bin/python3 -I /work/tests/family.py out/pids", "python3 -I family.py out/pids"),
        ("VLLM::EngineCore", "VLLM::EngineCore"),
        ("/usr/bin/vllm serve https://host/a/b /", "vllm serve https://host/a/b /"),
        ("python " + "x" * 60, "python " + "x" * 32 + "…"),
        ("python\x1b[31m -c\n1", "python [31m -c 1"),
        ("", ""),
    ],
)  # fmt: skip
def test_short_command(command: str, words: str) -> None:
    assert short_command(command) == words


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("ssh node7 nvidia-smi", "node7"),
        ("/usr/bin/ssh -tt -o BatchMode=yes -p 22 -i key ada@node7 run -p 1", "ada@node7"),
        ("ssh -p22 node7", "node7"),
        ("ssh", None),
        ("sshd node7", None),
        ("python train.py", None),
        ("", None),
    ],
)
def test_the_machine_that_an_ssh_command_runs_on(command: str, host: str | None) -> None:
    assert ssh_host(command.split()) == host
