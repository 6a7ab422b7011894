"""TCP ports that a merged config's programs listen on besides the server's, and how they are moved.

Read at the sources of v0.7.0, v0.8.0 and 559b44772: `env_addresses` of the orchestrator's config, rank 0 of
the trainer for NCCL, the orchestrator's sockets for batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.config_report import KnobValue
from rltui.frameworks.base import PortKnob, RunContext
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import urls
from rltui.frameworks.prime_rl.config_values import is_table, text
from rltui.frameworks.prime_rl.current.env_servers import EnvSource

ENVIRONMENTS = "orchestrator.env_server_base_port"
_FIRST_ENVIRONMENT = 5000
_WEIGHTS, _NCCL = "weight_broadcast", 29501
_BATCHES, _ZMQ = "rollout_transport", 5555
_BATCH_SOCKETS = (1, 2)
"""Above the port for batches; the second went away in August 2026."""
_METRICS = "trainer.metrics_server"


def fixed_ports(
    data: Mapping[str, Any], environments: tuple[EnvSource, ...], *, weights: str, batches: str
) -> Iterator[PortKnob]:
    """One for each block of ports that follow from one key.

    `environments`: all sources, in their order. `weights` and `batches`: how they go, where the config does
    not say.
    """
    own = [at for at, source in enumerate(environments) if source.component]
    if own:
        first = urls.port(value_at(data, ENVIRONMENTS), _FIRST_ENVIRONMENT)
        yield _knob("env servers", ENVIRONMENTS, first, ("orchestrator",), more=tuple(own))
    if _kind(data, _WEIGHTS, weights) == "nccl":
        yield _pair("trainer", data, _WEIGHTS, _NCCL)
    if _kind(data, _BATCHES, batches) == "zmq":
        yield _pair("orchestrator", data, _BATCHES, _ZMQ, more=_BATCH_SOCKETS)
    if is_table(data, _METRICS):
        key = f"{_METRICS}.port"
        yield _knob("trainer", key, urls.port(value_at(data, key)), ("trainer",))


def port_edits(context: RunContext) -> dict[str, KnobValue]:
    """The ports of `fixed_ports` that rltui chose, in every place that needs them."""
    edits: dict[str, KnobValue] = {}
    for table, kind in ((_WEIGHTS, "nccl"), (_BATCHES, "zmq")):
        if (port := context.overrides.get(f"{table}.port")) is not None:
            edits |= {f"{table}.type": kind, f"{table}.port": port}
        if (port := context.overrides.get(f"trainer.{table}.port")) is not None:
            edits |= {f"{part}.{table}.port": port for part in ("trainer", "orchestrator")}
    for key in (ENVIRONMENTS, f"{_METRICS}.port"):
        if (port := context.overrides.get(key)) is not None:
            edits[key] = port
    return edits


def fixed_values(
    ports: Iterator[PortKnob], environments: tuple[EnvSource, ...], context: RunContext
) -> dict[str, str]:
    """For layouts: `port.weights` of the trainer and `port.batches` of the orchestrator, empty where those go
    through files, and `port.env.<split>.<name>`.
    """
    chosen = {item.knob: int(context.overrides.get(item.knob, item.port)) for item in ports}
    found = {
        f"port.{name}": str(next((port for key, port in chosen.items() if f"{table}." in key), ""))
        for name, table in (("weights", _WEIGHTS), ("batches", _BATCHES))
    }
    first = chosen.get(ENVIRONMENTS, _FIRST_ENVIRONMENT)
    for at, source in enumerate(environments):
        found[f"port.env.{source.split}.{source.name}"] = str(first + at)
    return found


def _kind(data: Mapping[str, Any], table: str, otherwise: str) -> str:
    return text(data, f"{table}.type", f"trainer.{table}.type") or otherwise


def _pair(
    component: str, data: Mapping[str, Any], table: str, default: int, more: tuple[int, ...] = ()
) -> PortKnob:
    """Of what trainer and orchestrator must say alike: in the shared table, or in those of both."""
    key = f"trainer.{table}.port" if is_table(data, f"trainer.{table}") else f"{table}.port"
    port = urls.port(value_at(data, key), default)
    return _knob(component, key, port, ("trainer", "orchestrator"), more=more)


def _knob(
    component: str, key: str, port: int, readers: tuple[str, ...], *, more: tuple[int, ...] = ()
) -> PortKnob:
    return PortKnob(component, key, port, readers, by_option=False, more=more)
