from __future__ import annotations

import tomllib

import pytest

from rltui.frameworks.base import ConfigFile
from rltui.frameworks.grammar import Grammar, key_problems

GRAMMAR = Grammar(
    "the trainer",
    known=("steps", "model.name", "optim.lr", "env[].id", "env[].name"),
    free=("env[].args", "extra"),
    tables=("ckpt",),
    unread=("optim",),
    renamed={"group_size": "say rollouts_per_example", "*.keep": "say keep_last", "vllm": "say model"},
    dated={"micro": "went away in October 2025"},
)


def problems(text: str) -> list[tuple[str, str | None, str]]:
    file = ConfigFile("rl", "/rl.toml", tomllib.loads(text))
    return [(found.severity, found.key, found.message) for found in key_problems(file, GRAMMAR)]


@pytest.mark.parametrize(
    "text",
    [
        "steps = 1\nmodel.name = 'm'\noptim.lr = 1\n",
        "[ckpt]\n",
        "[extra.a]\nb = 1\n",
        "[[env]]\nid = 'x'\nargs = { anything = { below = 1 } }\n",
    ],
)
def test_known_keys_pass(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "severity", "key", "message"),
    [
        ("setps = 1", "error", "setps", "unknown key setps: did you mean steps?"),
        ("lr = 1", "error", "lr", "unknown key lr: did you mean optim.lr?"),
        ("zz = 1", "error", "zz", "unknown key zz: the trainer does not know it"),
        ("steps = { a = 1 }", "error", "steps", "steps must be one value, not a table"),
        ("model = 5", "error", "model", "model must be a table, not 5"),
        ("env = 'x'", "error", "env", "env must be a list of tables: write [[env]]"),
        ("[[env]]\n[[env]]\nidd = 1", "error", "env.1.idd", "unknown key env.1.idd: did you mean env.id?"),
        ("optim.lrr = 1", "warning", "optim.lrr", ("optim.lrr is ignored without a word: "
         "did you mean optim.lr?")),
        ("group_size = 8", "error", "group_size", "unknown key group_size: say rollouts_per_example"),
        ("ckpt.keep = 8", "error", "ckpt.keep", "unknown key ckpt.keep: say keep_last"),
        ("micro = 8", "warning", "micro", "micro went away in October 2025"),
        ("[vllm]\nseed = 1", "error", "vllm", "unknown key vllm: say model"),
        ("ckpt = 1", "error", "ckpt", "ckpt must be a table, not 1"),
        ('model."a.b" = 1', "error", 'model."a.b"', 'unknown key model."a.b": the trainer does not know it'),
    ],
)  # fmt: skip
def test_other_keys_are_told(text: str, severity: str, key: str, message: str) -> None:
    assert problems(text) == [(severity, key, message)]
