"""The record of an experiment: written, read, and read as older versions wrote it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rltui import paths
from rltui.errors import ConfigError, ConflictError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.registry import (
    BrokenExperiment,
    default_output_dir,
    find_experiment,
    forget,
    known_experiments,
    listed_experiments,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(tmp_path: Path, **values: object) -> ExperimentRecord:
    return ExperimentRecord(
        "new", str(tmp_path / "out"), str(tmp_path), ("/rl.toml",), "/layout.toml", "generic", 1.0,
        **values,  # type: ignore[arg-type]
    )  # fmt: skip


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = made(tmp_path, instances={"env_servers": ("a", "b c"), "none": ()})
    control = ControlFolder(tmp_path / "out")
    control.write_record(record)
    assert control.read_record() == record
    assert record.run_dir == record.output_dir


def test_keys_of_other_versions_are_passed_over(tmp_path: Path) -> None:
    """Finding E5."""
    control = ControlFolder(tmp_path)
    control.path.mkdir()
    control.record_file.write_text(
        'a_new_key = 3\nname = "one"\noutput_dir = "/out"\nworkspace = "/work"\nlayout_file = "/l.toml"\n'
        'config_files = ["/work/rl.toml"]\nframework = "tinyrl"\ncreated_at = 1.0\n[a_new_table]\nx = 1\n'
    )
    record = control.read_record()
    assert record is not None
    assert (record.run_dir, record.instances, record.observed) == ("/out", {}, False)


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (("reverse-text.toml",), "outputs/reverse-text"),
        (("rl.toml",), "outputs/configs"),
        (("sft.toml",), "outputs/configs-sft"),
        (("train.toml", "orch.toml"), "outputs/configs"),
        (("orch.toml", "train.toml"), "outputs/configs"),
    ],
)
def test_output_folder_of_a_config_that_names_none(names: tuple[str, ...], folder: str) -> None:
    assert default_output_dir([Path("/work/configs") / name for name in names]) == folder


def written(tmp_path: Path, name: str = "one") -> ControlFolder:
    control = ControlFolder(tmp_path / name)
    control.write_record(replace(made(tmp_path), name=name, output_dir=str(tmp_path / name)))
    return control


DAMAGES = {
    "empty": b"",
    "half": b'name = "one"\noutput_dir = "/o',
    "not UTF-8": b'name = "\xff\xfe"\n',
    "a time that is none": b'name = "one"\noutput_dir = "/o"\nworkspace = "/"\nconfig_files = []\n'
    b'layout_file = ""\nframework = ""\ncreated_at = nan\n',
    "deep": b"a = " + b"[" * 5000,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_record_is_read_from_its_copy(tmp_path: Path, damage: bytes) -> None:
    """Finding E5."""
    control = written(tmp_path)
    written(tmp_path, "two")
    before = find_experiment("one")
    control.record_file.write_bytes(damage)
    with pytest.raises(ConfigError, match="is damaged"):
        control.read_record()
    assert find_experiment("one") == before
    assert {record.name for record in known_experiments()} == {"one", "two"}


def test_a_folder_in_the_place_of_a_record_is_replaced(tmp_path: Path) -> None:
    control = written(tmp_path)
    record = find_experiment("one")
    control.record_file.unlink()
    control.record_file.mkdir()
    assert find_experiment("one") == record
    assert record is not None
    control.write_record(record)
    assert control.read_record() == record


@pytest.mark.parametrize("damage", [b"\xff", b"name = 3", b"\0", b"[" * 5000], ids=range(4))
def test_a_damaged_entry_of_the_list_is_one_broken_experiment(tmp_path: Path, damage: bytes) -> None:
    written(tmp_path)
    written(tmp_path, "two")
    (paths.state_dir() / "experiments/one").write_bytes(damage)
    broken, two = listed_experiments()
    assert isinstance(broken, BrokenExperiment)
    assert (broken.name, two) == ("one", find_experiment("two"))
    with pytest.raises(ConfigError, match="cannot read"):
        find_experiment("one")


def test_a_deleted_folder_is_forgotten_and_comes_back(tmp_path: Path) -> None:
    control = written(tmp_path)
    record = control.read_record()
    away = control.path.rename(tmp_path / "away")
    assert find_experiment("one") is None
    away.rename(control.path)
    assert find_experiment("one") == record
    assert record is not None
    forget(record)
    assert find_experiment("one") is None


def test_the_control_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    ControlFolder(tmp_path / "one").path.mkdir(mode=0o755, parents=True)  # as an older version made it
    control = written(tmp_path)
    assert control.path.stat().st_mode & 0o777 == 0o700
    assert control.record_file.stat().st_mode & 0o777 == 0o600


def hostile_link(control: ControlFolder) -> None:
    control.path.rename(control.path.with_name("real"))
    control.path.symlink_to("real")


def hostile_mode(control: ControlFolder) -> None:
    control.path.chmod(0o777)


def hostile_owner(control: ControlFolder) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to give a folder away")
    os.chown(control.path, 12345, 12345)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (hostile_link, "symbolic link"),
        (hostile_mode, "other users may write to it"),
        (hostile_owner, "belongs to another user, uid 12345"),
    ],
)
def test_a_control_folder_that_is_not_the_users_own_is_refused(
    tmp_path: Path, harm: Callable[[ControlFolder], None], words: str
) -> None:
    """Finding H15."""
    control = written(tmp_path)
    record = control.read_record()
    assert record is not None
    before = control.record_file.read_bytes()
    harm(control)
    with pytest.raises(ConflictError, match=words) as caught:
        control.write_record(record)
    assert "-o OUTPUT_DIR" in caught.value.hint
    with pytest.raises(ConflictError, match=words):
        control.read_record()
    assert control.record_file.read_bytes() == before
    (broken,) = listed_experiments()
    assert isinstance(broken, BrokenExperiment)


def test_a_record_that_is_a_link_or_open_to_others_is_not_read(tmp_path: Path) -> None:
    control = written(tmp_path)
    control.record_file.chmod(0o666)
    with pytest.raises(ConfigError, match="other users may write to it"):
        control.read_record()
    control.record_file.rename(tmp_path / "elsewhere")
    control.record_file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="symbolic link"):
        control.read_record()


def test_a_file_system_that_gives_all_files_one_mode_is_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = written(tmp_path)
    record = control.read_record()
    for path in (control.path, control.record_file):
        path.chmod(0o777)
    shown = control.record_file.stat()
    monkeypatch.setattr("rltui.services.own_files._new_file_stat", lambda folder: shown)
    assert control.read_record() == record
