"""Real runs of the embedded engine that go wrong are told within twenty steps. The default tests replay
recorded ones (tests/core/metrics/test_health.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.tinyrl.conftest import free_port
from tests.waiting import retry_until

from rltui.core.metrics.health.findings import findings
from rltui.core.metrics.health.rule import HealthInputs
from rltui.core.metrics.health.thresholds import Thresholds
from rltui.core.metrics.tracks import RunTracks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples/reverse_text"
Started = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Started]:
    """Starts a program with something wrong in it; all are gone when the test is."""
    started: list[subprocess.Popen[bytes]] = []

    def start(what: str, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "tests.tinyrl.unwell", what, name, *words]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=Path(__file__).parents[2]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sft") / "model"
    words = ["sft", "@", str(EXAMPLES / "sft.toml"), "--output-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "rltui.tinyrl", *words], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("nothing", ("--trainer.optim.lr", "2.5")),
        ("reward=1", ()),
        ("entropy=0.01,1,-20", ("--trainer.optim.lr", "1e-3")),
    ],
    ids=["learning rate", "reward", "entropy"],
)
def test_it_is_told(
    what: str, options: tuple[str, ...], tmp_path: Path, model: Path, program: Started
) -> None:
    config = [
        "@", str(EXAMPLES / "rl.toml"), "--output-dir", str(tmp_path / "run"), "--model.name", str(model),
        "--max-steps", "20", "--inference.server.port", str(free_port()), *options,
    ]  # fmt: skip
    for name in ("inference", "orchestrator", "trainer"):
        program(what, name, *config)
    words: dict[str, int] = {}
    run, read = RunTracks(), 0

    def is_told() -> bool:
        nonlocal read
        file = tmp_path / "run/metrics.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        for row in rows[read:]:
            run.add(row, 0.0)
            for finding in findings(HealthInputs(run, Thresholds())):
                words.setdefault(finding.symptom.word, row["step"])
        read = len(rows)
        return bool(words)

    retry_until(is_told, timeout_s=400, interval_s=0.5)
    assert min(words.values()) <= 20
