"""Names of frameworks and engines: `frameworks/` knows them, and everything else asks there.

Prose may name them; identifiers and texts may not, but for the places below.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rltui

PACKAGE = Path(rltui.__file__).parent
NAME = re.compile(r"prime.?rl|verifiers|vf.?rl|vf.?eval|medarc|vllm", re.IGNORECASE)
HOMES = ("frameworks", "tinyrl")
"""Folders that know them: the frameworks themselves, and the embedded engine, a program of its own."""
EXCEPTIONS = {
    "cli/arguments.py": "help text: ids to choose from, as an example",
    "core/command_list.py": "help text: what a command is for; listed before anything is imported",
    "cli/commands/convert.py": "example of a command line",
    "cli/commands/init.py": "names of the workspaces in examples/, which are chosen by framework",
    "cli/commands/runs/add.py": "help text: results of which program it takes",
    "cli/commands/trust.py": "example of a command line",
    "cli/manual.py": "help text: variables of the environment that name checkouts",
    "core/hints.py": "command lines that texts advise; each is parsed by a test",
    "core/metrics/names.py": "the table of metrics: names of series as programs and files of runs have them",
    "core/runs/queue.py": "prefixes of variables that a queue's entry keeps, whoever reads them",
}
"""Module → why it may."""


def names_in(path: Path) -> Iterator[str]:
    """The identifiers and texts of a module, without docstrings, that have such a name."""
    source = path.read_text()
    if not NAME.search(source):
        return
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() | bytes() as value) if id(node) not in prose:
                text = value if isinstance(value, str) else value.decode(errors="replace")
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                pass
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                pass
            case ast.alias(name=text) | ast.keyword(arg=str(text)):
                pass
            case _:
                continue
        if NAME.search(text):
            yield f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', '?')}: {text[:60]}"


def modules() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(tuple(f"{home}/" for home in HOMES)):
            yield name


def test_only_frameworks_name_frameworks_and_engines() -> None:
    found = [hit for name in modules() if name not in EXCEPTIONS for hit in names_in(PACKAGE / name)]
    assert not found, "ask frameworks/ for it, or list the module with its reason:\n" + "\n".join(found)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_still_one(name: str) -> None:
    assert any(names_in(PACKAGE / name)), f"{name} names none any more"


def test_no_module_is_called_like_one() -> None:
    assert not [name for name in modules() if NAME.search(name)]
