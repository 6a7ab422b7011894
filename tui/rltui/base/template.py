"""Fill `{name}` placeholders in layout values. Values are never parsed again and never reach a shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rltui.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands for a value that the config lacks; its consumer reports the reason and the advice."""

    reason: str
    hint: str = ""


TemplateValue = str | tuple[str, ...] | Missing
GIVEN = "given."
"""Prefix of values that come with the request to start a manual component."""
_PLACEHOLDER = re.compile(r"\{([a-z_][A-Za-z0-9_.+/:-]*)\}")
"""Capitals and signs come with the names of instances, such as an environment's."""


def render(text: str, values: Mapping[str, TemplateValue], *, where: str) -> str:
    """Fill every placeholder of `text` with a single value.

    Raises:
        ConfigError: for an unknown placeholder; `where` names the layout and key.
    """
    return _PLACEHOLDER.sub(lambda match: _single(_lookup(match[1], values, where), match[1], where), text)


def render_arguments(
    arguments: tuple[str, ...], values: Mapping[str, TemplateValue], *, where: str
) -> tuple[str, ...]:
    """Fill an argument list. An argument that is one placeholder with a tuple value is spliced in."""
    filled: list[str] = []
    for argument in arguments:
        placeholder = _PLACEHOLDER.fullmatch(argument)
        value = _lookup(placeholder[1], values, where) if placeholder else ""
        if isinstance(value, tuple):
            filled.extend(value)
        else:
            filled.append(render(argument, values, where=where))
    return tuple(filled)


def placeholders(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(match[1] for text in texts for match in _PLACEHOLDER.finditer(text))


def _lookup(name: str, values: Mapping[str, TemplateValue], where: str) -> str | tuple[str, ...]:
    if name not in values:
        raise ConfigError(
            f"{where}: unknown placeholder {{{name}}}",
            hint=f"known here: {', '.join('{' + name_ + '}' for name_ in sorted(values))}",
        )
    value = values[name]
    if isinstance(value, Missing):
        raise ConfigError(f"{where}: no value for {{{name}}}: {value.reason}", hint=value.hint)
    return value


def _single(value: str | tuple[str, ...], name: str, where: str) -> str:
    if isinstance(value, tuple):
        raise ConfigError(f"{where}: {{{name}}} holds several arguments and must be a list item of its own")
    return value
