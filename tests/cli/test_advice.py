"""The commands that a message advises, where there are several runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.fakes.past_run import write_finished_run


@pytest.mark.parametrize(
    ("words", "code", "advice"),
    [
        (["logs", "asked", "-f"], 2, "rltui logs asked -c COMPONENT"),
        (["logs", "asked", "--grep", "x", "-f"], 2, "rltui logs asked -c COMPONENT"),
        (["attach", "asked"], 2, "rltui attach asked -c COMPONENT"),
        (["diff", "asked", *("-c", "trainer") * 3], 2, "rltui diff asked -c trainer#1 -c trainer#2"),
        (["metrics", "asked", "nosuch"], 2, "`rltui metrics asked --all` lists"),
        (["metrics", "asked", "("], 2, "`rltui metrics asked --all` lists"),
        (["set", "asked"], 2, "rltui set asked KEY=VALUE…"),
        (["eval", "asked"], 0, "rltui eval run asked --base, or rltui eval run asked --now"),
        (["eval", "compare", "asked"], 2, "rltui eval list asked"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_it_names_the_run_that_the_command_was_about(
    own_user: Path, tmp_path: Path, cli: CommandLine, words: list[str], code: int, advice: str
) -> None:
    for name in ("asked", "newer"):
        write_finished_run(tmp_path / name)
    assert advice in cli(*words, code=code)
