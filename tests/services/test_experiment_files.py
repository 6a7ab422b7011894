"""The record of an experiment: written, read, and read as older versions wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.errors import ConfigError
from rltui.services.experiment_files import (
    ControlFolder,
    ExperimentRecord,
    default_output_dir,
    new_record,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(tmp_path: Path, **values: object) -> ExperimentRecord:
    return new_record(
        name="one",
        output_dir=tmp_path / "out",
        workspace=tmp_path,
        config_files=[tmp_path / "rl.toml"],
        layout_file=tmp_path / "layout.toml",
        framework="generic",
        **values,  # type: ignore[arg-type]
    )


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = made(tmp_path, run_dir="run", instances={"env_servers": ("a", "b c"), "none": ()})
    control = ControlFolder(tmp_path / "out")
    control.write_record(record)
    assert control.read_record() == record
    assert record.run_dir == str(tmp_path / "out" / "run")


def test_run_folder_is_the_output_folder_unless_the_layout_says_otherwise(tmp_path: Path) -> None:
    assert made(tmp_path).run_dir == str(tmp_path / "out")


def test_record_of_an_older_version_has_its_run_in_the_output_folder(tmp_path: Path) -> None:
    control = ControlFolder(tmp_path)
    control.path.mkdir()
    control.record_file.write_text(
        'name = "one"\noutput_dir = "/out"\nworkspace = "/work"\nconfig_files = ["/work/rl.toml"]\n'
        'layout_file = "/layout.toml"\nframework = "tinyrl"\ncreated_at = 1.0\n\n[overrides]\n'
    )
    record = control.read_record()
    assert record is not None
    assert (record.run_dir, record.instances, record.observed) == ("/out", {}, False)


def test_damaged_instances_are_named(tmp_path: Path) -> None:
    control = ControlFolder(tmp_path)
    control.write_record(made(tmp_path, instances={"env_servers": ("a",)}))
    text = control.record_file.read_text()
    control.record_file.write_text(text.replace('["a"]', "3"))
    assert control.record_file.read_text() != text
    with pytest.raises(ConfigError, match="is damaged"):
        control.read_record()


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
