"""Weights that a run has left: the folder of a step, and whether it is whole."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.requests import run_of

from rltui.client import draft
from rltui.errors import ConfigError, RltuiError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.runs import weights


def safetensors(path: Path, *, cut: int = 0) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    content = struct.pack("<Q", len(header)) + header + bytes(8)
    path.write_bytes(content[: len(content) - cut])


def model(folder: Path, *, marked: bool = False) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    safetensors(folder / "model.safetensors")
    if marked:
        (folder / "STABLE").touch()
    return folder


def experiment(folder: Path, monkeypatch: pytest.MonkeyPatch, maker: str = "") -> ExperimentRecord:
    """Of prime-rl, where `python` in its environment is the shell script `maker`."""
    (folder / "sft.toml").write_text(
        'max_steps = 3\n[model]\nname = "Qwen/Qwen3-0.6B"\n[data]\nname = "d"\nbatch_size = 4\n'
    )
    python = folder / "prime-rl/.venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{maker}")
    python.chmod(0o755)
    (folder / "prime-rl/pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("RLTUI_PRIME_RL", str(folder / "prime-rl"))
    wish = run_of((folder / "sft.toml",), name="sft", output_dir=folder / "out", framework="prime-rl")
    record, _ = draft.plan_record(wish)
    return replace(record, run_dir=str(folder), workspace=str(folder))


@pytest.mark.usefixtures("own_user")
def test_the_weights_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = experiment(tmp_path, monkeypatch)
    folder = model(tmp_path / "weights/step_100")
    for name in ("step_" + "9" * 200, "step_٣", "step_-1", "step_7.tmp", "step_"):
        (tmp_path / "weights" / name).mkdir()
    assert weights.folder_of_step(record, 100) == folder
    with pytest.raises(ConfigError, match="no weights of step 50") as refused:
        weights.folder_of_step(record, 50)
    assert refused.value.hint == "available: 100"


@pytest.mark.usefixtures("own_user")
def test_where_only_the_trainers_state_is_kept_weights_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6."""
    record = experiment(
        tmp_path, monkeypatch, 'echo "$@" > asked; [ -e fine ] && mkdir -p "$3" || { echo no torch; exit 1; }'
    )
    (tmp_path / "checkpoints/step_20/trainer").mkdir(parents=True)
    (tmp_path / "checkpoints/step_20/trainer/.metadata").touch()
    folder = tmp_path / "checkpoints/step_20/weights"
    with pytest.raises(RltuiError, match="has only trainer state") as refused:
        weights.folder_of_step(record, 20)
    assert refused.value.details == ("no torch",)
    assert weights.folder_of_step(record, 20, only_look=True) == folder
    (Path(record.workspace) / "fine").touch()
    assert weights.folder_of_step(record, 20) == folder
    words = (Path(record.workspace) / "asked").read_text().split()
    assert words[1:] == [f"{tmp_path}/checkpoints/step_20/trainer", str(folder), "Qwen/Qwen3-0.6B"]
    assert Path(words[0]).name == "make_weights.py"


def test_what_is_still_written_is_not_taken(tmp_path: Path) -> None:
    folder = model(tmp_path / "weights/step_1")
    model(tmp_path / "weights/step_2", marked=True)
    assert "STABLE" in weights.incompleteness(folder)
    (folder / "STABLE").touch()
    assert weights.incompleteness(folder) == ""
    safetensors(folder / "model.safetensors", cut=1)
    assert weights.incompleteness(folder) == "model.safetensors is truncated"
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x-1.safetensors"}}')
    assert weights.incompleteness(folder) == "x-1.safetensors is missing"
    (folder / "model.safetensors.index.json").write_text("{")
    (folder / "model.safetensors").write_bytes(b"")
    assert weights.incompleteness(folder) == "model.safetensors is truncated"
    (folder / "config.json").unlink()
    assert weights.incompleteness(folder) == "it has no config.json"
    assert "no weights" in weights.incompleteness(_empty(tmp_path / "empty"))


def _empty(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.timeout(10)
def test_an_index_names_files_of_its_own_folder(tmp_path: Path) -> None:
    folder = model(tmp_path / "step_1")
    (tmp_path / "other.bin").touch()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../other.bin"}}))
    (folder / "model.safetensors").unlink()
    assert weights.incompleteness(folder) == "model.safetensors is missing"
    index.unlink()
    os.mkfifo(index)
    assert weights.incompleteness(folder) == "model.safetensors is missing"
