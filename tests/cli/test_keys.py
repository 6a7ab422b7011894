"""`rltui keys`: what is listed, and what is said of settings that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_every_action_is_listed_with_its_keys_and_places(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text('[keys]\n"component.start" = "ctrl+o"\nsort = ["s", ">"]\n')
    assert main(["keys", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = {action["id"]: action for action in document["keys"]}
    assert keys["component.start"]["keys"] == ["ctrl+o"]
    assert keys["component.start"]["usual_keys"] == ["s"]
    assert [id_ for id_, action in keys.items() if action["changed"]] == ["component.start", "sort"]
    assert document["settings"] == str(settings)
    assert main(["keys", "sort", "runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["KEYS", "ACTION", "WHERE", "WHAT"]
    assert any(line.split()[:4] == ["*", "s", "/", ">"] for line in lines)
    assert lines[-1] == "* differs from the usual keys"


def test_a_preset_is_for_one_command(
    settings: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["keys", "cursor.down", "--keymap", "vim"]) == 0
    assert "* ↓ / j  cursor.down" in capsys.readouterr().out
    monkeypatch.setenv(KEYMAP_VARIABLE, "")
    assert main(["keys", "cursor.down"]) == 0
    assert "\n↓ " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["keys", "--keymap", "emacs"])
    assert "vim" in capsys.readouterr().err


def test_two_actions_with_one_key_are_refused_with_both_names(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text('[alerts]\nbell = false\n\n[keys]\nzoom = "r"\n')
    assert main(["keys"]) == 3
    error = capsys.readouterr().err
    assert f"{settings}:5:1: keys.zoom: on the overview, r is the key of restart (component.restart)" in error
    assert "not of zoom (zoom)" in error
    main(["doctor", "--json"])
    finding = next(item for item in json.loads(capsys.readouterr().out) if item["name"] == "settings")
    assert not finding["ok"]
    assert "keys.zoom" in finding["text"]
