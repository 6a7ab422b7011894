"""Two experiments of the embedded engine from one config: each has a port, and a server, of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(240)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "reverse_text"


@pytest.fixture
def engine(box: Box, free_port: int) -> Box:
    pytest.importorskip("torch")
    rl = (EXAMPLE / "rl.toml").read_text()
    for old, new in (("max_steps = 200", "max_steps = 5000"), ("port = 8000", f"port = {free_port}")):
        assert old in rl
        rl = rl.replace(old, new)
    (box.work / "rl.toml").write_text(rl)
    lines = (EXAMPLE / "sft.toml").read_text().splitlines()
    lines = ["max_steps = 10" if line.startswith("max_steps") else line for line in lines]
    (box.work / "sft.toml").write_text("\n".join(lines) + "\n")
    return box


def port(box: Box, name: str) -> int:
    return int(box.component("inference", experiment=name)["port"])


def test_two_experiments_from_one_config(engine: Box, free_port: int) -> None:
    text = (engine.work / "rl.toml").read_text()
    first = engine.run("up", "rl.toml", "-n", "a", "-o", "a", timeout_s=90)
    assert first.returncode == 0, first.stderr
    assert "this experiment uses" not in first.stderr
    second = engine.run("up", "rl.toml", "-n", "b", "-o", "b", timeout_s=90)
    assert second.returncode == 0, second.stderr
    other = port(engine, "b")
    assert f"port {free_port} is in use by pid" in second.stderr
    assert f"this experiment uses {other}" in second.stderr
    assert port(engine, "a") == free_port != other
    assert (engine.work / "rl.toml").read_text() == text, "the config is not edited"

    assert engine.run("down", "a").returncode == 0
    step = engine.json("status", "b")["step"] or 0
    retry_until(lambda: (engine.json("status", "b")["step"] or 0) >= step + 2, timeout_s=90)
    states = {item["id"]: item["state"] for item in engine.json("status", "b")["components"]}
    assert states["orchestrator"] == states["inference"] == "ready", "it never needed the other's server"
