"""A process notices that an update has replaced the code that it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from rltui.services import installation
from rltui.services.installation import LoadedCode


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module of rltui that this process has loaded."""
    path = tmp_path / "of_the_test.py"
    path.write_text("version = 1\n")
    loaded = ModuleType("rltui.of_the_test")
    loaded.__file__ = str(path)
    monkeypatch.setitem(sys.modules, loaded.__name__, loaded)
    return path


def test_code_is_replaced_once_a_file_is_another_or_gone(module: Path) -> None:
    code = LoadedCode()
    assert not code.is_replaced
    (module.parent / "beside.py").write_text("")
    assert not code.is_replaced
    new = module.with_suffix(".new")
    new.write_text("version = 2\n")
    new.replace(module)
    assert code.is_replaced
    assert not LoadedCode().is_replaced
    code = LoadedCode()
    module.unlink()
    assert code.is_replaced


def test_a_file_that_cannot_be_read_now_is_no_update(module: Path) -> None:
    folder = module.parent / "loop"
    sys.modules["rltui.of_the_test"].__file__ = str(folder / "module.py")
    folder.mkdir()
    (folder / "module.py").write_text("")
    code = LoadedCode()
    (folder / "module.py").unlink()
    folder.rmdir()
    folder.symlink_to(folder)
    assert not code.is_replaced


def test_an_update_is_complete_when_nothing_has_been_written_for_a_while(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("rltui.services.installation.time.monotonic", lambda: now)
    code = LoadedCode()
    now = 100.0
    assert not code.is_update_complete()
    module.write_text("version = 22\n")
    assert not code.is_update_complete()
    now += installation.SETTLED_S / 2
    module.write_text("version = 333\n")
    assert not code.is_update_complete()
    now += installation.SETTLED_S / 2
    assert not code.is_update_complete()
    now += installation.SETTLED_S / 2
    assert code.is_update_complete()
