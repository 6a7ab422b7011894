"""Servers that an RL or SFT config names and prime-rl never starts: frozen models, env servers of others.

`facts/prime-rl.md`, Servers of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rltui.base.text import join_words
from rltui.core.config.data import value_at
from rltui.core.experiment.instances import instance_ids
from rltui.core.experiment.servers import ServerAddress, server_url, tcp_address
from rltui.errors import ConfigError, UsageError
from rltui.frameworks.prime_rl.values import is_table, rows, source_name, text

TEACHER = "teacher"
"""Id, in layouts, of the component that serves a frozen model; its instances are `teachers`."""
_SCORES, _GENERATES = "scores rollouts", "generates rollouts"
_OF_ALGORITHM = {"teacher": _SCORES, "sampling.source": _GENERATES}
"""Frozen model in the table of an algorithm → its work."""
_GROUPS = ("orchestrator.train.algo", "orchestrator.algo")
"""Tables of the algorithm of all sources, the present one first."""
_OF_SPRING = {
    "orchestrator.teacher": _SCORES,
    "orchestrator.teacher_model": _SCORES,
    "orchestrator.teacher_rollout_model": _GENERATES,
}
"""Tables of frozen models before there were algorithms."""
_TRAIN = ("orchestrator.train.source", "orchestrator.train.env", "orchestrator.env")
_EVAL = ("orchestrator.eval.source", "orchestrator.eval.env", "eval.source")
_ENVIRONMENTS: tuple[tuple[Literal["rollouts", "evals"], str, tuple[str, ...]], ...] = (
    ("rollouts", "train", _TRAIN),
    ("evals", "eval", _EVAL),
)
"""What needs their env servers, split, and arrays of sources in all generations."""
_ADDRESSES = ("serve.address", "address")


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A frozen model where the config names it."""

    key: str
    """Dotted key of its table, in the file."""
    table: Mapping[str, Any]
    work: str
    source: str = ""
    """Name of the only source that uses it; empty: all do."""

    @property
    def client(self) -> str:
        """Its own table, since June 2026; before, one beside that of the model."""
        return "client." if is_table(self.table, "client") else ""

    @property
    def urls(self) -> Sequence[Any]:
        """None without an address of its own: prime-rl refuses that, or means the run's own server."""
        urls = value_at(self.table, f"{self.client}base_url")
        return urls if isinstance(urls, list) else [urls] if isinstance(urls, str) else []

    def address(self, url: str) -> ServerAddress:
        of_source = f" of {self.source}" if self.source else ""
        has_headers = any(
            value_at(self.table, f"{self.client}{name}") for name in ("headers", "headers_from_env")
        )
        key = f"{self.key}.{self.client}base_url"
        return ServerAddress(
            checked(server_url, key, url),
            key_variable=text(self.table, f"{self.client}api_key_var") or "VLLM_API_KEY",
            model=text(self.table, "name", "model.name"),
            is_strict=value_at(self.table, f"{self.client}skip_model_check") is not True,
            key=key,
            needed_for="rollouts",
            used_for=f"{self.work}{of_source}",
            is_open=not has_headers,
        )


def frozen_models(data: Mapping[str, Any], own_ports: Iterable[int]) -> tuple[ServerAddress, ...]:
    """Each address of a frozen model once, whoever uses it; not those at `own_ports`, where the run itself
    serves. With the component that can serve it, if the address is this machine's.

    Raises:
        ConfigError: if one is no address.
    """
    if is_table(data, "teacher_inference") or value_at(data, "deployment.num_teacher_gpus"):
        return ()  # its launcher serves it
    own_urls = {f"http://{host}:{port}/v1" for host in ("localhost", "127.0.0.1") for port in own_ports}
    names: list[str] = []
    users: dict[tuple[str, str | None], list[ServerAddress]] = {}
    for frozen in _frozen(data):
        for address in map(frozen.address, map(str, frozen.urls)):
            if address.url in own_urls:
                continue
            if (address.url, address.model) not in users:
                names.append(frozen.source)
            users.setdefault((address.url, address.model), []).append(address)
    ids = instance_ids(TEACHER, numbered(names))
    return tuple(
        replace(
            uses[0],
            id=id_,
            used_for=_together(use.used_for for use in uses),
            component=id_ if uses[0].is_here else "",
        )
        for id_, uses in zip(ids, users.values(), strict=True)
    )


def env_servers(data: Mapping[str, Any]) -> tuple[ServerAddress, ...]:
    """The env servers of sources with an address.

    Raises:
        ConfigError: if one is no address.
    """
    found = []
    for needed_for, split, arrays in _ENVIRONMENTS:
        sources = [
            (f"{array}.{index}.{key}", source_name(row) or str(row.get("id", "")), address)
            for array in arrays
            for index, row in enumerate(rows(data, array))
            for key in _ADDRESSES
            if (address := text(row, key)) is not None
        ]
        ids = instance_ids(f"env-{split}", numbered([name for _, name, _ in sources]))
        found += [
            ServerAddress(
                checked(tcp_address, key, address),
                id=id_,
                key=key,
                needed_for=needed_for,
                used_for=f"runs {needed_for} of {name}",
            )
            for id_, (key, name, address) in zip(ids, sources, strict=True)
        ]
    return tuple(found)


def numbered(names: Sequence[str]) -> list[str]:
    """The names, with a number from the second of each on."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}".lstrip("-"))
    return result


def _frozen(data: Mapping[str, Any]) -> Iterator[_Frozen]:
    """The algorithm of a source replaces that of all."""
    for key, work in _OF_SPRING.items():
        if isinstance(table := value_at(data, key), Mapping):
            yield _Frozen(key, table, work)
    own, users = [], 0
    for array in _TRAIN:
        for index, row in enumerate(rows(data, array)):
            if is_table(row, "algo"):
                own.append((f"{array}.{index}.algo", row["algo"], source_name(row)))
            else:
                users += 1
    groups = [(key, value_at(data, key), "") for key in _GROUPS] if users or not own else []
    for algorithm, table, source in (*groups, *own):
        for key, work in _OF_ALGORITHM.items() if isinstance(table, Mapping) else ():
            if isinstance(frozen := value_at(table, key), Mapping):
                yield _Frozen(f"{algorithm}.{key}", frozen, work, source)


def _together(uses: Iterable[str]) -> str:
    """`scores rollouts of math and code`; of all sources if one use is."""
    by_work: dict[str, list[str]] = {}
    for use in dict.fromkeys(uses):
        work, _, source = use.partition(" of ")
        by_work.setdefault(work, []).append(source)
    return join_words(
        [work if "" in names else f"{work} of {join_words(names)}" for work, names in by_work.items()]
    )


def checked(parse: Callable[[str], str], key: str, address: str) -> str:
    """The address as `parse` has it.

    Raises:
        ConfigError: if it is none; names the key.
    """
    try:
        return parse(address)
    except UsageError as error:
        raise ConfigError(f"{key}: {error.title}", hint=error.hint) from error
