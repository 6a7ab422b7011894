"""`rltui checkpoints upload` with the program `hf` itself, against a hub on the loopback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.e2e.test_publish import weights
from tests.fakes.hub import TOKEN, hub

pytestmark = [pytest.mark.hf, pytest.mark.tmux]
PROGRAM = Path(os.environ.get("RLTUI_HF", "/opt/hf/bin/hf"))


@pytest.fixture
def with_hf(counters: Box) -> Box:
    if not PROGRAM.exists():
        pytest.skip(f"no {PROGRAM}: pip install huggingface_hub into a venv, name its hf in $RLTUI_HF")
    counters.env["PATH"] += f":{PROGRAM.parent}"
    counters.env["HF_HOME"] = str(counters.root / "hf")
    return counters


def test_weights_arrive_and_the_token_is_kept_nowhere(with_hf: Box) -> None:
    with hub() as there:
        with_hf.env.update(HF_ENDPOINT=there.url, HF_TOKEN=TOKEN)
        with_hf.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
        folder = weights(with_hf.work / "out")
        published = with_hf.json("checkpoints", "upload", "40", "alice/m", "--private", "--yes", timeout_s=90)
        assert published["url"] == f"{there.url}/alice/m/commit/0123abc"
        assert sorted(there.files) == ["config.json", "model.safetensors"]
        assert there.files["model.safetensors"] == (folder / "model.safetensors").read_bytes()
        assert there.summary == "one: step 40"
        assert there.repos["alice/m"].get("private", there.repos["alice/m"].get("visibility")) in (
            True,
            "private",
        )
        assert f"publish exited: {published['url']}" in with_hf.run("events").stdout
    files = [path for path in (with_hf.work / "out").rglob("*") if path.is_file()]
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_nobody_logged_in_is_told_before_anything_is_sent(with_hf: Box) -> None:
    with hub() as there:
        with_hf.env["HF_ENDPOINT"] = there.url
        with_hf.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
        weights(with_hf.work / "out")
        done = with_hf.run("checkpoints", "upload", "40", "alice/m", "--yes", timeout_s=90)
        assert done.returncode == 5
        assert "`hf auth whoami` exited 1" in done.stderr
        assert "hf auth login" in done.stderr
        assert not there.repos
