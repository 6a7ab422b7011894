"""Jobs of SLURM: the script and command that submit one, and the parsing of SLURM's output.

The remote runner of a job imports it, so it needs no third-party package. Times are seconds since 1970.
"""

from __future__ import annotations

import getpass
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.base.interpreter import OUTER_VARIABLES
from rltui.base.kinds import one_line
from rltui.core.experiment.states import HostPhase

SCRIPT_FILE = "job.sh"
"""The submitted script, in the attempt's folder. As the command of the job it identifies the attempt in
SLURM.
"""
LOG_FILE = "job.log"
"""Output of a script of ours, in the attempt's folder."""
END_FILE = "job.end"
"""One line per finished start of a script of ours, with restart count and exit code, in the attempt's
folder.
"""

_OPTIONS = (
    "partition", "account", "qos", "time", "nodes", "tasks_per_node", "gpus_per_node", "cpus_per_task", "mem",
    "nodelist", "exclude", "dependency",
)  # fmt: skip
_SBATCH_NAMES = {"tasks_per_node": "ntasks-per-node"}
_RESERVED_OPTIONS = (
    "--output", "-o", "--error", "-e", "--open-mode", "--array", "-a", "--wait", "-W", "--parsable",
)  # fmt: skip
"""Options that a layout cannot have: they would hide the job's files from its runner."""

_PENDING = {
    "PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
}  # fmt: skip
_ENDED = {
    "COMPLETED": "",
    "FAILED": "",
    "CANCELLED": "cancelled in SLURM",
    "TIMEOUT": "SLURM ended it at its time limit",
    "DEADLINE": "SLURM ended it at its deadline",
    "PREEMPTED": "SLURM preempted it for a job of higher priority",
    "NODE_FAIL": "a node of the job failed",
    "BOOT_FAIL": "a node of the job did not boot",
    "OUT_OF_MEMORY": "it used more memory than the job was given",
    "REVOKED": "it moved to another cluster",
    "LAUNCH_FAILED": "SLURM could not launch it",
    "RECONFIG_FAIL": "SLURM could not reconfigure a node for it",
}
"""Text about an end, in addition to code and signal."""
_WHILE_RUNNING = {
    "SUSPENDED": "suspended in SLURM",
    "STOPPED": "stopped in SLURM",
    "COMPLETING": "SLURM is ending its processes",
    "STAGE_OUT": "SLURM is moving its files",
}

_REASONS = {
    "None": "waiting for the scheduler",
    "Priority": "waiting for jobs of higher priority",
    "Resources": "waiting for free nodes",
    "Dependency": "waiting for another job",
    "DependencyNeverSatisfied": "never starts: the job it depends on did not end as required",
    "BeginTime": "waiting for its begin time",
    "JobHeldUser": "held by its user: `scontrol release` releases it",
    "JobHeldAdmin": "held by an administrator",
    "JobHoldMaxRequeue": "held: it was requeued too often",
    "JobArrayTaskLimit": "waiting for other tasks of its array",
    "Licenses": "waiting for a licence",
    "Reservation": "waiting for its reservation",
    "ReqNodeNotAvail": "waiting for nodes that are down, drained or reserved",
    "NodeDown": "waiting for a node that is down",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition accepts no jobs",
    "PartitionNodeLimit": "never starts: it asks for more nodes than the partition has or allows",
    "PartitionTimeLimit": "never starts: it asks for more time than the partition allows",
    "BadConstraints": "never starts: no node meets its constraints",
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "waiting for nodes that are down, drained or reserved"
    ),
    "NonZeroExitCode": "requeued after it failed",
    "SystemFailure": "SLURM failed to start it",
    "launch_failed_requeued_held": "held: SLURM failed to start it",
    "InvalidAccount": "never starts: its account is invalid",
    "InvalidQOS": "never starts: its QOS is invalid",
    "Prolog": "the nodes are being prepared",
    "BurstBufferStageIn": "its files are being staged in",
    "FrontEndDown": "waiting for a front-end node that is down",
    "Cleaning": "its previous start is being cleaned up",
}
"""Meanings of SLURM's reasons for a pending job; those that begin with QOS, Assoc or Max are limits."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as `scontrol show job` prints it."""

    id: str
    state: str
    """State in SLURM's notation: `PENDING`, `RUNNING`, `NODE_FAIL`."""
    reason: str = "None"
    restarts: int = 0
    """Number of times that it was requeued."""
    start: float | None = None
    """Actual or expected start."""
    end: float | None = None
    """Time at which its time limit ends."""
    time_limit: str = ""
    nodes: str = ""
    exit_code: int = 0
    signal: int = 0
    """Number of the signal; 0: none."""
    output: str = ""
    """Path of its output file, as seen by its nodes."""
    command: str = ""

    @property
    def phase(self) -> HostPhase:
        if self.state in _ENDED:
            return "ended"
        return "pending" if self.state in _PENDING else "running"

    @property
    def why_ended(self) -> str:
        """Text in addition to code and signal; empty if those suffice."""
        text = _ENDED.get(self.state, "")
        return f"{text} of {self.time_limit}" if self.state == "TIMEOUT" and self.time_limit else text

    def reason_text(self, now: float) -> str:
        """The reason why it is pending and when it is expected to start, or a note while it runs."""
        if self.phase != "pending":
            return _WHILE_RUNNING.get(self.state, "")
        if self.state == "CONFIGURING":
            return f"{self.nodes or 'its nodes'}: being prepared"
        requeue_text = f"requeued, start {self.restarts + 1}: " if self.restarts else ""
        start = f", starts about {_clock(self.start, now)}" if self.start and self.start > now else ""
        return f"{requeue_text}{_reason_text(self.reason)} ({self.reason}){start}"


