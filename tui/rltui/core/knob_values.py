"""From what a person types (`KEY=VALUE`) to a knob and a typed value."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rltui.core.config_report import KnobValue
from rltui.core.knob_matches import rank
from rltui.core.knobs import Knob, TomlValue, shown
from rltui.core.secrets import MASK, OTHER_MASK, is_secret
from rltui.core.text import did_you_mean
from rltui.core.toml_values import parse_value as parse_toml
from rltui.errors import ConfigError, UsageError

_MOST_GUESSES = 3
_UNSET = frozenset({"none", "null", "unset", "default"})


def split_assignment(text: str) -> tuple[str, str]:
    """`KEY=VALUE` in two.

    Raises:
        UsageError: if there is no `=` or no key.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{text!r} is not KEY=VALUE", hint="for example orchestrator.batch_size=64")
    return key.strip(), value.strip()


_NONE_RENAMED: Mapping[str, str] = {}


def find_knob(
    knobs: Sequence[Knob],
    name: str,
    *,
    others: Sequence[Knob] = (),
    renamed: Mapping[str, str] = _NONE_RENAMED,
) -> Knob:
    """The knob of that name, or the only one whose name ends with it (`batch_size`, `optim.lr`).

    A knob of the main file goes before one with a namespace; `sft.lr` finds `sft.optim.lr`. Among several, a
    main knob goes before the others. `others` are
    further keys of the files; where a name could mean both, `knobs` go first. `renamed`: what to say of keys
    that other generations have, by dotted key.

    Raises:
        ConfigError: if none fits (with the closest name), or several (with all of them).
    """
    wanted = name.replace("-", "_")
    named = {knob.name: knob for knob in (*others, *knobs)}
    if exact := named.get(name) or named.get(wanted):
        return exact
    for among in (knobs, others):
        fitting = [knob for knob in among if _ends_with(knob, wanted)]
        chosen = [knob for knob in fitting if not knob.namespace] or fitting
        chosen = [knob for knob in chosen if knob.main] or chosen
        if len(chosen) == 1:
            return chosen[0]
        if chosen:
            names = _listed([knob.name for knob in chosen])
            raise ConfigError(f"{name} could be {names}", hint="write the whole name")
    said = next((text for key, text in renamed.items() if f".{key}".endswith(f".{wanted}")), "")
    guess = did_you_mean(name, [*named, *(known.rpartition(".")[2] for known in named)])
    hint = said or guess or _by_meaning(name, knobs)
    raise UnknownKnobError(f"unknown knob {name}", hint=hint or "rltui knobs --all lists all there are")


def _by_meaning(name: str, knobs: Sequence[Knob]) -> str:
    """As `rltui knobs` finds them: `learning_rate` is what `optim.lr` means."""
    words = re.split(r"[._-]+", name)
    ranked = [
        (found, knob.name) for knob in knobs if (found := rank(words, knob.name, knob.help)) is not None
    ]
    likeliest = [known for _, known in sorted(ranked)[:_MOST_GUESSES]]
    return f"is it {_listed(likeliest) if len(likeliest) > 1 else likeliest[0]}?" if likeliest else ""


class UnknownKnobError(ConfigError):
    """No knob and no key of the files has that name."""


def parse_value(knob: Knob, text: str) -> KnobValue:
    """A typed value: TOML syntax, text also without quotes.

    `none` removes a key that may be absent. So do `null`, `unset` and `default`, where they can be no value:
    of a text, and among the choices, each of these words is a value like any other.

    Raises:
        ConfigError: if the type or a bound is wrong; the message names the knob and what it takes.
    """
    is_none = knob.kind == "str" and knob.nullable and text.lower() == "none"
    if is_none or (knob.kind != "str" and text.lower() in _UNSET and text not in knob.choices):
        return None
    return checked(knob, _literal(knob, text))


def checked(knob: Knob, value: TomlValue) -> KnobValue:
    """The value as the knob's own type.

    Raises:
        ConfigError: if the type or a bound is wrong.
    """
    if value is None:
        return None
    if is_secret(knob.key) and isinstance(value, str) and (MASK in value or OTHER_MASK in value):
        raise ConfigError(f"{knob.name} is a secret, which is not shown", hint="type the value itself")
    if fault := knob.fault(value):
        raise ConfigError(fault)
    if knob.kind == "float":
        return float(value)
    return value  # type: ignore[no-any-return]


def resolve_edits(
    knobs: Sequence[Knob],
    edits: Mapping[str, TomlValue],
    *,
    others: Sequence[Knob] = (),
    renamed: Mapping[str, str] = _NONE_RENAMED,
    add: Callable[[str, TomlValue], Knob] | None = None,
) -> dict[Knob, KnobValue]:
    """Names and values as clients send them, checked. Text is read like typed text.

    `others` are keys of the files that are no knobs. `add` makes a knob of a name that nothing has, and its
    value, and lets any text pass for a choice; `None`: both are refused.

    Raises:
        ConfigError: for an unknown or ambiguous name, a wrong value, or one knob set twice.
    """
    resolved: dict[Knob, KnobValue] = {}
    for name, value in edits.items():
        try:
            knob = find_knob(knobs, name, others=others, renamed=renamed)
        except UnknownKnobError:
            if add is None or value is None:
                raise
            value = typed(value) if isinstance(value, str) else value
            knob = add(name, value)
        if knob in resolved:
            raise ConfigError(f"{knob.name} is set twice", hint="give each knob once")
        taker = replace(knob, kind="str") if add is not None and knob.kind == "enum" else knob
        resolved[knob] = _resolved(taker, value, is_known=knob in knobs)
    return resolved


def _resolved(knob: Knob, value: TomlValue, *, is_known: bool) -> KnobValue:
    if is_known or knob.kind not in ("int", "float"):
        return parse_value(knob, value) if isinstance(value, str) else checked(knob, value)
    if isinstance(value, str):  # of an unknown key no more is known than that it holds a number
        value = None if value.lower() in _UNSET else _literal(knob, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return checked(knob, value)


def typed(text: str) -> TomlValue:
    """A value of a key of which nothing is known: TOML, or else plain text."""
    try:
        return parse_toml(text)
    except ValueError:
        return text


def _ends_with(knob: Knob, wanted: str) -> bool:
    namespace, _, rest = wanted.partition(".")
    own = knob.namespace and namespace == knob.namespace and knob.key.endswith(f".{rest}")
    return bool(own) or knob.name.endswith(f".{wanted}")


def _literal(knob: Knob, text: str) -> TomlValue:
    quoted = text[:1] in ("'", '"')
    if knob.kind in ("str", "enum") and not quoted:
        return text
    try:
        if "\n" in text and knob.kind != "list":
            raise ConfigError(f"{knob.name} must be {knob.expected}, in one line")
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        hint = 'write it like ["a", "b"] or [1, 2]' if knob.kind == "list" else ""
        message = f"{knob.name} must be {knob.expected}, not {shown(text, key=knob.key)}"
        raise ConfigError(message, hint=hint) from error


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
