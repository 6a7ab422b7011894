"""A tmux server of each test's own: private socket, no config, gone at the end."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.services.tmux import TmuxHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TmuxHost]:
    # A socket path has at most 107 bytes, so the folder is not below tmp_path.
    name = f"rltui-test-{uuid.uuid4().hex[:12]}"
    monkeypatch.delenv("TMUX", raising=False)
    yield TmuxHost(name)
    subprocess.run(["tmux", "-L", name, "kill-server"], check=False, capture_output=True)
    folder = Path(os.environ.get("TMUX_TMPDIR", "/tmp")) / f"tmux-{os.getuid()}"
    (folder / name).unlink(missing_ok=True)
