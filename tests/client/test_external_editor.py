from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from rltui.client.local_experiment import read_config
from rltui.client.programs import edit_text, pager_command
from rltui.errors import ConfigError, RltuiError, UsageError

APPEND = "import sys; p = sys.argv[1]; t = open(p, 'rb').read(); open(p, 'wb').write(t + b'# {}\\n')"


def editor(folder: Path, program: str) -> str:
    script = folder / "my editor.py"
    script.write_text(program)
    return f"{sys.executable} '{script}'"


def test_a_config_is_read_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "rl.toml"
    content = b"\xef\xbb\xbfa = 1\r\n"
    path.write_bytes(content)
    config = read_config(str(path))
    assert config.text.encode() == content
    assert config.sha256 == hashlib.sha256(content).hexdigest()


def test_a_config_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file not found"):
        read_config(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_config(str(tmp_path / "latin.toml"))


@pytest.mark.parametrize("variables", [("VISUAL",), ("EDITOR",), ("VISUAL", "EDITOR")], ids=str)
def test_the_editor_gets_a_copy_and_what_it_saved_comes_back(
    variables: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    for name in variables:
        monkeypatch.setenv(name, editor(tmp_path, APPEND.format(variables[0])))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "rl.toml"
    path.write_text("a = 1\n")
    assert edit_text(str(path), "a = 1\r\n") == f"a = 1\r\n# {variables[0]}\n"
    assert path.read_text() == "a = 1\n"
    assert not list(tmp_path.glob("rltui-edit-*"))


def test_an_editor_that_fails_or_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program, command, words in (
        ("raise SystemExit(3)", "", "code 3"),
        ("import sys; open(sys.argv[1], 'wb').write(b'\\xff')", "", "utf-8"),
        ("", "/none/such-editor --wait", "editor not found"),
        ("", "vi 'unclosed", "quotation"),
    ):
        monkeypatch.setenv("VISUAL", command or editor(tmp_path, program))
        with pytest.raises(RltuiError, match=words):
            edit_text("rl.toml", "a = 1\n")


@pytest.mark.parametrize(("name", "first"), [("nano", "+7"), ("ed", "")])
def test_an_editor_that_takes_a_line_begins_there(
    name: str, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / name
    program.write_text('#!/bin/sh\necho "$1" > "${0%/*}/told"\n')
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))
    edit_text("settings.toml", "a = 1\n", line=7)
    arguments = (tmp_path / "told").read_text().strip()
    assert arguments == first if first else arguments.endswith("settings.toml")


def test_the_pager_is_less_unless_a_person_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "gone" else name)
    for line, argv in (("", ["less", "/a b"]), ("bat -p", ["bat", "-p", "/a b"])):
        monkeypatch.setenv("PAGER", line)
        assert pager_command("/a b") == argv
    for line in ("gone", " ", "'"):
        monkeypatch.setenv("PAGER", line)
        with pytest.raises(UsageError):
            pager_command("/a b")
