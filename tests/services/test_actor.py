"""Who acts, by the environment of real processes and their ancestors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rltui.base.interpreter import AGENT_MARKS
from rltui.core.experiment.actor import Actor
from rltui.services.actor import acting_as, actor, introduce

_SAY = "from rltui.services.actor import actor; print(actor().to_json().decode())"
_SAY_BY_CHILD = (
    f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_SAY!r}], env={{}}, check=True)"
)


@pytest.fixture(autouse=True)
def as_a_person(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in AGENT_MARKS:
        monkeypatch.delenv(name, raising=False)
    yield
    introduce("cli")


def said(code: str = _SAY, **variables: str) -> Actor:
    kept = {name: value for name, value in os.environ.items() if name != "SSH_CONNECTION"}
    output = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **variables}, capture_output=True, check=True,
        stdin=subprocess.DEVNULL,
    ).stdout  # fmt: skip
    return Actor.from_json(output)


@pytest.mark.parametrize(
    ("variables", "kind", "name"),
    [
        ({}, "cli", ""),
        ({"RLTUI_ACTOR": "Ada L"}, "cli", "Ada-L"),
        ({"RLTUI_AGENT": "night-1", "RLTUI_ACTOR": "ada"}, "agent", "night-1"),
        ({"CLAUDECODE": "1"}, "agent", "claude-code"),
        ({"CLAUDECODE": "1", "RLTUI_ACTOR": "ada"}, "agent", "ada"),
        ({"AI_AGENT": "goose"}, "agent", "goose"),
        ({"AGENT": "1"}, "agent", "agent"),
        ({"AGENT": "0", "CODEX_THREAD_ID": ""}, "cli", ""),
        ({"CODEX_THREAD_ID": "0199-ab"}, "agent", "codex"),
    ],
)  # fmt: skip
def test_a_process_is_an_agents_by_its_variables(
    variables: dict[str, str], kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert (actor().kind, actor().name) == (kind, name)


def test_a_child_without_the_variables_is_the_agents_all_the_same() -> None:
    assert said(_SAY_BY_CHILD, RLTUI_AGENT="night-1").short == "agent night-1"
    renamed = _SAY_BY_CHILD.replace("env={}", "env={'RLTUI_AGENT': 'other'}")
    assert said(renamed, RLTUI_AGENT="night-1").name == "night-1"


def test_the_request_in_hand_counts_before_the_process() -> None:
    night = Actor(kind="agent", user="ada", name="night-1", pid=7)
    with acting_as(night):
        assert actor() is night
        with acting_as(None):
            assert actor().pid == os.getpid()
    introduce("tui")
    assert actor().kind == "tui"


def test_in_words() -> None:
    ada = Actor(kind="tui", user="ada", pid=7, terminal="pts/3", ssh="10.0.0.5")
    assert ada.text == "ada, pid 7 on pts/3 from 10.0.0.5"
    assert ada.replace(name="Ada").text == "Ada (ada, pid 7 on pts/3 from 10.0.0.5)"
    night = ada.replace(kind="agent", name="night-1")
    assert (night.text, night.short) == ("agent night-1 (ada, pid 7)", "agent night-1")
