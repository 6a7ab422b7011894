"""A SLURM of its own: a controller and two nodes on this machine, without munge or GPUs."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import retry_until

_SBIN = ("/usr/sbin", "/usr/local/sbin", "/sbin")
_CONF = """\
ClusterName=rig
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=2
MinJobAge=2
MessageTimeout=2
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=node1 NodeHostname=localhost Port={ports[1]} CPUs=4 Gres=gpu:2
NodeName=node2 NodeHostname=localhost Port={ports[2]} CPUs=4 Gres=gpu:2
PartitionName=main Nodes=ALL Default=YES MaxTime=60 DefaultTime=10 PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=10 PreemptMode=OFF
"""
_GRES = """\
AutoDetect=off
NodeName=node1 Name=gpu File={root}/gpu[0-1]
NodeName=node2 Name=gpu File={root}/gpu[2-3]
"""
"""Devices of no meaning: jobs get numbers of GPUs, and that is all."""


def _daemon(name: str) -> str | None:
    """Debian's go by another name until its alternatives are set up."""
    path = os.pathsep.join([os.environ["PATH"], *_SBIN])
    return shutil.which(name, path=path) or shutil.which(f"{name}-wlm", path=path)


def missing() -> list[str]:
    """Programs that the rig needs and this machine lacks."""
    daemons = ("slurmctld", "slurmd", "slurmstepd")
    commands = ("sbatch", "squeue", "scontrol", "scancel", "srun")
    found = [name for name in daemons if _daemon(name) is None]
    found += [name for name in commands if shutil.which(name) is None]
    return found if os.geteuid() == 0 else [*found, "root, which makes devices"]


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Rig:
    """The cluster. `env` is what its commands need."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {"SLURM_CONF": str(root / "slurm.conf")}
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._controller: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        user = Path("/proc/self").owner()
        (self.root / "slurm.conf").write_text(_CONF.format(ports=_free_ports(3), root=self.root, user=user))
        (self.root / "gres.conf").write_text(_GRES.format(root=self.root))
        for number in range(4):
            os.mknod(self.root / f"gpu{number}", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        for name in ("state", "spool-node1", "spool-node2"):
            (self.root / name).mkdir()
        self.start_controller()
        step = _daemon("slurmstepd")
        self._nodes = [self._run("slurmd", "-D", "-N", name, "-d", str(step)) for name in ("node1", "node2")]
        retry_until(
            lambda: self.say("sinfo", "-hN", "-p", "main", "-o", "%T").split() == ["idle"] * 2, timeout_s=30.0
        )

    def start_controller(self) -> None:
        self._controller = self._run("slurmctld", "-D")
        retry_until(lambda: "UP" in self.say("scontrol", "ping"), timeout_s=20.0)

    def stop_controller(self) -> None:
        assert self._controller is not None
        self._controller.terminate()
        self._controller.wait(20.0)
        self._controller = None

    def say(self, *command: str) -> str:
        """Output of one of its commands, which may fail."""
        done = subprocess.run(
            command, env={**os.environ, **self.env}, capture_output=True, text=True, check=False, timeout=60.0
        )
        return done.stdout

    def submit(self, *options: str, script: str = "sleep 600") -> str:
        """Number of a job of somebody else."""
        command = ["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script]
        done = subprocess.run(
            command, env={**os.environ, **self.env}, capture_output=True, text=True, check=True, timeout=60.0
        )
        return done.stdout.strip()

    def fill(self) -> list[str]:
        """Numbers of jobs that leave no room for others."""
        jobs = [self.submit("--exclusive", "-N1") for _ in range(2)]
        retry_until(lambda: self.say("squeue", "-h", "-o", "%T").split() == ["RUNNING"] * 2, timeout_s=20.0)
        return jobs

    def hurry(self, job: str) -> None:
        """A requeued job need not wait for two minutes, once its last start is cleared away."""
        retry_until(lambda: not self.say("squeue", "-h", "-t", "completing"), timeout_s=30.0)
        for _ in range(5):
            self.say("scontrol", "update", f"jobid={job}", "StartTime=now")
            with suppress(TimeoutError):  # told a moment too soon
                retry_until(
                    lambda: "RUNNING" in self.say("squeue", "-h", "-j", job, "-o", "%T"), timeout_s=8.0
                )
                return
        raise TimeoutError(f"job {job} does not start: {self.say('scontrol', 'show', 'job', job)}")

    def clear(self) -> None:
        """End all jobs."""
        self.say("scancel", f"--user={Path('/proc/self').owner()}")
        retry_until(lambda: not self.say("squeue", "-h"), timeout_s=30.0)

    def stop(self) -> None:
        if self._controller is None:
            self.start_controller()
        self.clear()
        for daemon in (*self._nodes, self._controller):
            assert daemon is not None
            daemon.terminate()
        for daemon in (*self._nodes, self._controller):
            assert daemon is not None
            daemon.wait(20.0)

    def _run(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        program = _daemon(name)
        assert program is not None
        with (self.root / f"{name}.out").open("ab") as output:
            return subprocess.Popen(
                [program, *arguments, "-f", str(self.root / "slurm.conf")],
                env={**os.environ, **self.env},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )


@contextmanager
def made_rig() -> Iterator[Rig]:
    """A cluster that is up. Afterwards no job or daemon of it is left."""
    root = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: sockets lie below it
    rig = Rig(root)
    try:
        rig.start()
        yield rig
    finally:
        rig.stop()
        shutil.rmtree(root, ignore_errors=True)
