"""Which experiment a command means that names none. Finding S5."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.cli.choosing import choose_experiment
from rltui.client import launch
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord


def test_the_one_of_this_folder_else_the_newest(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for age, (name, workspace) in enumerate((("old", "a"), ("new", "b"), ("newest", "b"))):
        folder = tmp_path / workspace
        folder.mkdir(exist_ok=True)
        record = ExperimentRecord(name, str(folder / name), str(folder), (), "/l.toml", "generic", float(age))
        control = ControlFolder(folder / name)
        control.make()
        control.write_record(record)

    def found(folder: Path, *, acts: bool = False) -> tuple[str, str]:
        monkeypatch.chdir(folder)
        return choose_experiment(None, acts=acts).name, capsys.readouterr().err

    of_all = "newest: the newest of 3 of all (another: -n NAME)\n"
    assert found(tmp_path) == ("newest", of_all)
    assert found(tmp_path / "a") == ("old", "old: the one of this folder (another: -n NAME)\n")
    assert found(tmp_path / "b", acts=True)[0] == "newest"
    assert found(tmp_path / "b/new") == ("new", "new: the one of this folder (another: -n NAME)\n")
    assert choose_experiment("old").name == "old"

    monkeypatch.setattr(launch, "running_experiments", lambda records: [*records])
    assert found(tmp_path / "b")[0] == "newest", "to look at"
    assert found(tmp_path / "a", acts=True)[0] == "old"
    with pytest.raises(UsageError, match="3 experiments are alive"):
        found(tmp_path / "b", acts=True)
