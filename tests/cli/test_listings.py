"""Every command that lists something: as wide as the terminal, whole in a pipe, in ASCII if need be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run

from rltui.cli import main
from rltui.cli.table import width_of

LISTINGS = (
    ("status",),
    ("status", "one-of-the-longer-names-that-people-give"),
    ("runs",),
    ("runs", "--columns", "name,state,step,reward,age,tags,folder,framework"),
    ("knobs", "two", "-v"),
    ("events", "two"),
    ("logs", "two"),
    ("metrics", "two"),
    ("checkpoints", "two"),
    ("eval", "two"),
    ("gpus", "orphans", "two"),
    ("queue",),
    (
        "runs",
        "trash",
    ),
    (
        "runs",
        "tag",
    ),
    ("init", "--list"),
    ("doctor",),
    ("gpus",),
    ("help",),
    ("help", "start"),
)
WITH_SENTENCES = {"queue", "trash", "help", "checkpoints", "metrics", "eval"}
"""They say something besides, which terminals wrap as any text."""


@pytest.fixture
def place(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, with what they left."""
    for name in ("one-of-the-longer-names-that-people-give", "two"):
        record = write_finished_run(tmp_path / "out" / name, steps=12)
        control = record.control
        with control.journal_file.open("a") as file:
            file.write(
                '{"at": 1.8e9, "kind": "note", "text": "größe ● → a note that goes on and on and on"}\n'
            )
    monkeypatch.chdir(tmp_path)
    main(["runs", "tag", "two", "+baseline"])
    return tmp_path


@pytest.mark.parametrize("width", [40, 80])
def test_nothing_is_wider_than_the_terminal(
    place: Path, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    capsys.readouterr()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.which", lambda _: None)  # a pager would take the manual
    for words in LISTINGS:
        assert main([*words, "--no-color"]) in (0, 1), words
        lines = capsys.readouterr().out.splitlines()
        if words[0] not in WITH_SENTENCES and "orphans" not in words:
            assert max(map(width_of, lines), default=0) <= width, (words, max(lines, key=width_of))


def test_a_pipe_gets_all_of_it_in_plain_words(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for words in LISTINGS:
        main([*words])
        told = capsys.readouterr().out
        assert "\x1b" not in told
        assert words[0] in ("knobs", "help", "runs") or "…" not in told, (words, told)
    main(["status"])
    newest, _, table = capsys.readouterr().out.partition("\n\n")
    assert newest.startswith("one-of-the-longer-names-that-people-give · ")
    head, *rows = table.splitlines()
    assert head.split() == ["NAME", "STATE", "STEP", "REWARD", "AGE", "FRAMEWORK", "OUTPUT", "FOLDER"]
    assert {row.split()[0] for row in rows} == {"two"}
    assert all(row.endswith(row.split()[0]) for row in rows), "the folder is told whole"


def test_ascii_is_enough(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for words in LISTINGS:
        main([*words, "--ascii", "--color=always"])
        told = capsys.readouterr()
        assert (told.out + told.err).isascii(), words
        assert "\\u" not in told.out, words
        assert "?" not in told.out.replace("what?", "").replace("[?", "").replace("`?`", "") or words[0] in (
            "help",
            "runs",
        ), (words, told.out)


def test_a_locale_without_utf8_gets_ascii(place: Path) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    for more in ({}, {"PYTHONIOENCODING": "ascii"}):
        done = subprocess.run(
            [sys.executable, "-m", "rltui", "events", "two"],
            env={**env, **more},
            capture_output=True,
            check=True,
        )
        assert b"grosse * -> a note" in done.stdout
