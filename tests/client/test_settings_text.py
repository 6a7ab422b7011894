"""The settings as text: every setting there is, and nothing wrong is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rltui import paths, settings
from rltui.client.settings_text import as_text, replace_text
from rltui.errors import ConfigError, ConflictError


@pytest.fixture
def path(own_user: Path) -> Path:
    """Of the settings of a user who has none."""
    del own_user
    return paths.settings_file()


def test_without_a_file_every_setting_is_there_with_its_default(path: Path) -> None:
    before = as_text()
    assert (before.path, before.is_new) == (str(path), True)
    bell = next(setting for setting in before.known if setting.key == "alerts.bell")
    assert (bell.value, bell.meaning) == ("true", "ring the terminal bell for errors and warnings")
    assert before.text.splitlines()[bell.line - 1].startswith("bell = true")
    assert not any(key.key.endswith(".0") for key in before.known)


def test_every_setting_of_the_model_is_in_the_shipped_file(path: Path) -> None:
    text = as_text()
    known = {setting.key for setting in text.known}
    known |= {f"agents.{key}" for key in re.findall(r"^# (\w+) = ", text.text, re.MULTILINE)}  # no limit
    for name, value in settings.Settings():
        keys = {f"{name}.{key}" for key, _ in value} if hasattr(value, "model_dump") else {name}
        assert keys <= known, name


def test_a_table_that_a_person_fills_is_a_setting_too(path: Path) -> None:
    before = as_text()
    keys = next(setting for setting in before.known if setting.key == "keys")
    assert before.text.splitlines()[keys.line - 1] == "[keys]"
    assert "`rltui keys --ids`" in keys.meaning


def test_a_setting_is_found_in_the_users_own_file(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n\n[alerts]\nosc9 = false\nbell = false\n")
    known = {setting.key: setting for setting in as_text().known}
    assert (known["alerts.bell"].value, known["alerts.bell"].line) == ("false", 5)
    assert (known["alerts.repeat_s"].value, known["alerts.repeat_s"].line) == ("60.0", 3), "its table"
    assert known["health.kl_max"].line == 6, "the end of the file"


def test_a_file_that_is_no_toml_can_be_mended(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("[alerts\n")
    before = as_text()
    assert before.text == "[alerts\n"
    assert before.known
    replace_text(before, "[alerts]\n")
    assert path.read_text() == "[alerts]\n"


def test_what_is_written_is_checked_first(path: Path) -> None:
    before = as_text()
    with pytest.raises(ConfigError, match=r"settings.toml:1:1: bell: unknown key"):
        replace_text(before, "bell = true\n")
    assert not path.exists()
    replace_text(before, "[alerts]\nbell = false\n")
    assert settings.load(path).alerts.bell is False


@pytest.mark.parametrize("was_there", [False, True])
def test_what_somebody_else_wrote_meanwhile_stays(path: Path, was_there: bool) -> None:
    path.parent.mkdir(parents=True)
    if was_there:
        path.write_text("[health]\n")
    before = as_text()
    path.write_text("[alerts]\n")
    with pytest.raises(ConflictError):
        replace_text(before, "tour = false\n")
    assert path.read_text() == "[alerts]\n"


def test_a_link_into_somebodys_dotfiles_stays_one(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("[alerts]\n")
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    replace_text(as_text(), "tour = false\n")
    assert path.is_symlink()
    assert target.read_text() == "tour = false\n"
