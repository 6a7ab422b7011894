"""What a component gets of the shell that its experiment was started from: limits, CPUs, umask, priority."""

from __future__ import annotations

import os
import resource

TYPE_CHECKING = False  # the one of `typing`, which costs a megabyte
if TYPE_CHECKING:
    from typing import Any


def take_over(shell: dict[str, Any]) -> list[str]:
    """Become like that shell, in the child that will be the component. Returns what could not be had."""
    try:
        return _take_over(shell)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:  # somebody wrote in the spec
        return [f"its limits cannot be understood ({error})"]


def _take_over(shell: dict[str, Any]) -> list[str]:
    problems = []
    for name, (soft, hard) in shell.get("limits", {}).items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None and not _set_limit(number, soft, hard):
            has = resource.getrlimit(number)[0]
            problems.append(f"the limit {name} is {has} instead of {soft}: the tmux server has no more")
    if cpus := shell.get("affinity"):
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:  # not one of them is there any more
            problems.append(f"it runs on the CPUs {sorted(os.sched_getaffinity(0))} instead of {cpus}")
    if (umask := shell.get("umask")) is not None:
        os.umask(umask)
    nice = shell.get("nice")
    if nice is not None and nice != os.getpriority(os.PRIO_PROCESS, 0):
        try:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except OSError:
            problems.append(f"its nice value is {os.getpriority(os.PRIO_PROCESS, 0)} instead of {nice}")
    return problems


def _set_limit(number: int, soft: int, hard: int) -> bool:
    """Nobody but root raises a hard limit: then as much as is allowed."""
    if resource.getrlimit(number) == (soft, hard):
        return True
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError):
        allowed = resource.getrlimit(number)[1]
        fits = allowed == resource.RLIM_INFINITY or 0 <= soft <= allowed
        resource.setrlimit(number, (soft if fits else allowed, allowed))
        return fits
    return True
