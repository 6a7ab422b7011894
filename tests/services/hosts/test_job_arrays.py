"""Jobs of a sweep as one array: who is in it, who is not, and its script, run by a real bash."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rltui.services.hosts.job_arrays import ArrayMember, JobArray, Task, array_script, make_array

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=run-{number}
#SBATCH --output={folder}/{number}.log
#SBATCH --partition={partition}
# a word of its launcher
#SBATCH --gres=gpu:2

echo "{number} with ${{SEED-none}} in ${{PLACE-nowhere}}"
#SBATCH --time=1
"""


def task(folder: Path, number: int, *, since: float = 0.0, partition: str = "main", **env: str) -> Task:
    script = folder / f"{number}.sh"
    script.write_text(SCRIPT.format(number=number, folder=folder, partition=partition))
    return Task(str(script), str(folder / f"{number}.log"), env, since)


def array_of(*tasks: Task, size: int = 3, limit: int | None = None) -> JobArray:
    array = JobArray("s", "rl", size, limit)
    for number, each in enumerate(tasks):
        array = array.with_task(number, each)
    return array


def test_array_waits_for_all_and_not_for_ever(tmp_path: Path) -> None:
    one, two, three = (task(tmp_path, number, since=100.0 + number) for number in range(3))
    assert array_of(one, two).awaited_count(101.0) == 1
    assert array_of(one, two).awaited_count(161.5) == 0
    assert array_of(one, two, three).awaited_count(103.0) == 0
    left = array_of(one, two).without(0)
    assert (left.awaited_count(101.0), left.has(0, one.script), left.has(1, two.script)) == (1, False, True)
    assert left.with_task(2, three).awaited_count(103.0) == 0


def test_closed_array_takes_nobody_and_leaves_out_who_asks_for_something_else(tmp_path: Path) -> None:
    one, two, other = task(tmp_path, 0), task(tmp_path, 1), task(tmp_path, 2, partition="big")
    closed = array_of(one, two, other).closed(1)
    assert sorted(closed.tasks) == [0, 1]
    assert closed.with_task(2, two) is closed
    again = replace(one, script=str(tmp_path / "attempt-2.sh"))
    assert not closed.has(0, again.script)
    assert array_of(one).with_task(0, again).has(0, again.script)


def test_array_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = make_array("s", "rl", size=3, limit=2)
    place = ArrayMember(f"{folder}:1")
    assert place.read() == JobArray("s", "rl", 3, 2)
    array = replace(array_of(task(tmp_path, 0, SEED="1"), limit=2), job="7", is_closed=True)
    place.write(array)
    assert ArrayMember(f"{folder}:0").read() == array
    (folder / "array.json").write_text("{")
    assert place.read() is None
    with pytest.raises(ValueError, match="is not a task"):
        ArrayMember("somewhere:3")

    os.utime(folder, (0, 0))
    make_array("t", "rl", size=1, limit=None)
    assert not folder.exists()


def test_script_asks_once_and_runs_each_in_its_own_environment(tmp_path: Path) -> None:
    tasks = task(tmp_path, 0, PLACE="here"), task(tmp_path, 1, SEED="it's $1\nand more")
    text = array_script(array_of(*tasks, limit=1), 0)
    asked = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert asked == [
        "#SBATCH --job-name=s",
        "#SBATCH --array=0,1%1",
        "#SBATCH --output=/dev/null",
        "#SBATCH --partition=main",
        "#SBATCH --gres=gpu:2",
    ]
    assert "--job-name=mine\n" in array_script(array_of(*tasks), 0, name="mine")
    for number in "01":
        env = {"PATH": os.environ["PATH"], "PLACE": "here", "SLURM_ARRAY_TASK_ID": number}
        subprocess.run(["bash", "-c", text], env=env, check=True, timeout=30)
    assert (tmp_path / "0.log").read_text() == "0 with none in here\n"
    assert (tmp_path / "1.log").read_text() == "1 with it's $1\nand more in nowhere\n"
