"""The experiment's session on the private tmux server. libtmux blocks: one thread orders its calls."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rltui.daemon.shim import program as shim_program
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.tmux import TmuxHost, session_name

_SHIM = Path(shim_program.__file__).with_name("__main__.py")


class Terminal:
    """Windows for the shims of `record`."""

    def __init__(self, tmux: TmuxHost, record: ExperimentRecord) -> None:
        self._tmux = tmux
        self._record = record
        self._session = session_name(record.name)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tmux")

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        """Run the shim for `attempt_dir` in the component's window.

        Raises:
            RltuiError: if tmux refuses.
        """
        argv = [sys.executable, "-I", "-S", str(_SHIM), str(attempt_dir)]
        cwd = self._record.workspace
        await self._call(partial(self._tmux.start_window, self._session, component, argv, cwd=cwd))

    async def close(self) -> None:
        """Close the session, and with it this process's own terminal."""
        await self._call(self._tmux.call_back)
        await self._call(partial(self._tmux.kill_session, self._session))

    async def _call(self, call: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, call)
