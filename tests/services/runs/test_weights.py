"""Weights that a run has left: the folder of a step, and whether it is whole."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from rltui.errors import ConfigError
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


def test_the_weights_of_a_step(tmp_path: Path) -> None:
    folder = model(tmp_path / "weights/step_100")
    assert weights.of_step(tmp_path, 100) == folder
    with pytest.raises(ConfigError, match="no weights of step 50") as refused:
        weights.of_step(tmp_path, 50)
    assert refused.value.hint == "there are: 100"


def test_where_only_the_trainers_state_is_kept(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/step_20/trainer").mkdir(parents=True)
    with pytest.raises(ConfigError) as refused:
        weights.of_step(tmp_path, 20)
    assert "convert_dcp_to_bf16.py" in refused.value.hint
    folder = model(tmp_path / "checkpoints/step_20/weights")
    assert weights.of_step(tmp_path, 20) == folder


def test_what_is_still_written_is_not_taken(tmp_path: Path) -> None:
    folder = model(tmp_path / "weights/step_1")
    model(tmp_path / "weights/step_2", marked=True)
    assert "STABLE" in weights.why_incomplete(folder)
    (folder / "STABLE").touch()
    assert weights.why_incomplete(folder) == ""
    safetensors(folder / "model.safetensors", cut=1)
    assert weights.why_incomplete(folder) == "model.safetensors is cut short"
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x-1.safetensors"}}')
    assert weights.why_incomplete(folder) == "x-1.safetensors is missing"
    (folder / "model.safetensors.index.json").write_text("{")
    (folder / "model.safetensors").write_bytes(b"")
    assert weights.why_incomplete(folder) == "model.safetensors is cut short"
    (folder / "config.json").unlink()
    assert weights.why_incomplete(folder) == "it has no config.json"
    assert "no weights" in weights.why_incomplete(_empty(tmp_path / "empty"))


def _empty(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder
