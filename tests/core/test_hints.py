"""Every command that a message advises parses; none stands in a message but by the registry."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

import rltui
from rltui.cli.parser import parse
from rltui.core import hints
from rltui.core.command_list import SENTENCES
from rltui.core.hints import Hint

SOURCE = Path(rltui.__file__).parent
ALL = {name: value for name, value in vars(hints).items() if isinstance(value, Hint)}
SAMPLES: dict[str, object] = {
    "answer": ["events", "demo"],
    "step": 40,
    "words": ["trainer.optim.lr=1e-6", "--unset", "seed"],
    "components": ["trainer", "orchestrator"],
    "configs": ["rl.toml"],
    "lines": 30,
    "way": "tokens",
    "id": 3,
    "command": "status",
    "kind": "prime-rl",
}
"""By placeholder; any other has the word `demo`."""
FOR_THE_READER = {
    "STEP": "40",
    "N": "40",
    "N|none": "3",
    "KEY=VALUE…": "seed=1",
    "PID": "4711",
    "NAME…": "reward",
}
"""What tests fill in for words in capitals that must be of a kind."""
ELSEWHERE = {
    "cli/commands/man.py": "the synopsis of the manual",
    "hosts/shim/program.py": "the shim imports the standard library alone",
    "services/tmux.py": "tmux fills the name in",
    "views/queue_entry.py": "the command that was queued, not advice",
}
"""Where a message names a command without the registry, and why. Help and usage texts are left out, too."""
OF_HELP = {
    "cli/arguments.py",
    "core/command_list.py",
    "cli/global_options.py",
    "cli/overview.py",
    "cli/queue_requests.py",
}
"""Files whose texts are those of help, but those of errors."""
COMMAND = re.compile(r"\brltui\s+(?:--host \S+ )?([a-z0-9-]+)")


def samples(hint: Hint) -> dict[str, object]:
    return {name: SAMPLES.get(name, "demo") for name in re.findall(r"\{(\w+)\}", hint.command)}


def parsed(line: str) -> str:
    """The handler of a command line; of one for another machine, of what runs there."""
    words = [FOR_THE_READER.get(word, word) for word in shlex.split(line.replace("[", "").replace("]", ""))]
    assert words.pop(0) == "rltui"
    if words[0] == "--host":
        del words[:2]
    if words[-1:] == ["--help"] or not words:
        return "help"
    return str(parse(words).handler)


@pytest.mark.parametrize("name", ALL)
def test_every_hint_parses(name: str, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_user)
    hint = ALL[name]
    optional = set(re.findall(r"\{(\w+)\}", "".join(re.findall(r"\[.*?\]", hint.command))))
    bare = {key: None if key in optional else value for key, value in samples(hint).items()}
    for values in (samples(hint), bare):
        assert parsed(hint(**values))


def test_values_are_quoted_and_options_left_out() -> None:
    hint = Hint("x", "set {words} --from {step} [-n {name}]")
    assert hint(words=["a=b  c", "--unset", "d"], step=3) == "rltui set 'a=b  c' --unset d --from 3"
    assert hint(words="a=1", step=3, name="one two") == "rltui set a=1 --from 3 -n 'one two'"
    assert str(Hint("x", "status [{name}]")) == "rltui status"
    with pytest.raises(KeyError):
        hint(step=3)


@pytest.mark.parametrize(
    ("run", "host", "line"),
    [
        ("hot", None, "rltui hot"),
        ("gpus", None, "rltui open gpus"),
        ("demo", "box", "rltui --host box open demo"),
        ("open", None, "rltui open open"),
        ("add", None, "rltui add"),
    ],
)
def test_a_run_named_like_a_command_is_opened(run: str, host: str | None, line: str) -> None:
    assert hints.OPEN(opened=run, host=host) == line


def test_a_run_named_like_a_verb_stands_behind_a_verb() -> None:
    assert hints.EVENTS(name="adder") == "rltui events adder"
    assert hints.EVENTS(name="add") == "rltui events list add"
    assert hints.CHECKPOINTS(name="use") == "rltui checkpoints list use"
    assert hints.STATUS(name="add") == "rltui status add"


def test_states_are_ids_and_every_hint_is_used() -> None:
    names_used = {"UNDO_AND_GO_BACK", "SET_AND_GO_BACK", "GO_BACK"}  # by `way_back`
    for path in SOURCE.rglob("*.py"):
        names_used |= set(re.findall(r"\bhints\.([A-Z0-9_]+)", path.read_text()))
    assert sorted(set(ALL) - names_used) == [], "advised nowhere"
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", hint.state) for hint in ALL.values())


def literals(path: Path) -> list[tuple[int, str]]:
    """Line and text of each string that may be shown: without docstrings and declarations of commands, and of
    files of help those of errors.
    """
    source = path.read_text()
    if not re.search(r"\brltui\s|\{hints\.", source):
        return []
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    if str(path.relative_to(SOURCE)) in OF_HELP:
        nodes = [inner for node in nodes if isinstance(node, ast.Raise) for inner in ast.walk(node)]
    else:
        functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
        calls = [call for node in functions for call in node.decorator_list]
        if "cli/commands" in str(path):
            calls += [node.value for node in tree.body if isinstance(node, ast.Assign)]
        declared = {id(inner) for call in calls for inner in ast.walk(call)}
        nodes = [node for node in nodes if id(node) not in declared]
    result = []
    for node in nodes:
        if id(node) in docstrings | parts:
            continue
        if isinstance(node, ast.JoinedStr):
            pieces = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            result.append((node.lineno, "".join(map(str, pieces))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            result.append((node.lineno, node.value))
    return result


def test_no_message_spells_a_command_out() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        if name in ELSEWHERE:
            continue
        for line, text in literals(path):
            if any(word in SENTENCES for word in COMMAND.findall(text)):
                wrong.append(f"{name}:{line}: {text}: use a value of core/hints.py")
            if "{hints." in text:
                wrong.append(f"{name}:{line}: {text}: the f before it is missing")
    assert not wrong, "\n".join(wrong)
