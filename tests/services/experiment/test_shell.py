"""What an experiment has of the shell that it was made in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.shell import read_shell, save_shell


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_cores_are_those_of_this_process(tmp_path: Path) -> None:
    all_cores = os.sched_getaffinity(0)
    one = min(all_cores)
    control = ControlFolder(tmp_path)
    control.make()
    os.sched_setaffinity(0, {one})
    try:
        save_shell(control)
    finally:
        os.sched_setaffinity(0, all_cores)
    assert read_shell(control)["affinity"] == [one]
