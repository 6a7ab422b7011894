"""Which config a command line means, in rltui's words and in those of launchers."""

from __future__ import annotations

import pytest

from rltui.cli.parser import parse
from rltui.errors import UsageError


@pytest.mark.parametrize(
    ("line", "config", "parts", "overrides"),
    [
        ("up rl.toml", ["rl.toml"], [], {}),
        (
            "up rl.toml -o out -- --model.name X --wandb.project=p",
            ["rl.toml"],
            [],
            {"model.name": ("X",), "wandb.project": ("p",)},
        ),
        ("up rl.toml -- --a-b.c -1 --d -.5", ["rl.toml"], [], {"a_b.c": ("-1",), "d": ("-.5",)}),
        ("up rl.toml -- --x --no-y --l 1 2 3", ["rl.toml"], [], {"x": (), "no_y": (), "l": ("1", "2", "3")}),
        ("up @ base.toml @ over.toml --no-wait", [], [("base.toml", ""), ("over.toml", "")], {}),
        ("check base.toml @ over.toml", ["base.toml"], [("over.toml", "")], {}),
        (
            "up uv run rl @ rl.toml --model.name X -n mine --timeout 3 --max-steps=7",
            [],
            [("rl.toml", "")],
            {"model.name": ("X",), "max_steps": ("7",)},
        ),
        ("rl @ a.toml @b.toml", [], [("a.toml", ""), ("b.toml", "")], {}),
        (
            "uv run rl --trainer @ t.toml --orchestrator @ o.toml --orchestrator.client.base-url http://h:1/v1",
            [],
            [("t.toml", "trainer"), ("o.toml", "orchestrator")],
            {"orchestrator.client.base_url": ("http://h:1/v1",)},
        ),
    ],
)  # fmt: skip
def test_lines(
    line: str, config: list[str], parts: list[tuple[str, str]], overrides: dict[str, tuple[str, ...]]
) -> None:
    arguments = parse(line.split())
    assert arguments.config == config
    assert arguments.given.parts == parts
    assert arguments.given.overrides == overrides
    if "-n mine" in line:
        assert (arguments.name, arguments.timeout) == ("mine", 3.0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("up rl.toml --max-steps 5", "behind --: rl.toml -- --max-steps"),
        ("up uv run inference @ infer.toml", "rltui starts inference, orchestrator and trainer itself"),
        ("up make @ rl.toml", "write it like: rl @ rl.toml"),
        ("up rl @ rl.toml --dry-run", "rltui check validates"),
        ("up rl @", "@ needs a file"),
        ("up rl.toml -- --=3", "names no key"),
        ("up rl.toml -- -x 3", "is no option of a config"),
    ],
)
def test_what_cannot_be_understood(line: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(line.split())
    assert words in str(refused.value)
