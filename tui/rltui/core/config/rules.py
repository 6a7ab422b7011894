"""Rules between knobs, and their makers, for any framework: names go in, a rule with its message comes out.

A rule is silent if a value that it compares is `None`: not set, and without a default.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from rltui.base.kinds import is_integer
from rltui.base.toml.values import TomlValue
from rltui.core.config.knobs import display
from rltui.core.config.report import ProblemSeverity
from rltui.core.experiment.servers import LOOPBACK_HOSTS, port_of

Values = Mapping[str, Any]
"""Name → effective value of every knob."""
_MOST_TRIED = 1 << 16


@dataclass(frozen=True, slots=True)
class Rule:
    key: str
    """Name of the knob that is blamed."""
    needs: tuple[str, ...]
    """Names of all knobs and tables it looks at. It is not evaluated while one of them has a wrong type or
    bound, is no key of the schema in force, or is in a table that does not exist here: one that another
    member of a union has, or below a value of a wrong type.
    """
    fault: Callable[[Values], str | None]
    """Takes every knob's effective value, returns the error: with both knobs and the nearest valid values.
    Tables that exist are among the values, also empty ones; read them with `get`.
    """
    severity: ProblemSeverity = "error"
    instead: Mapping[str, Callable[[Values], str]] = field(default_factory=dict)
    """Further knobs that could be changed instead of `key` → their nearest valid values, in words."""


def last(name: str) -> str:
    """The last segment of a dotted name."""
    return name.rpartition(".")[2]


def number(value: float) -> str:
    """`2` for 2.0, `0.5` for 0.5; whole numbers with all their digits."""
    return str(value) if isinstance(value, int) else f"{value:g}"


def scaled(name: str, v: Values, factor: float) -> str:
    """The knob, its present value and the one to try; empty if it has none that could be lowered."""
    value = v.get(name)
    if not value:
        return f"a larger {name}" if factor > 1 else ""
    other = value * factor
    return (
        f"{name} {number(value)} → {number(int(other) if isinstance(value, int) else float(f'{other:.3g}'))}"
    )


def own(v: Values, name: str) -> TomlValue:
    """The value of a knob in the file itself, without shared values and defaults."""
    table, _, key = name.rpartition(".")
    section = v.get(table)
    return section.get(key) if isinstance(section, Mapping) else None


def nearest_multiples(value: int, divisor: int) -> str:
    """The multiples of `divisor` next to `value`, in words: `96 or 112`."""
    below = value // divisor * divisor
    return f"{below} or {below + divisor}" if below else f"{divisor}"


def nearest_divisors(value: int, divisor: int) -> str:
    """The divisors of `value` next to `divisor`, in words: `4 or 8`. Both are at least 1."""
    small = [number for number in range(1, min(math.isqrt(value), _MOST_TRIED) + 1) if value % number == 0]
    divisors = sorted({*small, *(value // number for number in small)})
    near = [
        *[candidate for candidate in divisors if candidate < divisor][-1:],
        *[candidate for candidate in divisors if candidate > divisor][:1],
    ]
    return " or ".join(map(str, near))


def bad_if(
    condition: Callable[[Values], object],
    key: str,
    also: Collection[str],
    message: str | Callable[[Values], str],
    severity: ProblemSeverity = "error",
) -> Rule:
    """A rule with a condition under which it is violated, and the message then."""

    def fault(v: Values) -> str | None:
        if not condition(v):
            return None
        return message if isinstance(message, str) else message(v)

    return Rule(key, (key, *also), fault, severity)


def when(rule: Rule, condition: Callable[[Values], bool], *, also: Collection[str] = ()) -> Rule:
    """A rule that only holds under a condition, which looks at the knobs in `also` too."""
    return replace(rule, needs=(*rule.needs, *also), fault=lambda v: rule.fault(v) if condition(v) else None)


def is_on(value: TomlValue) -> bool:
    """Whether a switch is true, or a value or table (also an empty one) is there."""
    return value is not None and value is not False


def _are_set(v: Values, *names: str) -> bool:
    return all(v[name] is not None for name in names)


def _or_none(value: TomlValue) -> str:
    return "not set" if value is None else display(value)


def divisible(name: str, by: str) -> Rule:
    """The value is a whole number of groups."""
    rule = bad_if(
        lambda v: v[name] is not None and v[by] and v[name] % v[by], name, (by,),
        lambda v: f"{name} ({v[name]}) must be divisible by {by} ({v[by]}): "
        f"nearest valid {last(name)} is {nearest_multiples(v[name], v[by])}",
    )  # fmt: skip
    return replace(rule, instead={by: lambda v: nearest_divisors(v[name], v[by])})


def divisible_by(name: str, divisor: int, *, where: tuple[str, TomlValue]) -> Rule:
    """A multiple of a constant, if another knob has a certain value."""
    other, required = where
    return bad_if(
        lambda v: v[name] is not None and v[other] == required and v[name] % divisor, name, (other,),
        lambda v: f"{name} ({v[name]}) must be divisible by {divisor} while {other} is {required}: "
        f"nearest valid {last(name)} is {nearest_multiples(v[name], divisor)}",
    )  # fmt: skip


def at_least(
    name: str, floor: str, *, also: Collection[str] = (), severity: ProblemSeverity = "error"
) -> Rule:
    """One value is at least another. `also`: shared knobs that may set both, whose faults make the two values
    unreliable.
    """

    def message(v: Values) -> str:
        lower = next((f"{shared}, which sets both," for shared in also if own(v, shared) == v[floor]), floor)
        return (
            f"{name} ({number(v[name])}) must be at least {floor} ({number(v[floor])}): "
            f"raise it to {number(v[floor])}, or lower {lower} to {number(v[name])}"
        )

    return bad_if(
        lambda v: _are_set(v, name, floor) and v[name] < v[floor], name, (floor, *also), message, severity
    )


def holds(name: str, group: str) -> Rule:
    """The value, a number of simultaneous things, must hold one whole group."""
    return bad_if(
        lambda v: _are_set(v, name, group) and v[name] < v[group], name, (group,),
        lambda v: f"{name} ({v[name]}) must be at least {group} ({v[group]}): "
        f"nearest valid {last(name)} is {v[group]}",
    )  # fmt: skip


def same(first: str, second: str, *, shared: str | None = None) -> Rule:
    """Two values with one meaning. `shared`: the knob that sets both, if there is one."""

    def message(v: Values) -> str:
        values = [display(v[name]) for name in (first, second) if v[name] is not None]
        way = f"remove both and set {shared} to" if shared else "set both to"
        return (
            f"{first} ({_or_none(v[first])}) and {second} ({_or_none(v[second])}) must be the same: "
            f"{way} {' or '.join(values)}"
        )

    return bad_if(lambda v: v[first] != v[second], first, (second, *([shared] if shared else [])), message)


def overruled(name: str, shared: str) -> Rule:
    """A value that is set but not read, since the shared one precedes it."""
    return bad_if(
        lambda v: _are_set(v, name, shared) and v[name] != v[shared], name, (shared,),
        lambda v: (
            f"{name} ({display(v[name])}) is ignored: the shared {shared} ({display(v[shared])}) takes"
            " precedence; remove one of them"
        ), "warning",
    )  # fmt: skip


def not_both(first: str, second: str, *, reason: str) -> Rule:
    """At most one of two: switches that are on, or tables and values that are there."""
    return bad_if(
        lambda v: is_on(v.get(first)) and is_on(v.get(second)), first, (second,),
        f"{first} and {second} cannot be used together, since {reason}: remove one of them",
    )  # fmt: skip


def in_share(name: str, what: str) -> Rule:
    """A share of a GPU's memory that the framework passes on unchecked to `what`, which refuses it."""
    return bad_if(
        lambda v: v[name] is not None and not 0 < v[name] <= 1, name, (),
        lambda v: f"{name} ({number(v[name])}) must be greater than 0 and at most 1: {what} refuses to start",
    )  # fmt: skip


