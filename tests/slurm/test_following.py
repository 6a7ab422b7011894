"""The remote runner of a job, on a real SLURM: submitted, queued, run, ended, cancelled, taken up again."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.remote_attempt import RemoteAttempt
from tests.slurm.rig import Rig
from tests.waiting import retry_until

from rltui.core.hosts.specs import SlurmSpec
from rltui.services.hosts.job_arrays import ArrayMember, make_array
from rltui.services.hosts.job_status import JobStatus
from rltui.services.hosts.slurm import step_argv

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]

STUBBORN = """\
import signal, sys, time
asked = []
def note(number, frame):
    asked.append(signal.Signals(number).name)
    print("asked by", asked[-1], flush=True)
    if len(asked) == int(sys.argv[1]):
        sys.exit(7)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, note)
print("begun", flush=True)
while True:
    time.sleep(0.05)
"""


class Attempt(RemoteAttempt):
    """One attempt whose component is a job of `rig`."""

    def __init__(self, folder: Path, rig: Rig) -> None:
        super().__init__(folder, env=rig.env)

    def specify(self, *argv: str, stop: dict[str, Any] | None = None, **slurm: Any) -> None:
        host = {"kind": "slurm", "forward": [], **SlurmSpec(**slurm).model_dump()}
        stop = {"signal": "SIGINT", "grace_s": 30.0, **(stop or {})}
        env = {"GREETING": "good day"}
        self.write_spec(argv, host, component="rl", cwd=str(self.folder), env=env, stop=stop)

    def start(self, *argv: str, **options: Any) -> None:
        self.specify(*argv, **options)
        self.follow()

    def ended(self, timeout_s: float = 60.0) -> tuple[int, JobStatus]:
        return self.code(timeout_s), self.status


@pytest.fixture
def attempt(rig: Rig, tmp_path: Path) -> Iterator[Attempt]:
    made = Attempt(tmp_path, rig)
    yield made
    made.end()


def test_run_reports_job_output_and_exit_code(attempt: Attempt) -> None:
    attempt.start(
        "bash", "-c", 'echo "$GREETING from $SLURM_JOB_ID ${RLTUI_EXPERIMENT-}"; exit 3', cpus_per_task="2"
    )
    code, remote = attempt.ended()
    assert (code, remote.exit_code, remote.signal, remote.error) == (3, 3, None, None)
    assert remote.where.startswith(f"job {remote.id} on node")
    assert attempt.log == f"good day from {remote.id} \n"
    assert remote.starts == 1


def test_run_tells_signal_that_ended_command(attempt: Attempt) -> None:
    attempt.start("bash", "-c", "kill -SEGV $$")
    code, remote = attempt.ended()
    assert (code, remote.exit_code, remote.signal) == (128 + signal.SIGSEGV, None, "SIGSEGV")


def test_refused_job_is_told_in_slurms_words(attempt: Attempt) -> None:
    attempt.start("true", partition="nix")
    code, remote = attempt.ended()
    assert code == 127
    assert remote.id == ""
    assert (
        remote.error
        == "SLURM rejected the job: Batch job submission failed: Invalid partition name specified"
    )


def test_queue_is_told_with_reason_and_cancelled_at_once(attempt: Attempt, rig: Rig) -> None:
    rig.fill()
    attempt.start("sleep", "600")
    remote = attempt.until(lambda remote: "waiting for free nodes (Resources), starts about" in remote.reason)
    assert remote.phase == "pending"
    attempt.signal()
    _, remote = attempt.ended()
    assert (remote.phase, remote.starts, remote.error) == ("ended", 0, None)
    assert "CANCELLED" in rig.say("scontrol", "show", "job", remote.id)


def test_stop_passes_signal_to_command_and_keeps_its_exit_code(attempt: Attempt) -> None:
    attempt.start(sys.executable, "-c", STUBBORN, "1")
    attempt.wait_for_output("begun")
    attempt.signal()
    code, remote = attempt.ended()
    assert (code, remote.exit_code, remote.error) == (7, 7, None)
    assert attempt.log == "begun\nasked by SIGINT\n"


def test_stop_cancels_job_after_grace(attempt: Attempt) -> None:
    attempt.start(sys.executable, "-c", STUBBORN, "5", stop={"grace_s": 2.0, "again_s": 1.0})
    attempt.wait_for_output("begun")
    attempt.signal()
    _, remote = attempt.ended()
    assert attempt.log.count("asked by SIGINT") == 2
    assert "asked by SIGTERM" in attempt.log
    assert remote.phase == "ended"


def test_kill_ends_job_at_once(attempt: Attempt) -> None:
    attempt.start(sys.executable, "-c", STUBBORN, "5")
    attempt.wait_for_output("begun")
    attempt.signal(signal.SIGUSR1)
    code, remote = attempt.ended()
    assert "asked" not in attempt.log
    assert (code, remote.phase, remote.signal) == (128 + signal.SIGKILL, "ended", "SIGKILL")


def test_successor_of_killed_runner_takes_job_up(attempt: Attempt, rig: Rig) -> None:
    attempt.start("bash", "-c", "for i in $(seq 60); do echo line $i; sleep 0.1; done; exit 4")
    attempt.wait_for_output("line 5")
    attempt.kill()
    attempt.follow()
    code, _ = attempt.ended()
    assert code == 4
    assert attempt.log == "".join(f"line {number}\n" for number in range(1, 61))
    submitted = rig.say("squeue", "-h", "-t", "all", "-o", "%o").splitlines()
    assert submitted.count(str(attempt.folder / "job.sh")) == 1


def test_successor_finds_job_whose_number_was_never_written(attempt: Attempt, rig: Rig) -> None:
    attempt.start("bash", "-c", "echo begun; sleep 600")
    before = attempt.until(lambda remote: bool(remote.id))
    attempt.kill()
    (attempt.folder / "remote.json").unlink()
    attempt.follow()
    assert attempt.until(lambda remote: bool(remote.id)).id == before.id
    assert rig.say("squeue", "-h", "-n", "exp-rl", "-o", "%i").split() == [before.id]


def test_silent_controller_is_no_end(attempt: Attempt, rig: Rig) -> None:
    attempt.start("bash", "-c", "echo begun; sleep 15; echo over; exit 5")
    attempt.wait_for_output("begun")
    attempt.until(lambda remote: remote.phase == "running")
    rig.stop_controller()
    lost = attempt.until(lambda remote: remote.lost_at is not None, timeout_s=60.0)
    assert lost.phase == "running"
    assert lost.problem == "Unable to contact slurm controller (connect failure)"
    attempt.wait_for_output("over")  # the output comes from the file
    rig.start_controller()
    code, remote = attempt.ended(90.0)
    assert (code, remote.exit_code, remote.lost_at) == (5, 5, None)


def test_preempted_job_is_queued_again_and_started_again(attempt: Attempt, rig: Rig) -> None:
    attempt.start(
        "bash", "-c", "echo start ${SLURM_RESTART_COUNT:-0}; sleep 600", nodes="2", options=("--exclusive",)
    )
    attempt.wait_for_output("start 0")
    attempt.until(lambda remote: remote.phase == "running")
    urgent = rig.submit("-p", "urgent", "-N1", "--exclusive")
    told: list[int] = []

    def is_queued(remote: JobStatus) -> bool:
        told.append(remote.starts)
        return remote.phase == "pending"

    queued = attempt.until(is_queued)
    assert set(told) == {1}  # while its processes are ended, it is not started again yet
    assert queued.starts == 1
    assert queued.reason.startswith("requeued, start 2: waiting for its begin time (BeginTime)")
    rig.say("scancel", urgent)
    rig.hurry(queued.id)
    again = attempt.until(lambda remote: remote.phase == "running" and remote.starts == 2)
    assert again.id == queued.id
    attempt.wait_for_output("start 1")
    assert "start 0" in attempt.log


def test_cancelled_from_outside_is_told(attempt: Attempt, rig: Rig) -> None:
    attempt.start("sleep", "600")
    remote = attempt.until(lambda remote: remote.phase == "running")
    rig.say("scancel", remote.id)
    _, remote = attempt.ended()
    assert remote.error == "cancelled in SLURM"


def test_script_of_launcher_is_submitted_and_truncated_output_read_once(attempt: Attempt, rig: Rig) -> None:
    """A launcher such as prime-rl's writes its script, which may begin its log anew when it is requeued."""
    (attempt.folder / "launch").write_text(
        '#!/bin/bash\n[ "$1" = --dry-run ] || exit 9\necho "Dry run complete"\n'
        f"cat > rl.sbatch <<'END'\n#!/bin/bash\n#SBATCH --output={attempt.folder}/job_%j.log\n"
        'trap "echo told; exit 0" TERM\necho "start ${SLURM_RESTART_COUNT:-0} in $SLURM_JOB_PARTITION $PWD"\n'
        "while :; do sleep 0.1; done\nEND\n"
    )
    (attempt.folder / "launch").chmod(0o755)
    attempt.start("./launch", script=("rl.sbatch",), partition="urgent")
    attempt.wait_for_output(f"start 0 in urgent {attempt.folder}\n")
    remote = attempt.until(lambda remote: remote.phase == "running")
    rig.say("scontrol", "requeue", remote.id)
    attempt.until(lambda remote: remote.phase == "pending" and remote.starts == 1)
    rig.hurry(remote.id)
    attempt.wait_for_output("start 1")
    attempt.signal()
    code, remote = attempt.ended()
    assert code == 0
    assert attempt.log.count("start 0") == attempt.log.count("start 1") == attempt.log.count("Dry run") == 1
    assert "told" in attempt.log


