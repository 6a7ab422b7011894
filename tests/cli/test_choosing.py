"""Which run and components a command line means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from rltui.cli import choosing
from rltui.cli.arguments import COMPONENT, JSON, RUN
from rltui.cli.command import Arguments, Command, argument, flag
from rltui.cli.output import print_json
from rltui.client import launch
from rltui.errors import RltuiError, UsageError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord

WORDS = argument("word", "WORD", "a word", nargs="*")
LOOK = Command("look", "look", lambda _: 0, (RUN, WORDS, COMPONENT, flag("-f --follow", "follow"), JSON))
PLAIN = Command("plain", "without components", lambda _: 0, (RUN, JSON))


def _parse(words: Sequence[str], command: Command = LOOK) -> Arguments:
    arguments, unknown = command.parse([*words], Arguments())
    assert not unknown
    return arguments


def _target(*words: str, acts: bool = False) -> tuple[str, tuple[str, ...]]:
    target = choosing.choose(_parse(words), acts=acts)
    return target.record.name, target.components


@pytest.fixture
def place(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace `a` with the run `old`, and `b` with `new` and `newest`."""
    layout = tmp_path / "layout.toml"
    layout.write_text('framework = "generic"\n[[component]]\nid = "trainer"\ncommand = ["true"]\n')
    for age, (name, workspace) in enumerate((("old", "a"), ("new", "b"), ("newest", "b"))):
        folder = tmp_path / workspace
        folder.mkdir(exist_ok=True)
        record = ExperimentRecord(
            name, str(folder / name), str(folder), (), str(layout), "generic", float(age)
        )
        control = ControlFolder(folder / name)
        control.make()
        control.write_record(record)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _all_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "running_experiments", lambda records: [*records])


def test_without_a_name_it_is_the_run_of_this_folder_else_the_newest(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def chosen(folder: Path, *, acts: bool = False) -> tuple[str, str]:
        monkeypatch.chdir(folder)
        return _target(acts=acts)[0], capsys.readouterr().err

    assert chosen(place) == ("newest", "newest: the newest of 3 runs; none is running\n")
    assert chosen(place / "a") == ("old", "")
    assert chosen(place / "b", acts=True) == (
        "newest", "newest: the newest of 2 runs of this folder; none is running\n"
    )  # fmt: skip
    assert chosen(place / "b/new", acts=True) == ("new", "")

    _all_live(monkeypatch)
    assert chosen(place / "b/new", acts=True) == ("new", "")
    assert chosen(place / "a", acts=True) == ("old", "")
    with pytest.raises(UsageError) as raised:
        chosen(place / "b", acts=True)
    assert str(raised.value) == "2 runs are running: newest and new\n→ name one: rltui look newest"


@pytest.mark.parametrize(
    ("words", "name", "components"),
    [
        ("old", "old", ()),
        ("ol/trainer", "old", ("trainer",)),
        ("old/trainer#2 -c inference", "old", ("trainer#2", "inference")),
        ("-c trainer -c inference old", "old", ("trainer", "inference")),
        ("a/old", "old", ()),
        ("a/old/trainer", "old", ("trainer",)),
        ("./a/old/.rltui", "old", ()),
        ("-1", "newest", ()),
        ("-2/trainer", "new", ("trainer",)),
    ],
)
def test_the_first_argument_and_c_name_run_and_components(
    place: Path, words: str, name: str, components: tuple[str, ...]
) -> None:
    assert _target(*words.split()) == (name, components)


@pytest.mark.parametrize(
    ("command", "words", "text"),
    [
        (LOOK, "trainer", "trainer is a component, not a run\n→ rltui look -c trainer"),
        (LOOK, "ne", "ne is ambiguous: newest or new\n→ type more of the name"),
        (LOOK, "nothing/trainer", "run not found: nothing\n→ available: newest, new and old"),
        (PLAIN, "old/trainer", "plain takes a run, not a component\n→ rltui plain old"),
        (PLAIN, "trainer", "run not found: trainer\n→ available: newest, new and old"),
    ],
)
def test_an_error_has_the_right_line(place: Path, command: Command, words: str, text: str) -> None:
    with pytest.raises(UsageError) as raised:
        choosing.choose(_parse(words.split(), command))
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("words", "run", "others"),
    [
        ("old reward loss", "old", ["reward", "loss"]),
        ("ol reward", None, ["ol", "reward"]),  # a prefix may be a word
        ("-1 reward", "-1", ["reward"]),
        ("@best", "@best", []),
        ("a/old/.rltui reward", "a/old/.rltui", ["reward"]),
        ("old/trainer --json reward", "old/trainer", ["reward"]),
        ("reward/mean", None, ["reward/mean"]),
        ("", None, []),
    ],
)
def test_a_first_word_that_names_no_run_is_one_of_the_others(
    place: Path, words: str, run: str | None, others: list[str]
) -> None:
    arguments = _parse(words.split())
    choosing.separate_words(arguments, "word")
    assert (arguments.run, arguments.word) == (run, others)


def test_what_looks_shows_all_that_live(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _all_live(monkeypatch)

    def look(words: str) -> tuple[int, str, str]:
        arguments = _parse(words.split())

        def show(target: choosing.Target) -> int:
            if target.record.name == "new":
                raise RltuiError("no metrics yet")
            if arguments.json:
                print_json({"step": 1} if target.record.name == "old" else [1])
            else:
                print("step 1")
            return 5 if target.record.name == "old" else 0

        return choosing.show_runs(arguments, show), *capsys.readouterr()

    assert look("") == (1, "newest\nstep 1\n\nnew\n\nold\nstep 1\n", "new: no metrics yet\n")
    assert look("newest") == (0, "step 1\n", "")
    code, out, _ = look("--json")
    assert json.loads(out) == {
        "runs": [
            {"experiment": "newest", "items": [1]},
            {
                "experiment": "new",
                "error": {"code": "error", "title": "no metrics yet", "details": [], "hint": ""},
            },
            {"experiment": "old", "step": 1},
        ]
    }
    assert code == 1
    with pytest.raises(UsageError, match="3 runs are running: newest, new and old"):
        look("-f")


def test_an_attempt_is_a_number_from_1() -> None:
    assert choosing.attempt_of("trainer#12") == ("trainer", 12)
    assert choosing.attempt_of("trainer") == ("trainer", None)
    for word in ("trainer#", "trainer#0", "trainer#x"):
        with pytest.raises(UsageError, match="not an attempt"):
            choosing.attempt_of(word)
