"""TCP ports that an RL run listens on, and two that are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.config_report import Problem
from rltui.frameworks.prime_rl.current.shape import NONE
from rltui.frameworks.prime_rl.ports import ROUTER_METRICS_ABOVE

_READY_ABOVE_BATCHES = 1


def port_problems(values: Mapping[str, Any], *, path: str, servers: int, router: object) -> Iterator[Problem]:
    """`values`: every knob's effective value, and the tables. `servers`: number of env servers."""
    used: dict[int, str] = {}
    for name, port, what in _ports(values, servers=servers, router=router):
        if port in used:
            message = f"{name} ({what}) takes port {port}, as {used[port]} does: change one of them"
            yield Problem(key=name, message=message, file=path)
        used.setdefault(port, f"{name} ({what})")


def _ports(v: Mapping[str, Any], *, servers: int, router: object) -> Iterator[tuple[str, int, str]]:
    if v.get("inference") is not None:
        port = v["inference.server.port"]
        yield "inference.server.port", port, "requests"
        if router != NONE:
            yield "inference.server.port", port + ROUTER_METRICS_ABOVE, "metrics of the router"
            yield "inference.backend_port", v["inference.backend_port"], "engine"
        if v["inference.vllm.data_parallel_size"] > 1:
            rpc = "inference.vllm.data_parallel_rpc_port"
            yield rpc, v[rpc], "engines"
    if v["weight_broadcast.type"] == "nccl":
        yield "weight_broadcast.port", v["weight_broadcast.port"], "weights"
    if v["trainer.rollout_transport.type"] == "zmq":
        port = v["rollout_transport.port"]
        yield "rollout_transport.port", port, "batches"
        yield "rollout_transport.port", port + _READY_ABOVE_BATCHES, "trainer's ready message"
    base = "orchestrator.env_server_base_port"
    yield from ((base, v[base] + index, "environments") for index in range(servers))
    if v.get("trainer.metrics_server") is not None:
        yield "trainer.metrics_server.port", v["trainer.metrics_server.port"], "metrics of the trainer"