def test_stop_that_nobody_answers_is_given_up_and_taken_up_again(attempt: Attempt, rig: Rig) -> None:
    """The job may go on: so the runner ends, and does not say that the job has."""
    attempt.start("bash", "-c", "echo begun; sleep 600")
    attempt.until(lambda remote: remote.phase == "running")
    rig.stop_controller()
    attempt.signal()
    code, remote = attempt.ended(120.0)
    assert (code, remote.phase) == (255, "running")
    assert remote.problem == "Unable to contact slurm controller (connect failure)"
    rig.start_controller()
    attempt.follow()
    attempt.until(lambda remote: remote.lost_at is None)
    attempt.signal()
    _, remote = attempt.ended()
    assert remote.phase == "ended"


def test_job_that_is_there_already_is_followed(attempt: Attempt, rig: Rig) -> None:
    output = attempt.folder / "mine.log"
    number = rig.submit("-o", str(output), script="echo mine; sleep 3; exit 6")
    attempt.start("unused", job=number)
    code, remote = attempt.ended()
    assert (code, remote.id, attempt.log) == (6, number, "mine\n")


def test_task_of_an_array_is_followed_and_its_nodes_are_reached(attempt: Attempt, rig: Rig) -> None:
    output = attempt.folder / "%a.log"
    number = rig.submit("--array=0-1", "-o", str(output), script="echo mine; sleep 6; exit 6")
    task = f"{number}_1"
    attempt.start("unused", job=task)
    remote = attempt.until(lambda remote: bool(remote.nodes))
    within = rig.say(*step_argv(task, remote.nodes, {}), "printenv", "SLURM_JOB_ID")
    assert within == rig.say("squeue", "-h", "-j", task, "-o", "%A") != ""
    code, remote = attempt.ended()
    assert (code, remote.id, attempt.log) == (6, task, "mine\n")


