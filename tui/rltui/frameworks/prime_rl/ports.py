"""TCP ports of the programs of a run: the listeners, how they are moved together, and how others find them.

Read at the sources of v0.7.0, v0.8.0 and 559b44772: `env_addresses` of the orchestrator's config, rank 0 of
the trainer for NCCL, the orchestrator's sockets for batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rltui.base.kinds import is_integer
from rltui.base.toml.values import TomlValue
from rltui.core.config.data import value_at
from rltui.core.config.knobs import KnobValue
from rltui.core.experiment.servers import port_of, reachable_host
from rltui.errors import UsageError
from rltui.frameworks.inputs import RunContext
from rltui.frameworks.launch import PortKnob
from rltui.frameworks.prime_rl.configs import PARTS, is_of_summer
from rltui.frameworks.prime_rl.generation import ATTEMPT_LOGS, Generation
from rltui.frameworks.prime_rl.values import (
    ENGINE_ABOVE,
    NCCL_PORT,
    ROUTER_METRICS_ABOVE,
    EnvSource,
    is_table,
    rows,
    text,
)

WEIGHTS, BATCHES = "weight_broadcast", "rollout_transport"
"""Tables of what trainer and its partner must say alike."""
_SERVER, _ENGINE, _METRICS = "inference.server.port", "inference.backend_port", "trainer.metrics_server"
_FIRST_SERVER, _FIRST_ENVIRONMENT = 8000, 5000
_FIXED = {WEIGHTS: ("trainer", "nccl", NCCL_PORT, ()), BATCHES: ("orchestrator", "zmq", 5555, (1, 2))}
"""Table → listening component, transport, port, and offsets of further ports; the second port above the one
for batches went away in August 2026.
"""
FILE_BROADCAST: Mapping[str, KnobValue] = {
    WEIGHTS: None,
    **{f"{part}.{WEIGHTS}": None for part in PARTS},
    f"{WEIGHTS}.type": "filesystem",
}
"""Edits that send weights through files."""


def attempt_configs(context: RunContext) -> str:
    """Folder in which the programs of a run look for one another's files; it outlives their restarts."""
    return f"{context.own_folder}/resolved/newest"


def attempt_logs(context: RunContext) -> str:
    """Folder for logs that programs write besides their output."""
    return f"{context.run_folder}/{ATTEMPT_LOGS}"


def knobs(g: Generation, data: Mapping[str, Any], sources: Sequence[EnvSource]) -> Iterator[PortKnob]:
    """Ports of all listeners with the config `data`: the server, then one for each block of ports that follow
    from one key. Not those of a server if the orchestrator is sent to another one.
    """
    yield from _server_knobs(g, data)
    if not g.has_launchers:
        return
    own = [index for index, source in enumerate(sources) if source.component]
    if own and g.env_port:
        first = _port(value_at(data, g.env_port), _FIRST_ENVIRONMENT)
        yield PortKnob("env servers", g.env_port, first, (g.partner,), more=tuple(own))
    for table, (component, kind, default, more) in _FIXED.items():
        if transport(g, data, table) == kind:
            key = f"trainer.{table}.port" if is_table(data, f"trainer.{table}") else f"{table}.port"
            port = _port(value_at(data, key), default)
            yield PortKnob(component, key, port, ("trainer", g.partner), more=more)
    if is_table(data, _METRICS):
        key = f"{_METRICS}.port"
        yield PortKnob("trainer", key, _port(value_at(data, key)), ("trainer",))


def edits(g: Generation, data: Mapping[str, Any], overrides: Mapping[str, int | str]) -> dict[str, KnobValue]:
    """Edits for the ports that rltui chose, in every position of the config that needs them."""
    result: dict[str, KnobValue] = {}
    for table, (_, kind, _, _) in _FIXED.items():
        if (port := overrides.get(f"{table}.port")) is not None:
            result |= {f"{table}.type": kind, f"{table}.port": port}
        if (port := overrides.get(f"trainer.{table}.port")) is not None:
            result |= {f"{role}.{table}.port": port for role in ("trainer", "orchestrator")}
    for key in (g.env_port, f"{_METRICS}.port"):
        if (port := overrides.get(key)) is not None:
            result[key] = port
    if {_SERVER, _ENGINE} & overrides.keys():
        router, engine = _server_ports(g, data, overrides)
        url = f"http://localhost:{router}/v1"
        result |= {_SERVER: router, base_url_key(g, data): url if g.has_router else [url]}
        result |= {_ENGINE: engine} if _has_router(g, data) else {}
    return result


def sent_to(g: Generation, data: Mapping[str, Any], urls: Sequence[str]) -> dict[str, KnobValue]:
    """Edits for a run that uses the inference servers at `urls`, and starts none.

    Weights go through files: to broadcast them in memory the trainer must know the engine's devices, which rl
    counts in the table that is missing.
    """
    key = base_url_key(g, data)
    if len(urls) > 1 and g.has_router:
        raise UsageError(
            f"{key} takes one address here, not {len(urls)}", hint="put a router in front of the servers"
        )
    result: dict[str, KnobValue] = {"inference": None, key: urls[0] if g.has_router else list(urls)}
    if value_at(data, admin := f"{client_table(key)}.admin_base_url") is not None:
        result[admin] = None
    if transport(g, data, WEIGHTS) != "filesystem":
        result |= FILE_BROADCAST
    return result


