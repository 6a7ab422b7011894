"""How an attempt that ended explains itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import ExitInfo
from rltui.daemon.attempt import Attempt
from rltui.frameworks.failures import COMMON
from rltui.services.runs.attempt_end import OomKills
from rltui.services.runs.experiment_files import ControlFolder

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of"
FAILED = ExitInfo(code=1)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    spec = ComponentSpec(id="trainer", command=["x"], kind="job")
    new_attempt = Attempt(ControlFolder(tmp_path), spec, "one", 1)
    new_attempt.log.parent.mkdir(parents=True)
    new_attempt.log.write_text(f"step 1\n{OOM} 79.19 GiB of which 0.31 GiB is free.\n")
    return new_attempt


def test_an_exit_for_want_of_memory_has_the_figures_and_its_component(attempt: Attempt) -> None:
    explained = attempt.explain_exit(FAILED, COMMON)
    assert explained.hopeless
    assert explained.memory is not None
    assert (explained.memory.component, explained.memory.local_device) == ("trainer", 1)
    assert explained.memory.tried_bytes == 2 << 30


def test_another_failure_has_no_figures(attempt: Attempt) -> None:
    attempt.log.write_text("KeyError: 'reward'\n")
    explained = attempt.explain_exit(FAILED, COMMON)
    assert (explained.cause, explained.memory) == ("KeyError: 'reward'", None)


def test_a_job_that_went_well_needs_no_cause(attempt: Attempt) -> None:
    assert attempt.explain_exit(ExitInfo(code=0), COMMON) == ExitInfo(code=0)


def test_a_kill_while_the_kernel_was_short_of_memory_says_so(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter([OomKills(3, is_own=True), OomKills(4, is_own=True)])
    monkeypatch.setattr("rltui.daemon.attempt.oom_kills", lambda: next(kills))
    monkeypatch.setattr("rltui.services.runs.attempt_end.oom_kills", lambda: next(kills))
    attempt.note_started()
    explained = attempt.explain_exit(ExitInfo(signal="SIGKILL"), COMMON)
    assert explained.cause == "killed by the kernel: out of memory, the machine's or its container's"
