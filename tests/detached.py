"""Runs pytest as an orphan where an agent started it: a descendant of one is an agent, and tests play people.

A hook of pytest for `tests/conftest.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from rltui.base.interpreter import AGENT_MARKS
from rltui.core.experiment.actor import Actor
from rltui.services.actor import user_name, witnessed

_ORPHAN = """
import os, subprocess, sys
if os.fork():
    os._exit(0)
code = subprocess.call([sys.executable, "-m", "pytest", *sys.argv[2:]])
os.write(int(sys.argv[1]), str(code).encode())
"""
"""Has no parent once it starts pytest; writes the exit code into a pipe."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Start pytest again as an orphan, and return its exit code; `None` where no agent is an ancestor."""
    agent = witnessed(Actor(kind="cli", user=user_name(), pid=os.getpid()))
    if hasattr(config, "workerinput") or not agent.is_agent:
        return None
    if AGENT_MARKS.isdisjoint(os.environ):
        title = f"{agent.text} is an ancestor of all processes here, so no test can act as a person"
        raise pytest.UsageError(f"{title}; run the tests outside of it")
    if (capture := config.pluginmanager.getplugin("capturemanager")) is not None:
        capture.suspend_global_capture(in_=True)
    reading, writing = os.pipe()
    orphan = subprocess.Popen(
        [sys.executable, "-c", _ORPHAN, str(writing), *config.invocation_params.args],
        cwd=config.invocation_params.dir,
        env={name: value for name, value in os.environ.items() if name not in AGENT_MARKS},
        pass_fds=[writing],
        start_new_session=True,
    )
    os.close(writing)
    with os.fdopen(reading) as result:
        try:
            return int(result.read() or pytest.ExitCode.INTERNAL_ERROR)
        except KeyboardInterrupt:
            os.killpg(orphan.pid, signal.SIGINT)
            return int(result.read() or pytest.ExitCode.INTERRUPTED)
        finally:
            orphan.wait()
