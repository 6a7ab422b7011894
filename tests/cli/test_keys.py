"""`rltui keys`: what is listed, and what is said of settings that cannot be."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Box


def settings_of(box: Box, text: str) -> Path:
    path = box.root / "config/rltui/settings.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def by_id(box: Box, *arguments: str) -> dict[str, dict[str, object]]:
    return {each["id"]: each for each in box.json("keys", *arguments)["keys"]}


def test_every_action_is_listed_with_its_keys_and_places(box: Box) -> None:
    path = settings_of(box, '[keys]\n"component.start" = "ctrl+o"\nsort = ["s", ">"]\n')
    keys = by_id(box)
    assert keys["component.start"]["keys"] == ["ctrl+o"]
    assert keys["component.start"]["usual_keys"] == ["s"]
    assert [key for key, each in keys.items() if each["changed"]] == ["component.start", "sort"]
    assert box.json("keys")["settings"] == str(path)
    lines = box.run("keys", "sort", "runs").stdout.splitlines()
    assert lines[0].split() == ["KEYS", "ACTION", "WHERE", "WHAT"]
    assert any(line.split()[:4] == ["*", "s", "/", ">"] for line in lines)
    assert lines[-1] == "* differs from the usual keys"


def test_a_preset_is_for_one_command(box: Box) -> None:
    assert by_id(box, "--keymap", "vim")["cursor.down"]["keys"] == ["down", "j"]
    assert by_id(box)["cursor.down"]["keys"] == ["down"]
    refused = box.run("keys", "--keymap", "emacs")
    assert refused.returncode == 2
    assert "vim" in refused.stderr


def test_two_actions_with_one_key_are_refused_with_both_names(box: Box) -> None:
    path = settings_of(box, '[alerts]\nbell = false\n\n[keys]\nzoom = "r"\n')
    refused = box.run("keys")
    assert refused.returncode == 3
    told = refused.stderr
    assert f"{path}:5:1: keys.zoom: on the overview, r is the key of restart (component.restart)" in told
    assert "not of zoom (zoom)" in told
    finding = next(each for each in box.json("doctor") if each["name"] == "settings")
    assert not finding["ok"]
    assert "keys.zoom" in finding["text"]