def _reason_text(code: str) -> str:
    if code in _REASONS:
        return _REASONS[code]
    if code.startswith(("QOS", "Assoc", "Max", "GrpAssoc")):
        return "waiting for a limit of its account or QOS"
    return _REASONS.get(code.partition(",")[0], "waiting")


def _clock(moment: float, now: float) -> str:
    local_time = time.localtime(moment)
    today = time.localtime(now)
    is_today = (local_time.tm_year, local_time.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if is_today else "%a %d %b %H:%M", local_time)


def parse_job(text: str) -> Job:
    """Parse the first job in the output of `scontrol show job`.

    Raises:
        ValueError: if there is no job.
    """
    record = text.strip().partition("\n\n")[0]
    values: dict[str, str] = {}
    for line in record.splitlines():
        line = line.strip()
        if line.startswith(("StdOut=", "Command=")):  # may have blanks in it
            name, _, value = line.partition("=")
            values.setdefault(name, value)
            continue
        for item in line.split():
            name, equals, value = item.partition("=")
            if equals:
                values.setdefault(name, value)
    try:
        code, _, signal_ = values.get("ExitCode", "0:0").partition(":")
        task = values.get("ArrayTaskId", "")
        return Job(
            id=f"{values['ArrayJobId']}_{task}" if task.isdecimal() else values["JobId"],
            state=values["JobState"],
            reason=values.get("Reason", "None"),
            restarts=int(values.get("Restarts", "0")),
            start=_time(values.get("StartTime", "")),
            end=_time(values.get("EndTime", "")),
            time_limit=values.get("TimeLimit", ""),
            nodes="" if (nodes := values.get("NodeList", "")) == "(null)" else nodes,
            exit_code=int(code),
            signal=int(signal_ or 0),
            output=values.get("StdOut", ""),
            command=values.get("Command", ""),
        )
    except (LookupError, ValueError) as error:
        raise ValueError(f"unexpected answer of scontrol: {text[:200]!r}") from error


def _time(text: str) -> float | None:
    """Parse the standard format, in this machine's zone; `None`: unknown, or invalid."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` for SLURM's commands: without variables that say that we are in a job, in tmux or a component
    ourselves, and with one format for times.
    """
    is_in_job = "SLURM_JOB_ID" in base
    job_variables_kept = {"SLURM_CONF", "SLURM_CLUSTERS"}
    return {
        name: value
        for name, value in base.items()
        if name not in OUTER_VARIABLES
        and not (is_in_job and name.startswith("SLURM_") and name not in job_variables_kept)
    } | {"SLURM_TIME_FORMAT": "standard"}


