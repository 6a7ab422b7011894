"""Components have the limits and the environment of the shell that started their experiment."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

LAYOUT = """\
framework = "generic"
[[component]]
id = "teller"
command = ["{python}", "-u", "{workspace}/tell.py"]
"""
TELL = """\
import json, os, resource, time
umask = os.umask(0)
print(json.dumps({
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "cpus": sorted(os.sched_getaffinity(0)), "umask": umask, "nice": os.nice(0),
    "long": [len(os.environ.get(f"LONG{size}", "")) for size in (7, 20, 120)],
}), flush=True)
time.sleep(1000)
"""


def teller_output(box: Box, name: str) -> str:
    return retry_until(lambda: box.run("logs", name, "-c", "teller").stdout.strip())


def up(box: Box, name: str, before: str) -> subprocess.CompletedProcess[str]:
    """Run `rltui up` from a shell that did `before`."""
    command = f"{before}; exec {sys.executable} -m rltui up run.toml -l teller.toml -n {name} -o {name}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=box.work,
        env=box.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def teller(box: Box) -> Box:
    (box.work / "teller.toml").write_text(LAYOUT)
    (box.work / "tell.py").write_text(TELL)
    (box.work / "run.toml").write_text("max_steps = 3\n")
    return box


@pytest.mark.slow
def test_each_experiment_has_the_limits_of_its_own_shell(teller: Box) -> None:
    """Findings F6 and F7: all had those of the shell that started the tmux server."""
    cpus = sorted(os.sched_getaffinity(0))
    first = up(teller, "one", f"ulimit -Sn 300; ulimit -Sc 0; umask 027; taskset -cp {cpus[0]} $$ >/dev/null")
    assert first.returncode == 0, first.stderr
    long = {f"LONG{size}": "x" * size * 1000 for size in (7, 20, 120)}
    second = up(
        replace(teller, env={**teller.env, **long}), "two", "ulimit -Sn 512; umask 077; renice 5 $$ >&2"
    )
    assert second.returncode == 0, second.stderr
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    core = resource.getrlimit(resource.RLIMIT_CORE)[0]
    expected = {
        "one": {
            "files": [300, hard],
            "core": 0,
            "cpus": cpus[:1],
            "umask": 0o27,
            "nice": 0,
            "long": [0, 0, 0],
        },
        "two": {"files": [512, hard], "core": core, "cpus": cpus, "umask": 0o77, "nice": 5}
        | {"long": [7000, 20000, 120000]},
    }
    for name, values in expected.items():
        assert str(values).replace("'", '"') == teller_output(teller, name)


@pytest.mark.slow
def test_too_low_a_limit_is_said_before_anything_is_made(teller: Box) -> None:
    """Finding F5: with too few descriptors the experiment was made and could not start."""
    refusal = up(teller, "one", "ulimit -n 24")
    assert refusal.returncode == 1
    assert "this shell allows 24 open files" in refusal.stderr
    assert not (teller.work / "one").exists()


@pytest.mark.slow
def test_what_cannot_be_had_is_said_in_the_log(teller: Box) -> None:
    """The tmux server of the first shell may open fewer files than the second shell."""
    if os.getuid() == 0:
        pytest.skip("root raises any limit")
    assert up(teller, "one", "ulimit -n 200").returncode == 0
    assert up(teller, "two", "ulimit -n 1000").returncode == 0
    assert "the limit NOFILE is 200 instead of 1000" in teller_output(teller, "two")