def lent(g: Generation, data: Mapping[str, Any], urls: Sequence[str]) -> dict[str, KnobValue]:
    """Edits for a run that uses the engine at the first of `urls` as if it were the one of [inference],
    without a router: its devices and its transport of weights are those of that table.
    """
    key, url = base_url_key(g, data), urls[0]
    result: dict[str, KnobValue] = {_SERVER: port_of(url), key: url if g.has_router else [url]}
    if g.has_router:
        result["inference.router"] = "None"
    for obsolete in (_ENGINE, f"{client_table(key)}.admin_base_url"):
        if value_at(data, obsolete) is not None:
            result[obsolete] = None
    return result


def client_table(key: str) -> str:
    """The table with the address of the server and the other keys about it."""
    return key.rpartition(".")[0]


def values(
    g: Generation,
    data: Mapping[str, Any],
    context: RunContext,
    *,
    sources: Sequence[EnvSource] = (),
    moving: Sequence[PortKnob] = (),
) -> dict[str, str]:
    """Values for layouts: `host.inference`, `port.inference`, `port.engine`; `port.weights` of the trainer
    and `port.batches` of the orchestrator, empty if those go through files; and for each env server either
    `port.env.<split>.<name>` with `tcp.env.…`, or the file that it writes its address into, `address.env.…`.

    `moving`: the result of `knobs`.
    """
    router, engine = _server_ports(g, data, context.overrides)
    host = value_at(data, "inference.server.host")
    chosen_ports = {item.knob: int(context.overrides.get(item.knob, item.port)) for item in moving}
    result = {
        "host.inference": reachable_host(host if isinstance(host, str) else ""),
        "port.inference": str(router),
        "port.engine": str(engine),
    }
    for name, table in (("weights", WEIGHTS), ("batches", BATCHES)):
        result[f"port.{name}"] = str(
            next((port for key, port in chosen_ports.items() if f"{table}." in key), "")
        )
    first = chosen_ports.get(g.env_port, _FIRST_ENVIRONMENT)
    for index, source in enumerate(sources):
        name = f"env.{source.split}.{source.name}"
        file = _address_file(g, source, name, context)
        result[f"address.{name}"] = file
        result[f"port.{name}"] = "" if file else str(first + index)
        result[f"tcp.{name}"] = "" if file else f"127.0.0.1:{first + index}"
    return result


def _server_ports(
    g: Generation, data: Mapping[str, Any], overrides: Mapping[str, int | str]
) -> tuple[int, int]:
    """Ports for clients and of the engine: one and the same without a router."""
    router = _port(overrides.get(_SERVER, value_at(data, _SERVER)))
    if not _has_router(g, data):
        return router, router
    default_engine = _port(value_at(data, _SERVER)) + ENGINE_ABOVE
    return router, _port(overrides.get(_ENGINE, value_at(data, _ENGINE)), default_engine)


def transport(g: Generation, data: Mapping[str, Any], table: str) -> str:
    """Transport of weights or batches: the config's, else the launcher's default."""
    configured = text(data, f"{table}.type", f"trainer.{table}.type")
    if configured is not None:
        return configured
    if table == BATCHES:
        with_sources = rows(data, "orchestrator.train.source") or g.batches == "zmq"
        return "zmq" if with_sources and g.batches != "filesystem" else "filesystem"
    can_broadcast = g.broadcasts == "nccl" or (g.broadcasts == "nccl since summer" and is_of_summer(data))
    is_file = not can_broadcast or is_table(data, g.lora) or not is_table(data, "inference")
    return "filesystem" if is_file else "nccl"


def _address_file(g: Generation, source: EnvSource, name: str, context: RunContext) -> str:
    """The file in the config that was made for it, else the generation's default; empty: it has a fixed
    port.
    """
    if (config := context.made.get(name)) is not None:
        return text(config, "address_file") or ""
    folder = f"{attempt_configs(context)}/envs/{source.split}"
    return "" if g.env_port else f"{folder}/{source.name}.address"


def _server_knobs(g: Generation, data: Mapping[str, Any]) -> Iterator[PortKnob]:
    router, engine = _server_ports(g, data, {})
    addresses = [value_at(data, key) for key in g.base_urls]
    if not is_table(data, "inference") or not all(_is_here(address, router) for address in addresses):
        return
    readers = ("inference", g.partner)
    offset = ROUTER_METRICS_ABOVE
    has_metrics = _has_router(g, data) and router + offset < 65536
    yield PortKnob("inference", _SERVER, router, readers, more=(offset,) if has_metrics else ())
    admin_url = f"{client_table(base_url_key(g, data))}.admin_base_url"
    if engine != router and value_at(data, admin_url) is None:
        yield PortKnob("inference", _ENGINE, engine, readers)


def _has_router(g: Generation, data: Mapping[str, Any]) -> bool:
    """A router stands before the engine, unless it is switched off."""
    return g.has_router and value_at(data, "inference.router") != "None"


def base_url_key(g: Generation, data: Mapping[str, Any]) -> str:
    """Key of the orchestrator's half of the server's address: it moved in June and July 2026."""
    if len(g.base_urls) == 1 or not is_of_summer(data):
        return g.base_urls[0]
    return g.base_urls[1 if is_table(data, "orchestrator.student") else 2]


def _is_here(configured: TomlValue, port: int) -> bool:
    """Whether clients are sent to this machine's `port`, or the config leaves it to that."""
    addresses = configured if isinstance(configured, list) else [configured]
    here = {f"http://{name}:{port}/v1" for name in ("localhost", "127.0.0.1", "0.0.0.0")}  # noqa: S104
    is_named_here = len(addresses) == 1 and str(addresses[0]).rstrip("/") in here
    return configured is None or is_named_here


def _port(configured: TomlValue, default: int = _FIRST_SERVER) -> int:
    """A port from the config; the default if it is none, which the check reports."""
    is_port = is_integer(configured) and 0 < configured < 65536
    return configured if is_port else default
