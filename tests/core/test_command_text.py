from __future__ import annotations

import pytest

from rltui.core.command_text import short_command


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
