"""The entry of a host in a launch: what the layout says of it, filled in, and the words that lead there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rltui.core.hosts import HostSpec, PodSpec
from rltui.services.kube import pod_argv


def filled_entry(spec: HostSpec, fill: Callable[[object], object]) -> dict[str, Any]:
    """The values of `spec`, their placeholders filled in by `fill`, with its `kind`.

    Where commands can be run on the host, the entry has `reach`, the words before such a command, and
    `login`, `env` and `send_env`, which say in what environment.
    """
    values = {key: fill(value) for key, value in spec.model_dump().items() if key != "done"}
    if isinstance(spec, PodSpec):
        reach = pod_argv(values)
        values |= {"done": spec.done, "reach": reach, "login": False, "env": {}, "send_env": ()}
    return {"kind": spec.kind, **values}


def terminal_reach(entry: Mapping[str, Any]) -> Sequence[str] | None:
    """The words before a command that gets the terminal here; `None` where no command leads to the host."""
    if "reach" not in entry:
        return None
    return pod_argv(entry, tty=True) if entry["kind"] == PodSpec.kind else entry["reach"]


def shows_gpus(spec: HostSpec | None) -> bool:
    """True if the GPUs of a component's host are read there, whether or not it runs; those of nodes are
    read by the layout's list of nodes.
    """
    return isinstance(spec, PodSpec) and spec.gpus
