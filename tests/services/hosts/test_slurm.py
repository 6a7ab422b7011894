"""What SLURM prints, in words; and the script of a job, run by a real bash."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import retry_until

from rltui.core.hosts.specs import SlurmSpec
from rltui.services.hosts import slurm

NOW = time.mktime((2026, 11, 23, 16, 0, 0, 0, 0, -1))
PENDING = """\
JobId=5 JobName=JobState=RUNNING
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=PENDING Reason=Resources Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=00:10:00 TimeMin=N/A
   StartTime=2026-11-23T16:05:00 EndTime=2026-11-23T16:15:00 Deadline=N/A
   NodeList=(null)
   Command=/home/me/my runs/job.sh
   StdOut=/home/me/my runs/job.log

"""


COUNTS_SIGNALS = """\
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("one", flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("up", flush=True)
while True: time.sleep(0.02)
"""


def spec(**values: Any) -> dict[str, Any]:
    return SlurmSpec(**values).model_dump()


def job(*changes: tuple[str, str]) -> slurm.Job:
    text = PENDING
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return slurm.parse_job(text)


def test_parse_job_reads_what_scontrol_prints() -> None:
    found = job()
    assert (found.id, found.state, found.phase) == ("5", "PENDING", "pending")
    assert found.start == NOW + 300
    assert (found.output, found.nodes) == ("/home/me/my runs/job.log", "")
    assert found.command == "/home/me/my runs/job.sh"
    with pytest.raises(ValueError, match="unexpected answer of scontrol: 'slurm_load_jobs error'"):
        slurm.parse_job("slurm_load_jobs error")


def test_parse_job_names_task_of_array() -> None:
    assert job(("JobId=5 ", "JobId=7 ArrayJobId=5 ArrayTaskId=2 ")).id == "5_2"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "waiting for free nodes (Resources), starts about 16:05"),
        ((("Resources", "Priority"), ("T16:05", "T09:05")),
         "waiting for jobs of higher priority (Priority)"),
        ((("Resources", "QOSMaxGRESPerUser"), ("2026-11-23T16:05:00", "Unknown")),
         "waiting for a limit of its account or QOS (QOSMaxGRESPerUser)"),
        ((("Resources", "BeginTime"), ("Restarts=0", "Restarts=1"), ("2026-11-23T16:05", "2026-11-24T09:05")),
         "requeued, start 2: waiting for its begin time (BeginTime), starts about Tue 24 Nov 09:05"),
        ((("Resources", "SomethingNew"), ("2026-11-23T16:05:00", "N/A")), "waiting (SomethingNew)"),
        ((("PENDING", "COMPLETING"),), "SLURM is ending its processes"),
        ((("PENDING", "RUNNING"),), ""),
    ],
)  # fmt: skip
def test_reasons_are_told_in_words(changes: tuple[tuple[str, str], ...], words: str) -> None:
    assert job(*changes).reason_text(NOW) == words


def test_ends_are_told_in_words() -> None:
    assert job(("PENDING", "TIMEOUT")).why_ended == "SLURM ended it at its time limit of 00:10:00"
    assert job(("PENDING", "COMPLETED")).why_ended == ""
    assert job(("PENDING", "OUT_OF_MEMORY")).phase == "ended"


def test_what_sbatch_is_asked() -> None:
    asked = slurm.options(
        spec(partition="gpu", time="1:00", gpus_per_node="8", options=("--constraint=h200",))
    )
    assert asked == ("--partition=gpu", "--time=1:00", "--gpus-per-node=8", "--constraint=h200")
    with pytest.raises(ValueError, match="'--output=x', which rltui sets itself"):
        slurm.options(spec(options=("--output=x",)))
    launchers = spec(script=("rl.sbatch",), partition="gpu", gpus_per_node="2")
    words = slurm.submit_command(launchers, Path("/a/job.sh"))
    assert words == ("sbatch", "--parsable", "--partition=gpu", "--gres=gpu:2", "/a/job.sh")


def test_environment_of_a_job_is_not_that_of_another() -> None:
    base = {"PATH": "/bin", "TMUX": "x", "RLTUI_EXPERIMENT": "a", "SLURM_CONF": "/c", "SLURM_NTASKS": "4"}
    assert slurm.environment(base).keys() == {"PATH", "SLURM_CONF", "SLURM_NTASKS", "SLURM_TIME_FORMAT"}
    inside = slurm.environment({**base, "SLURM_JOB_ID": "3"})
    assert inside.keys() == {"PATH", "SLURM_CONF", "SLURM_TIME_FORMAT"}


def test_token_of_login_is_read_where_huggingface_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_abc\n")
    assert slurm.saved_hub_token({"HF_HOME": str(tmp_path)}) == "hf_abc"
    assert slurm.saved_hub_token({"HF_TOKEN_PATH": str(tmp_path / "token")}) == "hf_abc"
    assert slurm.saved_hub_token({"HOME": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("program", "signals", "code"),
    [
        ("import sys; sys.exit(3)", (), 3),
        ("import os; os.kill(os.getpid(), 9)", (), 137),
        # python leaves SIGINT alone where it is ignored, as bash has it for what runs in the background
        ("import sys, time; print('up', flush=True); time.sleep(60)", ("INT",), 130),
        (COUNTS_SIGNALS, ("USR1", "TERM"), 5),
    ],
    ids=["exit code", "killed", "SIGINT", "two signals"],
)  # fmt: skip
def test_script_passes_signals_on_and_writes_the_end_down(
    tmp_path: Path, program: str, signals: tuple[str, ...], code: int
) -> None:
    text = slurm.script_text(
        spec(), name="a", argv=[sys.executable, "-c", program], cwd=str(tmp_path), folder=tmp_path
    )
    (tmp_path / "job.sh").write_text(text)
    output = tmp_path / "out"
    # A shell that starts with SIGINT ignored, as that of tests in the background, can do nothing about it.
    shell = ["env", "--default-signal=INT,QUIT", "bash", str(tmp_path / "job.sh")]
    with output.open("w") as file:
        running = subprocess.Popen(shell, stdout=file, stderr=file)
    for name, said in zip(signals, ("up", "one"), strict=False):
        retry_until(_says(output, said))
        subprocess.run(["kill", "-s", name, str(running.pid)], check=True)
    assert running.wait(20.0) == code
    assert slurm.recorded_end(tmp_path, 0) == code
    assert slurm.recorded_end(tmp_path, 1) is None


def _says(output: Path, text: str) -> Callable[[], bool]:
    return lambda: text in output.read_text()


def test_names_with_blanks_and_percent_signs_survive(tmp_path: Path) -> None:
    folder = tmp_path / "50 % of it"
    folder.mkdir()
    text = slurm.script_text(spec(), name="my job", argv=["true"], cwd=str(folder), folder=folder)
    assert f'#SBATCH --output="{tmp_path}/50 %% of it/job.log"' in text
    assert '#SBATCH --job-name="my job"' in text
    (folder / "job.sh").write_text(text)
    subprocess.run(["bash", str(folder / "job.sh")], check=True)
    assert slurm.recorded_end(folder, 0) == 0


def test_several_nodes_are_reached_by_srun(tmp_path: Path) -> None:
    text = slurm.script_text(
        spec(nodes="2", cpus_per_task="4"), name="a", argv=["train"], cwd="/w", folder=tmp_path
    )
    assert "exec srun --kill-on-bad-exit=1 --unbuffered --cpus-per-task=4 train)" in text


def test_found_is_the_job_of_this_script() -> None:
    printed = "12 /a/job.sh\n13 /a b/job.sh\n"
    assert slurm.find_job_number(printed, Path("/a b/job.sh")) == "13"
    assert slurm.find_job_number(printed, Path("/job.sh")) is None


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("node1", "node1"),
        ("gpu[08-10,12],login-1", "gpu08 gpu09 gpu10 gpu12 login-1"),
        ("r[1-2]n[3,5]-ib", "r1n3-ib r1n5-ib r2n3-ib r2n5-ib"),
        ("", ""),
    ],
)
def test_nodes_of_a_list_are_named(listed: str, names: str) -> None:
    assert slurm.node_names(listed) == tuple(names.split())


@pytest.mark.parametrize("listed", ["a[1-x]", "a[]", "a[1-99999999]"])
def test_what_is_no_list_of_nodes_is_refused(listed: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        slurm.node_names(listed)


def test_step_does_not_take_itself_for_one_of_the_job_that_we_run_in() -> None:
    step = ("srun", "--overlap", "--jobid=7", "--nodelist=n1", "--nodes=1", "--ntasks=1")
    assert slurm.step_argv("7", "n1", {"PATH": "/bin"}) == step
    inside = {"PATH": "/bin", "SLURM_JOB_ID": "3", "SLURM_NNODES": "4", "SLURM_CONF": "/c"}
    assert slurm.step_argv("7", "n1", inside) == ("env", "-u", "SLURM_JOB_ID", "-u", "SLURM_NNODES", *step)
