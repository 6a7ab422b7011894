"""The recorded box as a machine on which it is always the same time of the same day."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.conftest import environment_of, kill_tmux_server
from tests.contracts.recorded import BOOT, REPOSITORY, unpacked

from rltui.services.processes import boot_identity

LATER_S = 86_400.0
"""Between the newest recorded file and the time at which it is looked at."""
PATIENCE = ("checking the config with the framework's own validators", "updating the run list")
"""Said where that takes long."""
ROOM = re.compile(r'[\d.]+ [GT]iB free: room for [\d,]+ more|(?<="free_bytes":) ?\d+|(?<="fits":) ?\d+')
AGE = re.compile(r"⚠ \S+ old([^─\n]*)─*")
"""With the border behind it, whose length depends on the digits."""
STORE = re.compile(r"metrics@[0-9a-f]{8}")
"""The id of a store of metrics that was made of the recorded files."""
NEWEST_EVENT = re.compile(r"events@[0-9a-f]+\.[0-9a-f]+")
"""In the shared box it may be of a supervisor that the plan of another test has started."""
OUTSIDE = ("CUDA", "HF_")


class RecordedBox:
    """Commands in the recorded box; what they print has `BOX` where its root stands."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"
        newest = max(path.stat().st_mtime for path in self.work.rglob("*"))
        env = {key: value for key, value in environment_of(root).items() if not key.startswith(OUTSIDE)}
        self.env = env | {
            "HOME": str(root / "home"),
            "TZ": "UTC",
            "COLUMNS": "120",
            forked.CLOCK: str(round(newest + LATER_S)),
        }

    def output(self, *words: str) -> str:
        """Of a command: its exit code, stdout, stderr."""
        done = forked.run(words, cwd=self.work, env=self.env, stdin="", timeout_s=60.0)
        errors = "".join(line for line in done.stderr.splitlines(True) if not line.startswith(PATIENCE))
        text = f"$ rltui {' '.join(words)}\n[exit {done.returncode}]\n{done.stdout}"
        return self.with_placeholders(f"{text}--- stderr\n{errors}" if errors else text)

    def document(self, *words: str) -> Any:
        """What `--json` prints, on one line. `status` of a failed run has an exit code of its own."""
        done = forked.run((*words, "--json"), cwd=self.work, env=self.env, stdin="", timeout_s=60.0)
        code = 5 if words == ("status", "second") else 0
        assert (done.returncode, done.stdout.count("\n")) == (code, 1), done.stderr
        return json.loads(self.with_placeholders(done.stdout))

    def with_placeholders(self, text: str) -> str:
        """Without the path of its root, the boot, the room on this disk, and spaces at the ends of lines."""
        wrapped = r"\s*".join(map(re.escape, str(self.root)))
        text = re.sub(wrapped, "BOX", text).replace(REPOSITORY, "REPOSITORY").replace(boot_identity(), BOOT)
        text = STORE.sub("metrics@STORE", AGE.sub(r"⚠ old\1─", ROOM.sub("0", text)))
        text = NEWEST_EVENT.sub("events@NEWEST", text)
        return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


@contextmanager
def recorded_box() -> Iterator[RecordedBox]:
    """A new one, to be changed at will."""
    with unpacked() as root:
        (root / "home").mkdir()
        box = RecordedBox(root)
        try:
            yield box
        finally:
            box.output("down", "--all", "--yes")  # what was asked of a run may have started its supervisor
            kill_tmux_server(box.env)


@pytest.fixture(scope="session")
def shared_box() -> Iterator[RecordedBox]:
    """One for all tests that only look, in any order: the index, which no recording has, is made first."""
    with recorded_box() as box:
        assert "no index of runs: rebuilding it from the folders" in box.output("runs")
        yield box


@pytest.fixture
def own_box() -> Iterator[RecordedBox]:
    """One of its own, for a test that changes it."""
    with recorded_box() as box:
        yield box
