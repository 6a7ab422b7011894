"""Scripted agents: what they say, and what it costs them to read the answers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conftest import Box

_COMMAND = re.compile(r"\brltui ((?:--host \S+ )?[a-z0-9-]+\b[^\n]*)")
_END = (",", ";", ":", ")")
MOST_FOLLOWED = 12
"""Commands that a naive agent follows before it gives up: who needs more is in a loop."""


@dataclass
class Agent:
    """Whoever has no terminal, and reads all that is printed: commands and bytes are its costs."""

    box: Box
    name: str
    commands: int = 0
    size: int = 0
    followed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.box = replace(self.box, env={**self.box.env, "RLTUI_AGENT": self.name})

    def run(
        self, *arguments: str, code: int | None = None, timeout_s: float = 180.0
    ) -> subprocess.CompletedProcess[str]:
        """`code`: the exit code that it must have."""
        result = self.box.run(*arguments, timeout_s=timeout_s)
        self.commands += 1
        self.size += len((result.stdout + result.stderr).encode())
        assert "Traceback" not in result.stderr, result
        assert code is None or result.returncode == code, result
        return result

    def json(self, *arguments: str, timeout_s: float = 180.0) -> Any:
        result = self.run(*arguments, "--json", timeout_s=timeout_s)
        return json.loads(result.stdout)

    def follow(
        self, printed: subprocess.CompletedProcess[str], fill: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run every command that was printed, and what those print, each once; the last answer.

        Where a plan was only shown, it is confirmed as the text says. `fill`: for words in capitals.
        """
        waiting, last = [printed], printed
        while waiting:
            result = waiting.pop(0)
            for arguments in [*confirmations(result), *printed_commands(result)]:
                words = [(fill or {}).get(word, word) for word in arguments]
                line = shlex.join(words)
                if line in self.followed or any(
                    re.fullmatch(r"[A-Z_]{3,}(\.\w+|…)?", word) for word in words
                ):
                    continue
                assert len(self.followed) < MOST_FOLLOWED, f"{self.name} is in a loop: {self.followed}"
                self.followed.append(line)
                last = self.run(*words)
                waiting.append(last)
        return last


def confirmations(result: subprocess.CompletedProcess[str]) -> Iterator[list[str]]:
    """The command itself, where its answer says how to confirm it."""
    if result.returncode == 2 and "add --yes" in result.stderr:
        yield [*result.args, "--yes"]


def printed_commands(result: subprocess.CompletedProcess[str]) -> Iterator[list[str]]:
    """Commands in what rltui itself says, none in what a model wrote, which is indented."""
    has_texts = result.args[0] == "rollouts"
    for line in (result.stdout + "\n" + result.stderr).splitlines():
        if (has_texts and line.startswith("    ")) or "--help" in line:
            continue
        if match := _COMMAND.search(line):  # others in a line are alternatives to the first
            words: list[str] = []
            for word in shlex.split(re.split(r" · | \(", match[1])[0]):
                words.append(word.rstrip(",;:)."))
                if word.endswith(_END):
                    break
            yield words
