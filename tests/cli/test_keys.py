"""`rltui keys`: what is listed, and what is said of settings that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from rltui.cli import main
from rltui.cli.arguments import KEYMAP_VARIABLE
from rltui.ui import actions


@pytest.fixture
def settings(own_user: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a user's settings; the keys of this process are the defaults again afterwards."""
    monkeypatch.setenv(KEYMAP_VARIABLE, "")
    path = own_user / "config/rltui/settings.toml"
    path.parent.mkdir()
    yield path
    actions.remap({})


def test_every_action_is_listed_with_its_keys_and_places(settings: Path, cli: CommandLine) -> None:
    settings.write_text('[keys]\n"component.start" = "ctrl+o"\nsort = ["s", ">"]\n')
    document = cli.json("keys")
    keys = {action["id"]: action for action in document["keys"]}
    assert keys["component.start"]["keys"] == ["ctrl+o"]
    assert keys["component.start"]["usual_keys"] == ["s"]
    assert [id_ for id_, action in keys.items() if action["changed"]] == ["component.start", "sort"]
    assert document["settings"] == str(settings)
    lines = cli("keys", "sort", "runs").splitlines()
    assert lines[0] == "View"
    assert any(line.split()[:4] == ["*", "s", "/", ">"] for line in lines)
    assert lines[-1] == "* not the default key"


def test_a_line_says_what_a_key_does_everywhere_and_fits_80_columns(settings: Path, cli: CommandLine) -> None:
    lines = cli("keys").splitlines()
    assert max(map(len, lines)) <= 80
    keys = [line.split("  ")[0] for line in lines if "  " in line and not line.startswith("KEY")]
    assert len(keys) == len(set(keys)), "a line per key"
    assert ":kill" in keys, "what only the palette has is listed too"
    assert not any("Increase by a step" in line for line in lines)
    assert "Increase by a step" in cli("keys", "--dialogs")
    assert ":kill  component.kill  " in cli("keys", "--ids", "kill")
    assert cli("keys", "nosuch") == "no key has all these words\n"
    settings.write_text('[keys]\n"component.kill" = "ctrl+t"\n')
    assert "* ctrl+t  Kill" in cli("keys", "kill"), "and can be given a key"


def test_a_preset_is_for_one_command(
    settings: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "* ↓ / j  cursor.down" in cli("keys", "--ids", "cursor.down", "--keymap", "vim")
    monkeypatch.setenv(KEYMAP_VARIABLE, "")
    assert "\n↓ " in cli("keys", "cursor.down")
    assert "vim" in cli("keys", "--keymap", "emacs", code=2)


def test_two_actions_with_one_key_are_refused_with_both_names(
    settings: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text('[alerts]\nbell = false\n\n[keys]\nzoom = "r"\n')
    error = cli("keys", code=3)
    assert f"{settings}:5:1: keys.zoom: r is taken by restart (component.restart) on the overview" in error
    main(["doctor", "--json"])
    finding = next(
        item for item in json.loads(capsys.readouterr().out)["checks"] if item["name"] == "settings"
    )
    assert not finding["ok"]
    assert "keys.zoom" in finding["text"]
