"""Keys that a person has chosen: what is taken, what is refused, and that everything tells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from tests.fakes.experiment import FakeExperiment, stopped_status
from tests.ui.conftest import Opener, press, said, screen_text, until
from textual.pilot import Pilot

from rltui import paths, settings
from rltui.cli.app import load_keys
from rltui.cli.arguments import KEYMAP
from rltui.errors import ConfigError
from rltui.ui import actions, keymap
from rltui.ui.actions import ACTIONS, KeyContext, key_of
from rltui.ui.dialogs.help import all_rows
from rltui.ui.key_names import typed_key, written
from rltui.ui.keymap import idle_key, presets
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.bars import footer_entries

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def the_usual_keys_afterwards() -> Iterator[None]:
    yield
    actions.remap({})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def refusal(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        keymap.load(path)
    assert caught.value.exit_code == 3
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("?", "question_mark"),
        ("J", "J"),
        ("+", "plus"),
        ("esc", "escape"),
        ("PgDn", "pagedown"),
        ("Ctrl+R", "ctrl+r"),
        ("shift+↑", "shift+up"),
        ("ö", "ö"),
    ],
)
def test_keys_are_taken_as_people_write_them(text: str, name: str) -> None:
    assert typed_key(text) == name


@pytest.mark.parametrize("text", ["", "ctrl+", "strg+x", "alt+x", "ctrl+i", "shift+j", "jj"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"key|terminals|character"):
        typed_key(text)


def test_every_key_of_the_table_can_be_written() -> None:
    for action in ACTIONS:
        assert ",".join(map(typed_key, written(action.default_keys))) == action.default_keys, action.id


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", {}),
        ("sort = '>'", {}),
        ("log.wrap = 'ctrl+l'", {"log.wrap": "ctrl+l"}),
        ("'sort.back' = []", {"sort.back": ""}),
        ("filter = ['f', 'F5']", {"filter": "f,f5"}),
        ("sort = 's'\n'component.start' = 'ctrl+o'", {"sort": "s", "component.start": "ctrl+o"}),
        ("'chart.smooth' = 's'", {"chart.smooth": "s"}),
    ],
    ids=["nothing", "as it is", "another", "none", "several", "free again", "never on one screen"],
)
def test_chosen_keys_are_those_that_differ(path: Path, text: str, keys: dict[str, str]) -> None:
    path.write_text(f"[keys]\n{text}\n")
    assert keymap.load(path) == keys


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '[keys]\nsort = "s"\n',
            (":2:1: keys.sort: s is taken by start (component.start) on the checkpoint screen"),
        ),
        (
            '[keys]\nlog.wrap = "x"\n',
            (":2:1: keys.log.wrap: x is taken by stop (component.stop) on the overview"),
        ),
        (
            '[keys]\ntheme = "ctrl+o"\nzoom = "ctrl+o"\n',
            ":3:1: keys.zoom: ctrl+o is taken by theme (theme) on the overview",
        ),
        ("[keys]\nsorted = 's'\n", ":2:1: keys.sorted: unknown action; did you mean sort?"),
        ("[keys]\nsort = ['>', 'meta+s']\n", ":2:1: keys.sort: not a key: meta+s. Write it as ?, J, ctrl+r"),
        ("[keys]\nsort = 7\n", ":2:1: keys.sort: input should be a valid tuple"),
        ("keymap = 'emacs'\n", ":1:1: keymap: input should be '', 'vim' or 'k9s'"),
    ],
)
def test_a_fault_names_file_line_and_both_actions(path: Path, text: str, fault: str) -> None:
    told = refusal(path, text)
    assert told.startswith(f"{path}{fault}")
    assert "until then the" in told


def test_presets_are_whole_and_known_to_all(path: Path) -> None:
    names = get_args(settings.Settings.model_fields["keymap"].annotation)
    assert set(names) == {"", *presets()} == {"", *KEYMAP.choices}
    for name in presets():
        assert keymap.load(path, name)
    assert keymap.load(path, "vim")["cursor.down"] == "down,j"
    with pytest.raises(ConfigError, match=r"unknown keymap: ed\n→ keymaps: k9s, vim"):
        keymap.load(path, "ed")


def test_a_fault_of_a_preset_needs_no_settings_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keymap, "presets", lambda: {"twice": {"component.kill": ["s"]}})
    with pytest.raises(ConfigError) as caught:
        keymap.load(path, "twice")
    assert str(caught.value).startswith(f"{path}: keys.component.kill: ")


def test_the_settings_come_over_the_preset_and_the_option_over_theirs(path: Path) -> None:
    path.write_text('keymap = "k9s"\n[keys]\nmark = "m"\n')
    keys = keymap.load(path)
    assert keys["remove"] == "ctrl+d,delete,backspace"
    assert "mark" not in keys, "the usual one again"
    assert keymap.load(path, "vim").keys() == {*presets()["vim"]}


def test_what_people_are_shown_to_write_is_taken(path: Path) -> None:
    """The examples of the settings, and of the page about keys."""
    example = (REPOSITORY / "examples/settings.toml").read_text()
    keys = re.search(r"^\[keys\]\n((?:#.*\n)+)", example, re.MULTILINE)
    assert keys is not None
    path.write_text(f"[keys]\n{keys[1].replace('# ', '')}")
    for preset in ("", *presets()):
        assert keymap.load(path, preset)
    page = (REPOSITORY / "examples/keys-and-looks/README.md").read_text()
    (shown,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path.write_text(shown)
    assert keymap.load(path)["zoom"] == ""


def footer(pilot: Pilot[None]) -> str:
    entries = footer_entries(pilot.app.screen.active_bindings)
    return " ".join(f"{entry.key} {entry.label}" for entry in entries)


async def test_chosen_keys_work_and_are_told_everywhere(open_app: Opener) -> None:
    keys = {"component.start": "ctrl+o", "component.start-all": "", "log.wrap": "f5", "log.follow": "f6"}
    experiment = FakeExperiment(stopped_status())
    async with open_app(experiment, keys=keys) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        log = screen.panels.body.components[0].log_pane
        assert "ctrl+o start " in footer(pilot)
        assert "none" not in footer(pilot)
        assert "ctrl+o starts it, :component.start-all starts everything." in log.model.placeholder
        await press(pilot, "s", "S")
        assert experiment.planned == []
        await press(pilot, "f5", "f6")
        assert log.model.window.wrap
        assert not log.model.window.follow
        await press(pilot, "ctrl+o")
        await until(pilot, lambda: experiment.executed)
        assert any(
            row.keys == "ctrl+o" and row.text.startswith("Start the selected component")
            for row in all_rows(readonly=False)
        )
        assert key_of("component.start") == "ctrl+o"


async def test_two_actions_change_their_keys(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), keys={"zoom": "w", "log.wrap": "z"}) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        await press(pilot, "i", "z")
        assert screen.panels.body.components[0].log_pane.model.window.wrap
        assert screen.panels.body.zoomed is None
        await press(pilot, "w")
        assert screen.panels.body.zoomed is not None


async def test_as_vim_has_it_j_moves_by_lines(open_app: Opener, path: Path) -> None:
    async with open_app(FakeExperiment(), keys=keymap.load(path, "vim")) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        first = screen.panels.selected
        await press(pilot, "j", "k")
        assert screen.panels.selected == first
        await press(pilot, "right_curly_bracket")
        assert screen.panels.selected != first
        await press(pilot, "left_curly_bracket")
        assert screen.panels.selected == first


async def test_keys_that_clash_are_named_on_a_small_screen_and_the_usual_keys_hold(
    open_app: Opener, own_user: Path
) -> None:
    path = paths.settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[keys]\nzoom = "r"\n')
    keys, trouble = load_keys()
    assert keys == {}
    async with open_app(FakeExperiment(), (80, 24), trouble=trouble) as pilot:
        assert said(pilot) == [trouble]
        assert "✗ error: settings.toml:2:1: keys.zoom: r is taken by restart" in screen_text(pilot)
        assert trouble.endswith("until then the default keys are used")
        assert (key_of("zoom"), key_of("component.restart")) == ("z", "r")


@pytest.mark.parametrize(
    ("key", "place", "words"),
    [
        ("n", KeyContext.QUEUE, "n does nothing here. next match works on the rollout screen (5)"),
        ("M", KeyContext.OVERVIEW, "M does nothing here. m: mark"),
        ("r", KeyContext.METRICS, "r does nothing here. restart works on the overview (1)"),
        ("shift+down", KeyContext.LOGS, "shift+↓ does nothing here. later works on the queue screen (Q)"),
        ("delete", KeyContext.OVERVIEW, "del: remove is not available now"),
        ("t", KeyContext.LOGS, "t: no trainer in this run; tab goes to the next pane"),
        ("u", KeyContext.CONFIG, "u: undo is not available now"),
        ("f9", KeyContext.CONFIG, "f9 does nothing here. ?: all keys"),
    ],
)
def test_a_key_that_does_nothing_names_the_nearest(key: str, place: KeyContext, words: str) -> None:
    assert idle_key(key, place) == words


async def test_a_key_that_does_nothing_says_so_once(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), (100, 30)) as pilot:
        await press(pilot, "M", "M", "f9", "4", "f9", "slash", *"rJ", "escape", "r")
        told = said(pilot)
        assert told == [
            "M does nothing here. m: mark",
            "f9 does nothing here. ?: all keys",
            "r does nothing here. restart works on the overview (1)",
        ]


async def test_no_key_that_works_is_called_idle(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), (100, 30)) as pilot:
        await press(pilot, "j", "down", "tab", "pagedown", "w", "ctrl+k", "j", "z", "z", "3", "1", "slash")
        await press(pilot, "escape", "ctrl+c", "question_mark", "escape", "m", "v", "escape", "home")
        told = said(pilot)
        assert not [each for each in told if "does nothing" in each or "not available" in each], told
