from __future__ import annotations

from pathlib import Path
from typing import cast

from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import Life
from rltui.daemon.component import ComponentRunner
from rltui.daemon.watches import _Start
from rltui.frameworks.failures import COMMON


class Runner:
    """A component that is starting."""

    def __init__(self, log: Path) -> None:
        self.spec = ComponentSpec(id="inference", command=("x",), kind="service")
        self.life = Life(kind="service", epoch=1)
        self.log = log
        self.phase: str | None = None


async def test_a_start_tells_how_far_it_is_and_what_it_will_die_of(tmp_path: Path) -> None:  # G12
    log = tmp_path / "output.log"
    log.write_text("Starting to load model x...\n")
    runner = Runner(log)
    start = _Start(cast("ComponentRunner", runner))
    assert await start.look(COMMON) is None
    assert runner.phase == "loads the model"
    with log.open("a") as file:
        file.write("nothing of interest\n")
    await start.look(COMMON)
    assert runner.phase == "loads the model", "until it says otherwise"
    with log.open("a") as file:
        file.write("ValueError: No available memory for the cache blocks. Try\n")
    assert "its output says: out of GPU memory" in (await start.look(COMMON) or "")
