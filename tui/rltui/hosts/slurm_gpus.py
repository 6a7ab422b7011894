"""The GPUs of a SLURM job, which only a step in that job may see."""

from __future__ import annotations

import logging
import os
from functools import lru_cache

from rltui.base.interpreter import bare_command
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.hosts import slurm
from rltui.services.hosts.nodes import gpu_command

logger = logging.getLogger(__name__)

_END_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
"""A Python program that runs a command which is terminated when the supervisor is killed: `srun` goes on when
nobody reads its output, and its step in the job with it.
"""


@lru_cache(maxsize=64)  # called again and again while the job runs
def gpu_commands(component: str, attempt: int, job: str, nodes: str, tag: str) -> tuple[GpuCommand, ...]:
    """One command for each node of a running SLURM job. Keyed by the component too: two jobs may share a
    node, and each sees GPUs of its own.
    """
    try:
        names = slurm.node_names(nodes)
    except ValueError as error:
        logger.warning("the GPUs of job %s are not shown: %s", job, error)
        return ()
    commands = []
    for name in names:
        step = slurm.step_argv(job, name, os.environ)
        srun_argv = bare_command("-c", _END_WITH_PARENT, str(os.getpid()), *step)
        command = gpu_command(srun_argv, login=False, tag=tag, of_job=(component, attempt))
        commands.append(GpuCommand(f"{component}/{name}", *command))
    return tuple(commands)
