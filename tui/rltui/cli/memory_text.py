"""An out-of-memory verdict for people, with the commands that would help."""

from __future__ import annotations

import shlex
from typing import Any

from rltui.core.api import ComponentStatus
from rltui.core.gpu.out_of_memory import verdict
from rltui.core.gpu.report import Remedy
from rltui.core.knobs import shown

MOST_COMMANDS = 2


def memory_lines(component: dict[str, Any]) -> list[str]:
    """The verdict, and a command for each of the first remedies. `component`: with `out_of_memory`."""
    status = ComponentStatus.model_validate(component)
    told = [] if status.out_of_memory is None else [verdict(status.out_of_memory)]
    return [*told, *(f"→ {command(remedy)}" for remedy in status.remedies[:MOST_COMMANDS])]


def command(remedy: Remedy) -> str:
    """`rltui set trainer.model.seq_len=2048 --restart`, or a restart that names what reads no such knob."""
    edits = [f"{key}={'unset' if value is None else shown(value)}" for key, value in remedy.edits.items()]
    if not remedy.components:
        return shlex.join(["rltui", "set", *edits, "--restart"])
    restart = ["rltui", "restart", *remedy.components]
    return f"{shlex.join(['rltui', 'set', *edits])} && {shlex.join(restart)}"