@pytest.fixture
def pair(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Attempt, Attempt]]:
    """Two attempts that are to be one array."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = make_array("both", "rl", size=2, limit=None)
    made = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        made.append(Attempt(tmp_path / str(number), rig))
        made[-1].specify("bash", "-c", f"echo begun {number}; sleep 600", array=f"{folder}:{number}")
    one, other = made
    yield one, other
    one.end()
    other.end()


def place_of(attempt: Attempt) -> str:
    """In the array."""
    return str(json.loads((attempt.folder / "spec.json").read_bytes())["elsewhere"]["host"]["array"])


def test_array_is_submitted_once_also_if_its_number_was_never_written(
    pair: tuple[Attempt, Attempt], rig: Rig
) -> None:
    one, other = pair
    one.follow()
    one.until(lambda remote: remote.reason == "waiting for 1 more run of its sweep, to form one job array")
    other.follow()
    for attempt in pair:
        attempt.until(lambda remote: bool(remote.id))
        attempt.kill()
        (attempt.folder / "remote.json").unlink()
    place = ArrayMember(place_of(one))
    array = place.read()
    assert array is not None
    assert array.job
    place.write(replace(array, job=""))
    for number, attempt in enumerate(pair):
        attempt.follow()
        assert attempt.until(lambda remote: bool(remote.id)).id == f"{array.job}_{number}"
        attempt.wait_for_output(f"begun {number}\n")
        attempt.signal()
        assert attempt.ended()[1].phase == "ended"
        assert attempt.log.count("begun") == 1
    known = rig.say(
        "squeue", "-hr", "-t", "all", "-n", "both", "-o", "%F"
    ).split()  # it forgets what has ended
    assert set(known) <= {array.job}, "submitted again"


def test_who_stops_before_is_not_in_the_array(pair: tuple[Attempt, Attempt], rig: Rig) -> None:
    one, other = pair
    one.follow()
    one.until(lambda remote: "waiting for 1 more run" in remote.reason)
    one.signal()
    assert one.ended()[1].id == ""
    other.follow()
    assert other.until(lambda remote: bool(remote.id)).id.endswith("_1")
    one.follow()  # too late: by itself
    assert "_" not in one.until(lambda remote: bool(remote.id)).id


def test_refused_array_is_told_to_all_of_it(pair: tuple[Attempt, Attempt], rig: Rig) -> None:
    for attempt in pair:
        attempt.start("true", partition="nix", array=place_of(attempt))
    for attempt in pair:
        code, remote = attempt.ended()
        assert code == 127
        assert remote.error == (
            "SLURM rejected the job: Batch job submission failed: Invalid partition name specified"
        )

    (pair[0].folder / "again").mkdir()
    again = Attempt(pair[0].folder / "again", rig)
    again.start("true", array=place_of(pair[0]))
    code, remote = again.ended()
    assert (code, "_" in remote.id) == (0, False)


def test_token_of_login_reaches_the_job_and_no_file(
    attempt: Attempt, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = attempt.folder / "hf"
    home.mkdir()
    (home / "token").write_text("hf_secret\n")
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    attempt.start("bash", "-c", 'echo "${#HF_TOKEN} letters"', auto_auth=True)
    attempt.ended()
    assert attempt.log == "9 letters\n"
    written = [path for path in attempt.folder.iterdir() if path.is_file()]
    assert not [path for path in written if b"hf_secret" in path.read_bytes()]


def test_time_limit_is_told_as_such(attempt: Attempt, rig: Rig) -> None:
    attempt.start("sleep", "600", time="1")
    attempt.until(lambda remote: remote.ends_at is not None)
    _, remote = attempt.ended(150.0)
    assert remote.exit_code is None  # SLURM says 0:15, 0:0 or 255:0: in any case it is no success
    assert remote.error == "SLURM ended it at its time limit of 00:01:00"


def test_job_on_two_nodes_runs_by_srun_and_gets_its_signal_on_each(attempt: Attempt, rig: Rig) -> None:
    program = "trap 'echo told on $SLURMD_NODENAME; exit 0' INT; echo begun; while :; do sleep 0.1; done"
    attempt.start("bash", "-c", program, nodes="2")
    retry_until(lambda: attempt.log.count("begun") == 2, timeout_s=40.0)
    attempt.signal()
    _, remote = attempt.ended()
    assert "told on node1" in attempt.log
    assert "told on node2" in attempt.log
    assert remote.where == f"job {remote.id} on node[1-2]"