def room_for_prompts(
    max_tokens: str, *limits: str, also: Collection[str] = (), severity: ProblemSeverity = "error"
) -> Rule:
    """A completion of full length must leave room for its prompt within each limit."""

    def fault(v: Values) -> str | None:
        for limit in limits:
            if _are_set(v, max_tokens, limit) and v[max_tokens] >= v[limit]:
                return (
                    f"{max_tokens} ({v[max_tokens]}) leaves no room for a prompt within {limit} "
                    f"({v[limit]}): set {last(max_tokens)} to {v[limit] - 1} or less, "
                    f"or {limit} to more than {v[max_tokens]}"
                )
        return None

    return Rule(max_tokens, (max_tokens, *limits, *also), fault, severity)


def requires(name: str, other: str, *allowed: TomlValue) -> Rule:
    """A switch, a number above 1 or a table that works only while another knob has one of some values."""

    def fault(v: Values) -> str | None:
        value = v.get(name)
        is_used = value > 1 if is_integer(value) else is_on(value)
        if not is_used or v[other] in allowed:
            return None
        what = f"{name} ({display(value)})" if not isinstance(value, Mapping) else name
        required = " or ".join(display(value_) for value_ in allowed)
        return f"{what} needs {other} to be {required}, not {_or_none(v[other])}: change one of them"

    return Rule(name, (name, other), fault)


def at_most(low: str, high: str) -> Rule:
    """Two bounds in order; they may be equal."""
    return bad_if(
        lambda v: _are_set(v, low, high) and v[low] > v[high], low, (high,),
        lambda v: f"{low} ({number(v[low])}) must be at most {high} ({number(v[high])})",
    )  # fmt: skip


def same_length(first: str, second: str, *, what: str) -> Rule:
    """Two lists whose elements belong together."""
    return bad_if(
        lambda v: _are_set(v, first, second) and len(v[first]) != len(v[second]), first, (second,),
        lambda v: f"{first} has {len(v[first])} elements, but {second} has {len(v[second])}: {what}",
    )  # fmt: skip


def same_port(url: str, port: str, *, severity: ProblemSeverity = "error") -> Rule:
    """An address, or the first of several, that must have the port of the server."""

    def fault(v: Values) -> str | None:
        value = v[url]
        address = value[0] if isinstance(value, list | tuple) and value else value
        if not isinstance(address, str) or v[port] is None:
            return None
        url_port = _port_of(address)
        if url_port is None:
            return f"{url} ({address}) is not a URL such as http://localhost:{v[port]}/v1"
        if url_port == v[port]:
            return None
        if (host := urlsplit(address).hostname) not in _THIS_MACHINE:
            return (
                f"{url} ({address}) is on another host, {host}: nothing would use the server at {port}"
                f" ({v[port]}). Use http://localhost:{v[port]}/v1, or start no server here: --inference"
                f" {address}"
            )
        return f"{url} ({address}) must name the port of {port} ({v[port]}): use the same port in both"

    return Rule(url, (url, port), fault, severity)


_THIS_MACHINE = LOOPBACK_HOSTS | {platform.node().lower()}


def _port_of(address: str) -> int | None:
    """The TCP port of an http address; `None` if it is none."""
    try:
        url = urlsplit(address)
        port = port_of(address)
    except ValueError:
        return None
    return port if url.scheme in ("http", "https") and url.hostname else None
