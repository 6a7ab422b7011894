"""Attempts whose record is gone are found by what lives of them."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from tests.daemon.shim_harness import attempt
from tests.waiting import retry_until

from rltui.services.processes import Traces, living_output_dirs, wait_for_exit


async def test_a_living_shim_tells_what_its_record_told(tmp_path: Path) -> None:
    folder = tmp_path / "out/.rltui/components/trainer/attempt-1"
    with attempt(folder, ["sleep", "1000"], experiment=f"x@{tmp_path}/out") as run:
        run.start()
        before = retry_until(lambda: run.record if run.record.descendants else None)
        assert before.shim is not None
        os.kill(before.shim.pid, signal.SIGSTOP)  # it would bring its record back
        (folder / "attempt.json").write_bytes(b"")
        try:
            found = Traces().attempt(folder, before.experiment)
        finally:
            os.kill(before.shim.pid, signal.SIGCONT)
        assert found is not None
        assert abs(found.started_at - before.started_at) < 60
        assert replace(found, started_at=0.0) == replace(before, started_at=0.0, argv=(), cwd="")
        assert str(tmp_path / "out") in living_output_dirs()

        run.signal(signal.SIGKILL)
        await wait_for_exit(before.shim)
        (folder / "attempt.json").write_bytes(b"")
        alone = Traces().attempt(folder, before.experiment)
        assert alone is not None
        assert (alone.shim, alone.main, alone.session) == (None, before.main, before.session)
        assert str(tmp_path / "out") in living_output_dirs()
        assert Traces().attempt(folder.with_name("attempt-2"), before.experiment) is None
        assert Traces().attempt(folder, "another") is None