def saved_hub_token(env: Mapping[str, str]) -> str | None:
    """The token that Hugging Face's programs store: at `HF_TOKEN_PATH`, else in their home folder."""
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "~")).expanduser() / ".cache/huggingface")
    path = Path(env.get("HF_TOKEN_PATH") or home / "token")
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def options(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The options for sbatch in a layout's `slurm` table.

    Raises:
        ValueError: for an option that rltui needs for itself.
    """
    table_options = tuple(
        f"--{_SBATCH_NAMES.get(name, name.replace('_', '-'))}={spec[name]}"
        for name in _OPTIONS
        if spec.get(name)
    )
    for option in spec["options"]:
        if option.partition("=")[0] in _RESERVED_OPTIONS:
            raise ValueError(f"slurm: options has {option!r}, which rltui sets itself: leave it out")
    return (*table_options, *spec["options"])


def step_argv(job: str, node: str, base: Mapping[str, str]) -> tuple[str, ...]:
    """Arguments before a command that run it once in a running job, on one of its nodes, in addition to all
    that runs there. `base`: the environment of the caller.
    """
    misleading = sorted(base.keys() - environment(base).keys())
    unset_prefix = (
        ("env", *(argument for name in misleading for argument in ("-u", name))) if misleading else ()
    )
    srun: tuple[str, ...] = ("srun", "--overlap", f"--jobid={job}")
    if "_" in job:  # a task of an array, which srun knows by its own number alone
        number = 'number=$(squeue --noheader --jobs="$0" --format=%A) || exit'
        srun = ("sh", "-c", f'{number}; exec srun --overlap --jobid="$number" "$@"', job)
    return (*unset_prefix, *srun, f"--nodelist={node}", "--nodes=1", "--ntasks=1")


_LONGEST_NODES = 4096
"""Limit of nodes in one range: a longer one is no list of nodes."""


def node_names(node_list: str) -> tuple[str, ...]:
    """The nodes of a list in SLURM's notation, `a[08-10,12],b2`, in its order.

    Raises:
        ValueError: if it is none.
    """
    names: list[str] = []
    for item in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", node_list):
        names_so_far = [""]
        for text, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", item):
            suffixes = [text] if text else list(_numbers(ranges))
            names_so_far = [prefix + suffix for prefix in names_so_far for suffix in suffixes]
        names += names_so_far
    return tuple(names)


def _numbers(ranges: str) -> Iterator[str]:
    """Expand `08-10,12`, with the same number of digits."""
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        if int(last or first) - int(first) > _LONGEST_NODES:
            raise ValueError(f"not a list of nodes: {ranges!r}")
        yield from (f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1))


def job_name(tag: str, component: str) -> str:
    return f"{tag.partition('@')[0]}-{component}"


def submit_command(spec: Mapping[str, Any], script: Path) -> tuple[str, ...]:
    """A command that prints the number of the job. A script of ours contains its options; on the command line
    they override those in a launcher's script.
    """
    launcher_options = options(spec) if spec["script"] else ()
    # The scripts of launchers say --gres, beside which --gpus-per-node would be asked for, too.
    arguments = (option.replace("--gpus-per-node=", "--gres=gpu:") for option in launcher_options)
    return ("sbatch", "--parsable", *arguments, str(script))


def is_parallel(spec: Mapping[str, Any]) -> bool:
    """True if the command runs more than once, by `srun`."""
    return any(spec.get(name) not in ("", "1") for name in ("nodes", "tasks_per_node"))


def script_text(spec: Mapping[str, Any], *, name: str, argv: Sequence[str], cwd: str, folder: Path) -> str:
    """The script for a job that runs `argv`, with its files in `folder`.

    It forwards the signals that `scancel --batch` sends to the command, and records how each start ended.

    Raises:
        ValueError: for an option that rltui needs for itself, or that is no single line.
    """
    directives = [
        f"--job-name={spec['job_name'] or name}",
        f"--output={_pattern(folder / LOG_FILE)}",
        "--open-mode=append",
        *options(spec),
    ]
    step = ["srun", "--kill-on-bad-exit=1", "--unbuffered"] if is_parallel(spec) else []
    if step and spec.get("cpus_per_task"):  # SLURM 22.05 and later: a step does not inherit it
        step.append(f"--cpus-per-task={spec['cpus_per_task']}")
    command = shlex.join([*step, *argv])
    return "\n".join(
        [
            "#!/bin/bash",
            *map(directive, directives),
            "",
            f"cd -- {shlex.quote(cwd)} || exit 127",
            "",
            "# `scancel --batch --signal=…` is meant for the command. It runs in the background: this shell",
            "# would handle signals only at its end. That disables INT and QUIT, so they are restored below.",
            "command= early= passed=",
            "pass_on() {",
            '    [ -n "$command" ] || { early=$1; return; }',
            '    passed=$1; kill -s "$1" "$command" 2>/dev/null',
            "}",
            'for name in INT TERM HUP QUIT USR1 USR2; do trap "pass_on $name" "$name"; done',
            f"(trap - INT TERM HUP QUIT USR1 USR2; exec {command}) &",
            "command=$!",
            '[ -z "$early" ] || kill -s "$early" "$command"',
            "code=127",
            "while :; do",
            "    passed=",
            '    wait "$command"; status=$?',
            '    [ "$status" = 127 ] || code=$status    # 127: it was waited for already',
            '    [ -n "$passed" ] || break',
            "done",
            "",
            "# SLURM forgets a job some minutes after its end; this stays.",
            f'echo "${{SLURM_RESTART_COUNT:-0}} $code" >> {shlex.quote(str(folder / END_FILE))}',
            'exit "$code"',
            "",
        ]
    )


def _pattern(path: Path) -> str:
    """A file name for sbatch, in which a percent sign begins a placeholder."""
    return str(path).replace("%", "%%")


def directive(option: str) -> str:
    """The line of a script for an option: sbatch splits it at blanks, and knows quotes and backslashes.

    Raises:
        ValueError: for an option with several lines.
    """
    if re.fullmatch(r"[\w@%+=:,./\[\]-]+", one_line(option)):
        return f"#SBATCH {option}"
    name, equals, value = option.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'#SBATCH {name}{equals}"{escaped}"'


def recorded_end(folder: Path, restarts: int) -> int | None:
    """Exit code that the script wrote at the end of its last start; `None`: it did not get there."""
    try:
        last = (folder / END_FILE).read_text(encoding="ascii").splitlines()[-1]
        count, code = map(int, last.split())
    except (OSError, ValueError, IndexError):
        return None
    return code if count >= restarts else None


def find_command() -> tuple[str, ...]:
    """A command that prints number and command of all jobs and job arrays of the user in SLURM, for
    `find_job_number`.
    """
    return ("squeue", "--noheader", f"--user={getpass.getuser()}", "--states=all", "--format=%F %o")


def find_job_number(output: str, script: Path) -> str | None:
    """The number of the job that was submitted with this script."""
    for line in output.splitlines():
        number, _, command = line.strip().partition(" ")
        if command == str(script):
            return number
    return None


_UNREACHABLE = re.compile(
    r"unable to contact slurm controller|socket timed out|connection refused|connect failure|"
    r"communication connection failure|transport endpoint|zero bytes were transmitted|"
    r"in standby|unexpected message received|could not establish a configuration source|temporarily unable",
    re.IGNORECASE,
)


def is_no_answer(errors: str) -> bool:
    """True if SLURM did not answer, or not now: the request may or may not have been executed."""
    return bool(_UNREACHABLE.search(errors))


def is_forgotten(errors: str) -> bool:
    return bool(re.search(r"invalid job id specified|^job \S+ not found", errors, re.IGNORECASE))


def error_text(errors: str) -> str:
    """The last error message of a command of SLURM, without the prefix."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    if not lines:
        return "no output"
    return re.sub(r"^(?:\w+: (?:error|fatal): |slurm_load_jobs error: )", "", lines[-1])


def is_absent() -> bool:
    return shutil.which("sbatch") is None


@dataclass(frozen=True, slots=True)
class JobPartition:
    name: str
    is_default: bool
    is_up: bool
    time_limit: str
    """Limit in SLURM's notation: `1-00:00:00`, `infinite`."""
    nodes: int
    gres: str
    """Devices of a node: `gpu:h200:8`; empty: none that SLURM knows of."""


def partitions(*, timeout_s: float) -> tuple[JobPartition, ...]:
    """The partitions in the order of SLURM; empty without SLURM.

    Raises:
        RltuiError: if it does not answer.
    """
    from rltui.services.processes import (
        subprocesses,  # asyncio, which the remote runner of a job need not load
    )

    if is_absent():
        return ()
    printed = subprocesses.check_output(
        ("sinfo", "--noheader", "--format=%P|%a|%l|%D|%G"), timeout_s=timeout_s
    )
    by_name: dict[str, JobPartition] = {}
    for line in printed.decode(errors="replace").splitlines():
        name, state, limit, nodes, gres = line.split("|")
        before = by_name.get(name.rstrip("*"))
        by_name[name.rstrip("*")] = JobPartition(
            name=name.rstrip("*"),
            is_default=name.endswith("*"),
            is_up=state == "up",
            time_limit=limit,
            nodes=int(nodes) + (before.nodes if before is not None else 0),
            gres=before.gres if before is not None and before.gres else gres.replace("(null)", ""),
        )
    return tuple(by_name.values())
