"""`rltui checkpoints upload` with a stand-in for `hf`: what it is told, what comes of it, what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from tests.conftest import Box

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]
HF = """\
#!/bin/sh
case $1 in
auth) [ "$HF_TOKEN" = hf_x ] || [ -e login ] || { echo 'Error: Not logged in.' >&2; exit 1; } ;;
*) printf '%s|' "$@" > told; echo 'Uploaded'; echo '  url: https://hub.test/alice/m/commit/1' ;;
esac
"""


def weights(run_dir: Path, step: int = 40) -> Path:
    """A whole folder of weights."""
    folder = run_dir / f"weights/step_{step}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    header = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"1234")
    (folder / "STABLE").touch()
    return folder


def test_weights_are_uploaded_once_somebody_is_logged_in(counters: Box) -> None:
    tools = counters.root / "tools"
    tools.mkdir()
    (tools / "hf").write_text(HF)
    (tools / "hf").chmod(0o755)
    counters.env["PATH"] = f"{tools}:{counters.env['PATH']}"
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    folder = weights(counters.work / "out")
    plan = counters.json("checkpoints", "upload", "40", "alice/m", "--plan")
    assert (plan["files"], plan["url"]) == (["config.json", "model.safetensors"], None)
    (folder / "STABLE").unlink()
    weights(counters.work / "out", 20)
    refusal = counters.run("checkpoints", "upload", "40", "alice/m", "--yes")
    assert (refusal.returncode, "is not complete" in refusal.stderr) == (3, True)
    (folder / "STABLE").touch()

    refusal = counters.run("checkpoints", "upload", "40", "alice/m", "--yes")
    assert (refusal.returncode, "Not logged in." in refusal.stderr) == (5, True)
    assert not (counters.work / "told").exists()
    agent = counters.as_agent(rights="propose")
    proposed = agent.run("checkpoints", "upload", "40", "alice/m", "--yes")
    assert (proposed.returncode, "kept as proposal p1" in proposed.stderr) == (2, True), proposed.stderr
    assert "repo: alice/m" in counters.json("agents", "decline", "one", "p1")["text"]
    counters.env["HF_TOKEN"] = "hf_x"  # finding S6: exported after the run began
    document = counters.json(
        "checkpoints", "upload", "40", "alice/m", "--private", "--exclude", "*.bin", "--yes"
    )
    assert document["url"] == "https://hub.test/alice/m/commit/1"
    assert (counters.work / "told").read_text().split("|")[:-1] == [
        "upload", "alice/m", str(folder), ".", "--exclude=STABLE", "--exclude=*.bin",
        "--commit-message=one: step 40", "--private",
    ]  # fmt: skip
    leaks = [file for file in (counters.work / "out/.rltui").rglob("*") if file.is_file()]
    assert not [file for file in leaks if b"hf_x" in file.read_bytes()], "it is written nowhere"
    assert "publish exited: https://hub.test/alice/m/commit/1" in counters.run("events").stdout
    assert counters.component("publish")["reason"] == document["url"]
