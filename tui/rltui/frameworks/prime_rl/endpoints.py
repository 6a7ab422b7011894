"""Servers that an RL or SFT config names and prime-rl never starts: frozen models, env servers of others.

`facts/prime-rl.md`, Servers of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from rltui.base.text import join_words
from rltui.core.config.data import value_at
from rltui.core.experiment.instances import instance_ids
from rltui.core.experiment.servers import LOOPBACK_HOSTS, ServerAddress, server_url, tcp_address
from rltui.errors import ConfigError, UsageError
from rltui.frameworks.prime_rl.configs import OVERLAY, SOURCES
from rltui.frameworks.prime_rl.values import is_table, rows, source_name, text

TEACHER = "teacher"
"""Id, in layouts, of the component that serves a frozen model; its instances are `teachers`."""
_ALGORITHMS = OVERLAY.concepts["algo"].keys
"""Tables of the algorithm of all sources; a source may have an `algo` of its own."""
_SCORES, _GENERATES = "scores rollouts", "generates rollouts"
_OF_ALGORITHM = {"teacher": _SCORES, "sampling.source": _GENERATES}
"""Frozen model in the table of an algorithm → its work."""
ROLLOUTS_OF_SPRING = "orchestrator.teacher_rollout_model"
"""With it, prime-rl of spring refuses [inference], and uses no other server."""
_OF_SPRING = {
    "orchestrator.teacher": _SCORES,
    "orchestrator.teacher_model": _SCORES,
    ROLLOUTS_OF_SPRING: _GENERATES,
}
"""The same before there were algorithms."""
_NEEDED_FOR: Mapping[str, Literal["rollouts", "evals"]] = {"train": "rollouts", "eval": "evals"}
"""Split → what needs its env servers."""


def frozen_models(
    data: Mapping[str, Any], own_ports: Callable[[], Collection[int]]
) -> tuple[ServerAddress, ...]:
    """Each address of a frozen model once, whoever uses it; not those at `own_ports`, where the run itself
    serves: asked for if there is one. With the component that can serve it, if the address is this machine's.

    Raises:
        ConfigError: if one is no address.
    """
    if is_table(data, "teacher_inference") or value_at(data, "deployment.num_teacher_gpus"):
        return ()  # its launcher serves it
    ports = own_ports() if (models := tuple(_frozen(data))) else ()
    own_urls = {f"http://{host}:{port}/v1" for host in LOOPBACK_HOSTS for port in ports}
    found: dict[tuple[str, str | None], tuple[ServerAddress, list[str]]] = {}
    for key, table, work, source in models:
        for address in _addresses(key, table, work):
            if address.url not in own_urls:
                found.setdefault((address.url, address.model), (address, []))[1].append(source)
    ids = instance_ids(TEACHER, _distinct([names[0] for _, names in found.values()]))
    return tuple(
        replace(
            address,
            id=id_,
            used_for=address.used_for if "" in names else f"{address.used_for} of {join_words(names)}",
            component=id_ if address.is_here else "",
        )
        for id_, (address, names) in zip(ids, found.values(), strict=True)
    )


def env_servers(data: Mapping[str, Any]) -> Iterator[ServerAddress]:
    """The env servers of sources with an address. Raises ConfigError as `frozen_models`."""
    for split, needed_for in _NEEDED_FOR.items():
        sources = [
            (f"{array}.{index}.{key}", source_name(row) or str(row.get("id", "")), address)
            for array in SOURCES[split]
            for index, row in enumerate(rows(data, array))
            for key in ("serve.address", "address")
            if (address := text(row, key)) is not None
        ]
        ids = instance_ids(f"env-{split}", _distinct([name for _, name, _ in sources]))
        for id_, (key, name, address) in zip(ids, sources, strict=True):
            url, use = checked(tcp_address, key, address), f"runs {needed_for} of {name}"
            yield ServerAddress(url, id=id_, key=key, needed_for=needed_for, used_for=use)


def _frozen(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str, str]]:
    """Key, table, work, and the name of the only source that uses it, empty if all without an algorithm of
    their own do.
    """
    sources = [(f"{array}.{i}", row) for array in SOURCES["train"] for i, row in enumerate(rows(data, array))]
    own = [(f"{key}.algo", row["algo"], source_name(row)) for key, row in sources if is_table(row, "algo")]
    is_used = not own or len(own) < len(sources)
    common = [(key, value_at(data, key), "") for key in _ALGORITHMS if is_used and is_table(data, key)]
    named = [(key, value_at(data, key), work, "") for key, work in _OF_SPRING.items()]
    named += [
        (f"{algorithm}.{key}", value_at(table, key), work, source)
        for algorithm, table, source in (*common, *own)
        for key, work in _OF_ALGORITHM.items()
    ]
    return ((key, table, work, source) for key, table, work, source in named if isinstance(table, Mapping))


def _addresses(key: str, table: Mapping[str, Any], work: str) -> Iterator[ServerAddress]:
    """Return those of one model; none if it names none: prime-rl refuses that, or takes the run's own."""
    client = "client." if is_table(table, "client") else ""  # beside the model's table until June 2026
    urls = value_at(table, f"{client}base_url")
    for url in urls if isinstance(urls, list) else [urls] if isinstance(urls, str) else []:
        yield ServerAddress(
            checked(server_url, address_key := f"{key}.{client}base_url", str(url)),
            key_variable=text(table, f"{client}api_key_var") or "VLLM_API_KEY",
            model=text(table, "name", "model.name"),
            is_strict=value_at(table, f"{client}skip_model_check") is not True,
            key=address_key,
            needed_for="rollouts",
            used_for=work,
            is_open=not any(value_at(table, f"{client}{name}") for name in ("headers", "headers_from_env")),
        )


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number from the second of each on."""
    counts = [names[: index + 1].count(name) for index, name in enumerate(names)]
    return [
        name if count == 1 else f"{name}-{count}".lstrip("-")
        for name, count in zip(names, counts, strict=True)
    ]


def checked(parse: Callable[[str], str], key: str, address: str) -> str:
    """The address as `parse` has it.

    Raises:
        ConfigError: if it is none; names the key.
    """
    try:
        return parse(address)
    except UsageError as error:
        raise ConfigError(f"{key}: {error.title}", hint=error.hint) from error
